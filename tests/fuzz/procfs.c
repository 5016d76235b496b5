// SPDX-License-Identifier: Apache-2.0
// Any bytes as the kernel's files: the first byte picks the reader. What comes out must hold its promises.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "host/cgroup.h"
#include "host/command.h"
#include "host/parse.h"
#include "host/roles.h"
#include "host/transport.h"
#include "model/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right) {
    if (!right)
        abort();
}

static void check_text(const char *text, size_t size) {
    check(strnlen(text, size) < size);
    for (const char *c = text; *c; c++)
        check((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void stat_line(const char *text, size_t len) {
    struct al_host_stat s;
    if (al_parse_stat(text, len, &s) == 0) {
        check_text(s.comm, sizeof s.comm);
        check(s.pid >= 0 && s.ppid >= 0);
    }
}

static void key_files(const char *text) {
    static const char *const keys[] = {"Uid", "RssAnon", "read_bytes", "Pss", "anon", "MemTotal", "btime"};
    uint64_t values[7] = {0};
    uint32_t found = al_parse_keys(text, keys, 7, values);
    check(found < 1U << 7);
    for (unsigned i = 0; i < 7; i++)
        check(found & (1U << i) || !values[i]);
    double ratio = 0;
    if (al_parse_psi(text, "some", &ratio))
        check(ratio >= 0 && ratio <= 1);
    struct al_host_cpu cpu;
    (void)al_parse_cpu(text, &cpu);
    uint64_t number;
    (void)al_parse_number(text, &number);
    (void)al_parse_cpulist(text);
    pid_t pids[16];
    size_t count = al_parse_pids(text, pids, 16);
    check(count <= 16);
    for (size_t i = 0; i < count; i++)
        check(pids[i] >= 0);
}

static void tables(const char *text, size_t len) {
    const char *cursor = text;
    struct al_host_disk disk;
    while (al_parse_disk(&cursor, &disk)) {
        check(cursor <= text + len && disk.name[0] && strlen(disk.name) < sizeof disk.name);
        (void)al_disk_is_stacked(disk.name);
        check(!al_disk_is_partition_of(disk.name, disk.name));
    }
    cursor = text;
    struct al_host_net net;
    while (al_parse_net(&cursor, &net))
        check(cursor <= text + len && net.name[0] && strlen(net.name) < sizeof net.name);
}

static void groups(const char *text) {
    struct al_cgroup c;
    al_cgroup_parse(text, &c);
    check(strlen(c.unified) < sizeof c.unified && strlen(c.memory) < sizeof c.memory);
    check_text(c.container, sizeof c.container);
    check_text(c.pod, sizeof c.pod);
    check(strspn(c.slurm_job, "0123456789") == strlen(c.slurm_job));
    check(al_cgroup_show(&c) != NULL);
}

static void environment(const char *text, size_t len) {
    struct al_host_env e;
    al_parse_environ(text, len, &e);
    check(e.rank >= -1 && e.local_rank >= -1 && e.node_rank >= -1 && e.world_size >= -1);
    check(e.world_size < 0 || e.world_size > e.rank);
    check_text(e.slurm_job, sizeof e.slurm_job);
    check_text(e.visible_devices, sizeof e.visible_devices);
    struct al_buf b = AL_BUF_INIT;
    al_transport_environ(&b, text, len);
    al_buf_char(&b, '\0');
    check_text(b.data, b.len);
    for (const char *p = b.data; *p; p += strcspn(p, " "), p += *p == ' ')
        check(strncmp(p, "NCCL_", 5) == 0 || strncmp(p, "local_world=", 12) == 0); // a value brings in no word of its own
    al_buf_free(&b);
}

static void command(const char *text, size_t len) {
    char out[AL_CMD_MAX];
    struct al_program program;
    al_command_mask(text, len, out, sizeof out);
    check_text(out, sizeof out);
    al_program_parse(text, len, &program);
    check_text(program.exe, sizeof program.exe);
    check_text(program.name, sizeof program.name);
    check_text(program.verb, sizeof program.verb);

    // A secret value stays out, whatever stands before it.
    static const char secret[] = "\0--api-key\0Zq9Zq9Zq9";
    char with[600];
    size_t keep = len < sizeof with - sizeof secret ? len : sizeof with - sizeof secret;
    memcpy(with, text, keep);
    memcpy(with + keep, secret, sizeof secret);
    al_command_mask(with, keep + sizeof secret - 1, out, sizeof out);
    char before[600];
    memcpy(before, text, keep);
    if (!memmem(before, keep, "Zq9", 3))
        check(!strstr(out, "Zq9"));
}

// Four bytes a process: pid, parent, flags, rank.
static void roles(const char *text, size_t len) {
    static const char *const names[] = {"python3", "bash", "torchrun", "VLLM::EngineCore"};
    struct al_role_node nodes[64];
    size_t count = 0;
    for (size_t i = 0; i + 4 <= len && count < 64; i += 4) {
        const uint8_t *b = (const uint8_t *)text + i;
        pid_t pid = (count ? nodes[count - 1].pid : 0) + 1 + b[0] % 3;
        nodes[count++] = (struct al_role_node){.pid = pid, .ppid = b[1], .uid = b[2] & 1, .gpu = b[2] & 2,
                                               .devices = 1ULL << (b[2] >> 6), .rank = b[3] % 4 - 1,
                                               .local_rank = b[3] / 4 % 4 - 1, .world_size = b[3] / 16 % 4 - 1,
                                               .comm = "x", .exe = names[b[2] >> 2 & 3], .program = names[b[2] >> 4 & 3],
                                               .verb = "", .command = names[b[2] >> 3 & 3]};
    }
    al_roles_assign(nodes, count);
    for (size_t i = 0; i < count; i++) {
        check(nodes[i].role <= AL_ROLE_OTHER && (!nodes[i].gpu || nodes[i].member));
        check(nodes[i].role != AL_ROLE_WORKER || nodes[i].owner > 0);
        check(nodes[i].role != AL_ROLE_LAUNCHER || nodes[i].job > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    size_t len = size - 1;
    char *text = malloc(len + 1); // exactly as long, so that a byte too far is caught
    if (!text)
        return 0;
    memcpy(text, data + 1, len);
    text[len] = '\0';
    switch (data[0] % 8) {
    case 0: stat_line(text, len); break;
    case 1: key_files(text); break;
    case 2: tables(text, len); break;
    case 3: groups(text); break;
    case 4: environment(text, len); break;
    case 5: command(text, len); break;
    case 6: roles(text, len); break;
    default: key_files(text); stat_line(text, len); break;
    }
    free(text);
    return 0;
}
