// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

#include "base/buf.h"

static struct al_node *look(struct tree *t, int64_t now_ns) {
    assert_int_equal(t->host->ops->node(t->host, t->s, now_ns), 0);
    return &t->s->node;
}

static void first_reading(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_file(&t, "proc/sys/kernel/hostname", "gpu\0331\n");
    tree_file(&t, "proc/sys/kernel/random/boot_id", "74ae8673-aa1c-4f60-baa4-24f91f32b8eb\n");
    tree_file(&t, "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\nbtime 1700000000\n");
    tree_file(&t, "proc/loadavg", "12.50 3.00 1.00 2/345 678\n");
    tree_file(&t, "proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  600 kB\nCached: 50 kB\nShmem: 20 kB\n"
                                  "AnonPages: 300 kB\nSwapTotal: 100 kB\nSwapCached: 9 kB\nSwapFree: 90 kB\n");
    tree_file(&t, "proc/pressure/cpu", "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n");
    tree_file(&t, "proc/pressure/io", "some avg10=20.00 avg60=0 avg300=0 total=1\nfull avg10=10.00 avg60=0 total=1\n");
    tree_file(&t, "sys/devices/system/cpu/online", "0-15\n");
    tree_file(&t, "proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n");
    tree_file(&t, "proc/self/cgroup", "0::/a/b\n");
    tree_file(&t, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    tree_file(&t, "sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    tree_file(&t, "sys/fs/cgroup/a/b/cgroup.controllers", "cpu\n");
    tree_file(&t, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    tree_open(&t);
    const struct al_node *n = look(&t, 1 * S);
    assert_string_equal(n->hostname, "gpu?1");
    assert_string_equal(n->boot_id, "74ae8673-aa1c-4f60-baa4-24f91f32b8eb");
    assert_int_equal(n->pid_ns, 4026531836);
    assert_true(n->host_pid_ns);
    assert_status(n->m[AL_NODE_CPU], AL_STATUS_UNREAD);
    assert_status(n->m[AL_NODE_CPU_IOWAIT], AL_STATUS_UNREAD);
    assert_number(n->m[AL_NODE_CPUS], 16);
    assert_number(n->m[AL_NODE_CPUS_ALLOWED], 2.5);
    assert_number(n->m[AL_NODE_LOAD1], 12.5);
    assert_number(n->m[AL_NODE_MEM_TOTAL], 1024000);
    assert_number(n->m[AL_NODE_MEM_AVAILABLE], 614400);
    assert_number(n->m[AL_NODE_MEM_ANON], 307200);
    assert_number(n->m[AL_NODE_MEM_SHMEM], 20480);
    assert_number(n->m[AL_NODE_MEM_CACHED], 51200);
    assert_number(n->m[AL_NODE_SWAP_USED], 10240);
    assert_number(n->m[AL_NODE_PSI_CPU], 0.015);
    assert_status(n->m[AL_NODE_PSI_MEM], AL_STATUS_UNSUPPORTED);
    assert_number(n->m[AL_NODE_PSI_IO], 0.2);
    assert_number(n->m[AL_NODE_PSI_IO_FULL], 0.1);
    assert_status(n->m[AL_NODE_DISK_READ], AL_STATUS_UNSUPPORTED);
    assert_status(n->m[AL_NODE_NET_RX], AL_STATUS_UNSUPPORTED);
    tree_free(&t);
}

static void cpu_between_readings(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_file(&t, "proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\nbtime 1700000000\n");
    tree_open(&t);
    const struct al_node *n = look(&t, 1 * S);
    // 400 ticks on: 100 busy, 200 idle, 100 waiting.
    tree_file(&t, "proc/stat", "cpu  150 0 150 900 200 0 0 0 0 0\n");
    n = look(&t, 2 * S);
    assert_number(n->m[AL_NODE_CPU], 0.25);
    assert_number(n->m[AL_NODE_CPU_IOWAIT], 0.25);
    assert_int_equal(n->m[AL_NODE_CPU].at_ns, 2 * S);
    // Backwards or standing still: nothing to say, never a negative share.
    n = look(&t, 3 * S);
    assert_status(n->m[AL_NODE_CPU], AL_STATUS_UNREAD);
    tree_file(&t, "proc/stat", "cpu  1 0 0 1 0 0 0 0\n");
    n = look(&t, 4 * S);
    assert_status(n->m[AL_NODE_CPU], AL_STATUS_UNREAD);
    tree_file(&t, "proc/stat", "cpu  2 0 0 2 0 0 0 0\n");
    n = look(&t, 5 * S);
    assert_number(n->m[AL_NODE_CPU], 0.5);
    assert_number(n->m[AL_NODE_CPU_IOWAIT], 0);
    tree_free(&t);
}

static void disks(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_file(&t, "proc/diskstats", "8 0 sda 1 0 1000 0 1 0 1000 0 0 1000 0\n8 1 sda1 1 0 1000 0 1 0 1000 0 0 1000 0\n"
                                    "253 0 dm-0 1 0 1000 0 1 0 1000 0 0 1000 0\n7 0 loop0 1 0 1 0 1 0 1 0 0 1 0\n"
                                    "259 0 nvme0n1 1 0 0 0 1 0 0 0 0 0 0\n");
    tree_open(&t);
    const struct al_node *n = look(&t, 1 * S);
    assert_status(n->m[AL_NODE_DISK_READ], AL_STATUS_UNREAD);
    // In 2 s: sda reads 2000 sectors and is busy for 0.5 s, nvme0n1 writes 4000 and is busy for 1.5 s.
    tree_file(&t, "proc/diskstats", "8 0 sda 1 0 3000 0 1 0 1000 0 0 1500 0\n8 1 sda1 1 0 3000 0 1 0 1000 0 0 1500 0\n"
                                    "253 0 dm-0 1 0 3000 0 1 0 1000 0 0 2990 0\n7 0 loop0 1 0 99 0 1 0 1 0 0 1 0\n"
                                    "259 0 nvme0n1 1 0 0 0 1 0 4000 0 0 1500 0\n8 16 sdb 1 0 900 0 1 0 900 0 0 900 0\n");
    n = look(&t, 3 * S);
    assert_number(n->m[AL_NODE_DISK_READ], 512000);
    assert_number(n->m[AL_NODE_DISK_WRITE], 1024000);
    assert_number(n->m[AL_NODE_DISK_BUSY], 0.75);
    // sda counts from 0 again, nvme0n1 is gone, sdb goes on.
    tree_file(&t, "proc/diskstats", "8 0 sda 1 0 10 0 1 0 10 0 0 10 0\n8 16 sdb 1 0 1100 0 1 0 900 0 0 9900 0\n");
    n = look(&t, 4 * S);
    assert_number(n->m[AL_NODE_DISK_READ], 102400);
    assert_number(n->m[AL_NODE_DISK_WRITE], 0);
    assert_number(n->m[AL_NODE_DISK_BUSY], 1);
    tree_file(&t, "proc/diskstats", "8 0 sda 1 0 9 0 1 0 10 0 0 10 0\n8 16 sdb 1 0 1 0 1 0 9 0 0 1 0\n");
    n = look(&t, 5 * S);
    assert_status(n->m[AL_NODE_DISK_READ], AL_STATUS_UNREAD);
    tree_free(&t);
}

static void network(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    const char *head = "Inter-| Receive | Transmit\n face |bytes packets\n";
    struct al_buf b = AL_BUF_INIT;
    al_buf_printf(&b, "%s lo: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n eth0: 1000 0 0 0 0 0 0 0 2000 0 0 0 0 0 0 0\n"
                      " br0: 500 0 0 0 0 0 0 0 500 0 0 0 0 0 0 0\n", head);
    tree_file(&t, "proc/net/dev", b.data);
    tree_link(&t, "sys/class/net/eth0/device", "../../pci");
    tree_file(&t, "sys/class/net/br0/address", "");
    tree_open(&t);
    assert_status(look(&t, 1 * S)->m[AL_NODE_NET_RX], AL_STATUS_UNREAD);
    al_buf_clear(&b);
    al_buf_printf(&b, "%s lo: 9999 0 0 0 0 0 0 0 9999 0 0 0 0 0 0 0\n eth0: 3000 0 0 0 0 0 0 0 2500 0 0 0 0 0 0 0\n"
                      " br0: 9500 0 0 0 0 0 0 0 9500 0 0 0 0 0 0 0\n", head);
    tree_file(&t, "proc/net/dev", b.data);
    const struct al_node *n = look(&t, 3 * S);
    assert_number(n->m[AL_NODE_NET_RX], 1000); // of eth0 alone: the bridge carries the same bytes again
    assert_number(n->m[AL_NODE_NET_TX], 250);
    al_buf_clear(&b);
    al_buf_printf(&b, "%s eth0: 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0\n", head);
    tree_file(&t, "proc/net/dev", b.data);
    assert_status(look(&t, 4 * S)->m[AL_NODE_NET_RX], AL_STATUS_UNREAD);
    al_buf_free(&b);
    tree_free(&t);
}

static void version1_quota(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_file(&t, "sys/devices/system/cpu/online", "0-7\n");
    // A container's view: the path counts from the host's root, the mount is the container's own part.
    tree_file(&t, "proc/self/cgroup", "3:cpu,cpuacct:/docker/abc\n0::/\n");
    tree_file(&t, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    tree_file(&t, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    tree_open(&t);
    assert_number(look(&t, 1 * S)->m[AL_NODE_CPUS_ALLOWED], 4);
    tree_file(&t, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    assert_number(look(&t, 2 * S)->m[AL_NODE_CPUS_ALLOWED], 4); // asked anew only after a while
    assert_number(look(&t, 40 * S)->m[AL_NODE_CPUS_ALLOWED], 8);
    tree_free(&t);
}

static void namespaces(void **state) {
    (void)state;
    static const struct {
        const char *link, *thread2;
        bool host;
    } table[] = {
        {"pid:[4026531836]", NULL, true},
        {"pid:[4026532500]", "2 (kthreadd) S 0 0 0 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0\n", false},
        {NULL, "2 (kthreadd) S 0 0 0 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0\n", true}, // the host's /proc, mounted
        {NULL, "2 (sh) S 1 0 0 0 -1 1 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0\n", false},
        {NULL, NULL, false},
        {"pid:x", NULL, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct tree t;
        tree_new(&t);
        tree_remove(&t, "proc/self/ns/pid");
        if (table[i].link)
            tree_link(&t, "proc/self/ns/pid", table[i].link);
        if (table[i].thread2)
            tree_file(&t, "proc/2/stat", table[i].thread2);
        tree_open(&t);
        assert_int_equal(look(&t, 1 * S)->host_pid_ns, table[i].host);
        tree_free(&t);
    }
}

// Nothing there, and garbage everywhere: no value is OK.
static void nothing(void **state) {
    (void)state;
    static const char *const files[] = {"proc/stat", "proc/loadavg", "proc/meminfo", "proc/pressure/cpu",
                                        "proc/pressure/io", "proc/diskstats", "proc/net/dev", "proc/self/status",
                                        "proc/self/cgroup", "sys/devices/system/cpu/online",
                                        "proc/sys/kernel/hostname"};
    for (int garbage = 0; garbage < 2; garbage++) {
        struct tree t;
        tree_new(&t);
        tree_remove(&t, "proc/stat");
        for (size_t i = 0; garbage && i < sizeof files / sizeof *files; i++)
            tree_bytes(&t, files[i], "\xff\0(((: \n:\n99999999999999999999999 -\n", 37);
        tree_open(&t);
        for (int k = 1; k < 3; k++) {
            const struct al_node *n = look(&t, k * S);
            for (unsigned m = 0; m < AL_NODE_METRIC_COUNT; m++)
                if (al_ok(n->m[m]))
                    fail_msg("metric %u is %f", m, n->m[m].num);
        }
        tree_free(&t);
    }
}

int node_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_reading), cmocka_unit_test(cpu_between_readings), cmocka_unit_test(disks),      cmocka_unit_test(network),
        cmocka_unit_test(version1_quota),   cmocka_unit_test(namespaces), cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests_name("host node", tests, NULL, NULL);
}
