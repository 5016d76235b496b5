// SPDX-License-Identifier: Apache-2.0
// The machine around the GPUs: names once in a while, figures at each reading.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/procfs.h"

// Inode of the first pid namespace: PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h.
#define HOST_PID_NS 0xEFFFFFFCULL

static void read_line(struct al_procfs *p, const char *path, char *out, size_t size) {
    char text[256];
    if (al_procfs_read(p, p->root_fd, path, text, sizeof text) < 0)
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    al_str_copy(out, size, text);
    al_str_clean(out);
}

// Thread 2 is kthreadd only where the host's processes are listed. Asked when our own namespace can't be read, as when
// /proc of the host is mounted into a container.
static bool shows_kthreadd(struct al_procfs *p) {
    char text[512];
    struct al_host_stat stat;
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/2/stat", text, sizeof text);
    return len > 0 && al_parse_stat(text, (size_t)len, &stat) == 0 && stat.ppid == 0 &&
           strcmp(stat.comm, "kthreadd") == 0;
}

void al_procfs_probe(struct al_procfs *p) {
    char text[128];
    uint64_t boot;
    static const char *const key = "btime";
    ssize_t len = al_fs_link(p->root_fd, "proc/self/ns/pid", text, sizeof text);
    uint64_t ns = 0;
    if (len > 5 && strncmp(text, "pid:[", 5) == 0)
        ns = strtoull(text + 5, NULL, 10);
    p->pid_ns = ns;
    p->host_pid_ns = ns ? ns == HOST_PID_NS : shows_kthreadd(p);
    p->all_visible = al_procfs_read(p, p->root_fd, "proc/1/stat", text, sizeof text) >= 0;
    if (al_procfs_read(p, p->root_fd, "proc/stat", p->scratch, AL_HOST_SCRATCH) > 0 &&
        al_parse_keys(p->scratch, &key, 1, &boot))
        p->boot_s = boot;
    if (al_procfs_read(p, p->root_fd, "proc/self/cgroup", p->scratch, AL_HOST_SCRATCH) >= 0)
        al_cgroup_parse(p->scratch, &p->own);
}

static void fill_names(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    struct al_node_state *st = &p->node;
    if (!st->names_ns || now_ns - st->names_ns >= AL_HOST_CGROUP_NS) {
        al_procfs_probe(p);
        read_line(p, "proc/sys/kernel/hostname", st->hostname, sizeof st->hostname);
        read_line(p, "proc/sys/kernel/random/boot_id", st->boot_id, sizeof st->boot_id);
        st->names_ns = now_ns;
    }
    al_str_copy(n->hostname, sizeof n->hostname, st->hostname);
    al_str_copy(n->boot_id, sizeof n->boot_id, st->boot_id);
    n->pid_ns = p->pid_ns;
    n->host_pid_ns = p->host_pid_ns;
}

static void fill_cpu(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    struct al_host_cpu cpu, *last = &p->node.cpu;
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/stat", p->scratch, AL_HOST_SCRATCH);
    if (len < 0 || !al_parse_cpu(p->scratch, &cpu)) {
        n->m[AL_NODE_CPU] = n->m[AL_NODE_CPU_IOWAIT] = al_value_none(len < 0 ? al_procfs_status(len) : AL_STATUS_ERROR);
        return;
    }
    n->m[AL_NODE_CPU] = n->m[AL_NODE_CPU_IOWAIT] = al_value_none(AL_STATUS_UNREAD);
    if (p->node.cpu_known && cpu.total > last->total) {
        double total = (double)(cpu.total - last->total);
        // Idle and I/O wait may run backwards by a little, see proc(5).
        double idle = cpu.idle > last->idle ? (double)(cpu.idle - last->idle) : 0;
        double wait = cpu.iowait > last->iowait ? (double)(cpu.iowait - last->iowait) : 0;
        double busy = total > idle + wait ? (total - idle - wait) / total : 0;
        n->m[AL_NODE_CPU] = al_value_ok(busy, now_ns);
        n->m[AL_NODE_CPU_IOWAIT] = al_value_ok(wait < total ? wait / total : 1, now_ns);
    }
    *last = cpu;
    p->node.cpu_known = true;
}

