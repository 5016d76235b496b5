// SPDX-License-Identifier: Apache-2.0
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "launch/inject.h"
#include "launch/inject_elf.h"
#include "launch/inject_maps.h"
#include "suites.h"

static void test_maps_of_a_process(void **state) {
    (void)state;
    struct al_maps m;
    const char *text = "00400000-00401000 r--p 00000000 08:01 77    /usr/bin/python3.13t\n"
                       "00401000-00700000 r-xp 00001000 08:01 77    /usr/bin/python3.13t\n"
                       "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
                       "7f0000001000-7f0000002000 rw-s 00000000 00:01 5    /memfd:x (deleted)\n"
                       "nonsense\n"
                       "7fff00000000-7fff00001000 r-xp 00000000 00:00 0    [vdso]\n"
                       "5000-4000 r--p 00000000 08:01 1   /x\n"
                       "9000-a000 r--p 00000000 08:01 1   /home/python/lib/libc.so.6";
    assert_int_equal(al_maps_parse(&m, text), 0);
    assert_int_equal(m.count, 4);
    assert_true(m.maps[0].python && m.maps[0].header && m.maps[0].readable && !m.maps[0].executable);
    assert_true(m.maps[1].executable && m.maps[1].private && !m.maps[1].header);
    assert_true(!m.maps[2].private);
    assert_false(m.maps[3].python); // a folder's name tells nothing
    assert_ptr_equal(al_maps_find(&m, 0x401000, 16), &m.maps[1]);
    assert_null(al_maps_find(&m, 0x6ffff8, 16));
    al_maps_free(&m);
    assert_int_equal(al_maps_parse(&m, ""), AL_E_FORMAT);
}

// This program's own libraries, in its own memory.
static void test_symbols_of_this_program(void **state) {
    (void)state;
    char *text = malloc(1 << 20);
    struct al_maps m;
    pid_t pid = getpid();
    int root;
    uint64_t found = 0;
    assert_int_equal(al_fs_root("/", &root), 0);
    assert_true(al_fs_read(root, "proc/self/maps", text, 1 << 20) > 0);
    assert_int_equal(al_maps_parse(&m, text), 0);
    for (size_t i = 0; i < m.count; i++) {
        struct al_elf e;
        if (!m.maps[i].header || !m.maps[i].readable || al_elf_open(&e, al_memory_read, &pid, m.maps[i].start))
            continue;
        assert_int_equal(al_elf_symbol(&e, "nobody_has_a_function_of_this_name"), 0);
        uint64_t at = al_elf_symbol(&e, "getppid");
        if (at)
            found = at;
    }
    assert_int_equal(found, (uint64_t)(uintptr_t)getppid);
    al_maps_free(&m);
    (void)close(root);
    free(text);
}

struct image {
    unsigned char bytes[4096];
};

static bool read_image(void *user, uint64_t address, void *out, size_t size) {
    struct image *i = user;
    if (address < 0x10000 || address - 0x10000 > sizeof i->bytes || size > sizeof i->bytes - (address - 0x10000))
        return false;
    memcpy(out, i->bytes + (address - 0x10000), size);
    return true;
}

static void test_what_is_no_object(void **state) {
    (void)state;
    struct image i = {{0}};
    struct al_elf e;
    assert_int_equal(al_elf_open(&e, read_image, &i, 0x10000), AL_E_FORMAT);
    assert_int_equal(al_elf_open(&e, read_image, &i, 0), AL_E_FORMAT);
    memcpy(i.bytes, "\177ELF\1\1", 6);
    assert_int_equal(al_elf_open(&e, read_image, &i, 0x10000), AL_E_UNSUPPORTED);
    assert_int_equal(e.class, ELFCLASS32);
    i.bytes[4] = ELFCLASS64;
    assert_int_equal(al_elf_open(&e, read_image, &i, 0x10000), AL_E_FORMAT); // no program headers
    assert_int_equal(al_elf_symbol(&e, "x"), 0);
}