// Affinity and quota change rarely; the walk up the groups is not worth doing each tick.
static void fill_cpus(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    char text[4096];
    uint64_t online = 0;
    if (al_procfs_read(p, p->root_fd, "sys/devices/system/cpu/online", text, sizeof text) > 0)
        online = al_parse_cpulist(text);
    n->m[AL_NODE_CPUS] = online ? al_value_ok((double)online, now_ns) : al_value_none(AL_STATUS_UNSUPPORTED);
    if (!p->node.allowed_ns || now_ns - p->node.allowed_ns >= AL_HOST_CGROUP_NS) {
        p->node.allowed_ns = now_ns;
        double limit;
        char *line = NULL;
        if (al_procfs_read(p, p->root_fd, "proc/self/status", text, sizeof text) > 0)
            line = strstr(text, "\nCpus_allowed_list:");
        uint64_t allowed = line ? al_parse_cpulist(line + strlen("\nCpus_allowed_list:")) : 0;
        if (!allowed || (online && allowed > online))
            allowed = online;
        p->node.allowed = (double)allowed;
        if (al_procfs_cpu_limit(p, &limit) && (!allowed || limit < p->node.allowed))
            p->node.allowed = limit;
    }
    n->m[AL_NODE_CPUS_ALLOWED] =
        p->node.allowed > 0 ? al_value_ok(p->node.allowed, now_ns) : al_value_none(AL_STATUS_UNSUPPORTED);
}

static void fill_load(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    char text[128];
    double load;
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/loadavg", text, sizeof text);
    text[strcspn(text, " \n")] = '\0';
    if (len < 0)
        n->m[AL_NODE_LOAD1] = al_value_none(al_procfs_status(len));
    else if (al_str_double(text, &load) && load >= 0)
        n->m[AL_NODE_LOAD1] = al_value_ok(load, now_ns);
    else
        n->m[AL_NODE_LOAD1] = al_value_none(AL_STATUS_ERROR);
}

static void fill_memory(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    static const char *const keys[] = {"MemTotal", "MemAvailable", "AnonPages", "Shmem", "Cached", "SwapTotal", "SwapFree"};
    static const uint32_t metric[] = {AL_NODE_MEM_TOTAL, AL_NODE_MEM_AVAILABLE, AL_NODE_MEM_ANON, AL_NODE_MEM_SHMEM,
                                      AL_NODE_MEM_CACHED};
    char text[8192];
    uint64_t value[7];
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/meminfo", text, sizeof text);
    enum al_status missing = len < 0 ? al_procfs_status(len) : AL_STATUS_UNSUPPORTED;
    uint32_t found = len < 0 ? 0 : al_parse_keys(text, keys, 7, value);
    for (unsigned i = 0; i < 5; i++)
        n->m[metric[i]] = found & (1U << i) ? al_value_ok((double)value[i], now_ns) : al_value_none(missing);
    bool swap = (found & 0x60) == 0x60 && value[5] >= value[6];
    n->m[AL_NODE_SWAP_USED] = swap ? al_value_ok((double)(value[5] - value[6]), now_ns) : al_value_none(missing);
}

static void fill_pressure(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    static const struct {
        const char *path, *which;
        uint32_t metric;
    } rows[] = {{"proc/pressure/cpu", "some", AL_NODE_PSI_CPU},
                {"proc/pressure/memory", "some", AL_NODE_PSI_MEM},
                {"proc/pressure/io", "some", AL_NODE_PSI_IO},
                {"proc/pressure/io", "full", AL_NODE_PSI_IO_FULL}};
    char text[512] = "";
    ssize_t len = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double ratio;
        if (!i || strcmp(rows[i].path, rows[i - 1].path) != 0)
            len = al_procfs_read(p, p->root_fd, rows[i].path, text, sizeof text);
        struct al_value *v = &n->m[rows[i].metric];
        if (len < 0) // a kernel booted with psi=0 lists the files and refuses to read them
            *v = al_value_none(len == AL_E_DENIED ? AL_STATUS_DENIED : AL_STATUS_UNSUPPORTED);
        else
            *v = al_parse_psi(text, rows[i].which, &ratio) ? al_value_ok(ratio, now_ns)
                                                           : al_value_none(AL_STATUS_UNSUPPORTED);
    }
}

static bool is_partition(const struct al_host_disk *disks, unsigned count, const char *name) {
    for (unsigned i = 0; i < count; i++)
        if (al_disk_is_partition_of(name, disks[i].name))
            return true;
    return false;
}

// Whole devices of /proc/diskstats into disks; returns how many. A disk is listed before its partitions.
static unsigned read_disks(const char *text, struct al_host_disk *disks) {
    unsigned count = 0;
    struct al_host_disk disk;
    while (count < AL_HOST_DISKS && al_parse_disk(&text, &disk))
        if (!al_disk_is_stacked(disk.name) && !is_partition(disks, count, disk.name))
            disks[count++] = disk;
    return count;
}

static void fill_disks(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    static const uint32_t metric[] = {AL_NODE_DISK_READ, AL_NODE_DISK_WRITE, AL_NODE_DISK_BUSY};
    struct al_host_disk now[AL_HOST_DISKS];
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/diskstats", p->scratch, AL_HOST_SCRATCH);
    unsigned count = len < 0 ? 0 : read_disks(p->scratch, now);
    int64_t span_ns = p->node.disk_ns ? now_ns - p->node.disk_ns : 0;
    struct al_value none = al_value_none(len < 0 ? al_procfs_status(len) : count ? AL_STATUS_UNREAD : AL_STATUS_UNSUPPORTED);
    for (unsigned i = 0; i < 3; i++)
        n->m[metric[i]] = none;
    if (count && span_ns > 0) {
        double seconds = (double)span_ns / 1e9, read = 0, written = 0, busiest = 0;
        unsigned joined = 0;
        for (unsigned i = 0; i < count; i++) {
            const struct al_host_disk *last = p->node.disk;
            const struct al_host_disk *end = last + p->node.disk_count;
            while (last < end && strcmp(last->name, now[i].name) != 0)
                last++;
            // New, or counting from 0 again: joins at the next reading.
            if (last == end || now[i].read_bytes < last->read_bytes || now[i].written_bytes < last->written_bytes ||
                now[i].busy_ms < last->busy_ms)
                continue;
            joined++;
            double busy = (double)(now[i].busy_ms - last->busy_ms) / 1e3 / seconds;
            read += (double)(now[i].read_bytes - last->read_bytes) / seconds;
            written += (double)(now[i].written_bytes - last->written_bytes) / seconds;
            busiest = busy > busiest ? busy : busiest;
        }
        const double value[] = {read, written, busiest < 1 ? busiest : 1};
        for (unsigned i = 0; i < 3 && joined; i++)
            n->m[metric[i]] = al_value_ok(value[i], now_ns);
    }
    memcpy(p->node.disk, now, count * sizeof *now);
    p->node.disk_count = count;
    p->node.disk_ns = now_ns;
}

// Bridges, bonds, VLANs and the host's ends of containers' interfaces carry what a hardware interface carries again.
static bool is_hardware(struct al_procfs *p, const char *name) {
    char path[64], target[8];
    if (strchr(name, '/'))
        return false;
    (void)snprintf(path, sizeof path, "sys/class/net/%.31s/device", name);
    p->reads++;
    return al_fs_link(p->root_fd, path, target, sizeof target) >= 0;
}

static void fill_net(struct al_procfs *p, struct al_node *n, int64_t now_ns) {
    struct al_node_net now[AL_HOST_NETS];
    unsigned count = 0, last_count = p->node.net_count;
    bool hardware = false;
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/net/dev", p->scratch, AL_HOST_SCRATCH);
    const char *cursor = len < 0 ? "" : p->scratch;
    double rx = 0, tx = 0;
    unsigned known = 0;
    while (count < AL_HOST_NETS && al_parse_net(&cursor, &now[count].last))
        if (strcmp(now[count].last.name, "lo") != 0)
            count++;
    const struct al_node_net *last[AL_HOST_NETS];
    for (unsigned i = 0; i < count; i++) {
        last[i] = NULL;
        for (unsigned k = 0; k < last_count && !last[i]; k++)
            if (strcmp(p->node.net[k].last.name, now[i].last.name) == 0)
                last[i] = &p->node.net[k];
        now[i].hardware = last[i] ? last[i]->hardware : is_hardware(p, now[i].last.name);
        hardware |= now[i].hardware;
    }
    int64_t span_ns = p->node.net_ns ? now_ns - p->node.net_ns : 0;
    for (unsigned i = 0; i < count && span_ns > 0; i++) {
        if (hardware && !now[i].hardware)
            continue;
        if (!last[i] || now[i].last.rx_bytes < last[i]->last.rx_bytes || now[i].last.tx_bytes < last[i]->last.tx_bytes)
            continue;
        known++;
        rx += (double)(now[i].last.rx_bytes - last[i]->last.rx_bytes) * 1e9 / (double)span_ns;
        tx += (double)(now[i].last.tx_bytes - last[i]->last.tx_bytes) * 1e9 / (double)span_ns;
    }
    enum al_status none = len < 0 ? al_procfs_status(len) : count ? AL_STATUS_UNREAD : AL_STATUS_UNSUPPORTED;
    n->m[AL_NODE_NET_RX] = known ? al_value_ok(rx, now_ns) : al_value_none(none);
    n->m[AL_NODE_NET_TX] = known ? al_value_ok(tx, now_ns) : al_value_none(none);
    memcpy(p->node.net, now, count * sizeof *now);
    p->node.net_count = count;
    p->node.net_ns = now_ns;
}

int al_procfs_node(struct al_host *h, struct al_snapshot *s, int64_t now_ns) {
    struct al_procfs *p = (struct al_procfs *)h;
    struct al_node *n = &s->node;
    fill_names(p, n, now_ns);
    fill_cpu(p, n, now_ns);
    fill_cpus(p, n, now_ns);
    fill_load(p, n, now_ns);
    fill_memory(p, n, now_ns);
    fill_pressure(p, n, now_ns);
    fill_disks(p, n, now_ns);
    fill_net(p, n, now_ns);
    return 0;
}