static void put(const char *root, const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void expect(const char *root, pid_t pid, int result, const char *reason) {
    struct al_inject t;
    char why[AL_INJECT_WHY];
    int fd;
    assert_int_equal(al_fs_root(root, &fd), 0);
    assert_int_equal(al_inject_look(fd, pid, &t, why, sizeof why), result);
    if (!strstr(why, reason))
        fail_msg("%s: expected %s", why, reason);
    (void)close(fd);
}

// Who may not be attached to, and why: nothing of this machine is looked at before that is clear.
static void test_rights_and_states(void **state) {
    (void)state;
    char root[] = "/tmp/alula-inject-XXXXXX", own[128], command[64];
    assert_non_null(mkdtemp(root));
    (void)snprintf(own, sizeof own, "Name:\tx\nTgid:\t9\nPPid:\t1\nUid:\t%u\t%u\t%u\t0\nCapEff:\t0000000000000000\n", geteuid(),
                   geteuid(), geteuid());
    put(root, "proc/self/status", own);
    expect(root, 77, AL_E_NOENT, "no process 77");
    expect(root, -1, AL_E_NOENT, "no process");
    put(root, "proc/77/status", "Name:\tpython\nState:\tS (sleeping)\nTgid:\t70\nTracerPid:\t0\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_INVALID, "is a thread of process 70");
    put(root, "proc/77/status", "Name:\tpython\nState:\tS (sleeping)\nTgid:\t77\nTracerPid:\t5\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_AGAIN, "is being traced by process 5");
    put(root, "proc/77/status", "Name:\tpython\nState:\tZ (zombie)\nTgid:\t77\nTracerPid:\t0\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_GONE, "has ended");
    put(root, "proc/77/status", "Name:\tpython\nState:\tT (stopped)\nTgid:\t77\nTracerPid:\t0\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_AGAIN, "kill -CONT 77");
    put(root, "proc/77/status", "Name:\tpython\nState:\tD (disk sleep)\nTgid:\t77\nTracerPid:\t0\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_AGAIN, "waits inside the kernel");
    put(root, "proc/77/status", "Name:\tpython\nState:\tR (running)\nTgid:\t77\nTracerPid:\t0\nUid:\t4000\t0\t0\t0\n");
    expect(root, 77, AL_E_DENIED, "set-user-id");
    put(root, "proc/77/status", "Name:\tpython\nState:\tR (running)\nTgid:\t77\nTracerPid:\t0\nUid:\t4000\t4000\t4000\t4000\n");
    expect(root, 77, AL_E_DENIED, "belongs to user 4000");
    (void)snprintf(own, sizeof own, "Name:\tx\nState:\tR (running)\nTgid:\t77\nPPid:\t1\nUid:\t%u\t%u\t%u\t0\n", geteuid(), geteuid(),
                   geteuid());
    put(root, "proc/77/status", own);
    put(root, "proc/sys/kernel/yama/ptrace_scope", "1\n");
    expect(root, 77, AL_E_DENIED, "kernel.yama.ptrace_scope is 1: use sudo alula attach 77, or sudo sysctl kernel.yama.ptrace_scope=0");
    put(root, "proc/sys/kernel/yama/ptrace_scope", "2\n");
    expect(root, 77, AL_E_DENIED, "kernel.yama.ptrace_scope is 2: only root may attach");
    put(root, "proc/sys/kernel/yama/ptrace_scope", "3\n");
    expect(root, 77, AL_E_DENIED, "kernel.yama.ptrace_scope is 3");
    put(root, "proc/sys/kernel/yama/ptrace_scope", "0\n");
    put(root, "proc/77/maps", "");
    expect(root, 77, AL_E_DENIED, "may not be read");
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

int inject_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps_of_a_process),
        cmocka_unit_test(test_symbols_of_this_program),
        cmocka_unit_test(test_what_is_no_object),
        cmocka_unit_test(test_rights_and_states),
    };
    return cmocka_run_group_tests_name("launch/inject", tests, NULL, NULL);
}
