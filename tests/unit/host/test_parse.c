// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

#include "base/err.h"

static void stat_line(void **state) {
    (void)state;
    struct al_host_stat s;
    const char *text = "4242 (a) b (c\n)) D 17 1 2 3 -1 4194304 9 9 9 9 250 50 1 2 20 0 33 0 123456 1 2 "
                       "18446744073709551615 5 6 140736 8 9 0 0 0 0 0 0 0 17 3 0 0 77 0 0\n";
    assert_int_equal(al_parse_stat(text, strlen(text), &s), 0);
    assert_int_equal(s.pid, 4242);
    assert_int_equal(s.ppid, 17);
    assert_int_equal(s.state, 'D');
    assert_string_equal(s.comm, "a) b (c?)");
    assert_int_equal(s.utime, 250);
    assert_int_equal(s.stime, 50);
    assert_int_equal(s.threads, 33);
    assert_int_equal(s.start_ticks, 123456);
    assert_int_equal(s.start_stack, 140736);
    assert_true(s.has_blkio);
    assert_int_equal(s.blkio_ticks, 77);
}

static void stat_garbage(void **state) {
    (void)state;
    static const char *const bad[] = {
        "", "1", "1 (x", "1 x) S 1", "1 ) ( S 1", "x (y) S 1 1 1", "1 (x) SS 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "1 (x) S 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 1 0\n",                         // no start time
        "1 (x) S 1 1 1 0 -1 4 0 0 0 0 99999999999999999999 1 0 0 20 0 1 0 5 1\n", // beyond 64 bits
        "99999999999 (x) S 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 1 0 5 1\n",          // no pid
    };
    struct al_host_stat s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(al_parse_stat(bad[i], strlen(bad[i]), &s), AL_E_FORMAT);
    const char *shortened = "1 (x) S 0 1 1 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 5 1\n";
    assert_int_equal(al_parse_stat(shortened, strlen(shortened), &s), 0);
    assert_false(s.has_blkio);
}

static void keys(void **state) {
    (void)state;
    static const char *const names[] = {"RssAnon", "Rss", "anon", "Huge", "Bad", "Missing"};
    uint64_t v[6] = {1, 1, 1, 1, 1, 1};
    uint32_t found = al_parse_keys("RssAnon:\t  12 kB\nanon_thp 5\nanon 4096\nRss: 7\nHuge: 18446744073709551615 kB\n"
                                   "Bad: x\nanon 1\n",
                                   names, 6, v);
    assert_int_equal(found, 1 | 2 | 4);
    assert_int_equal(v[0], 12288);
    assert_int_equal(v[1], 7);
    assert_int_equal(v[2], 4096);
    assert_int_equal(v[3], 1);
}

static void pressure(void **state) {
    (void)state;
    double r = -1;
    const char *text = "some avg10=12.50 avg60=1.00 avg300=0.00 total=123\nfull avg10=0.25 avg60=0 avg300=0 total=1\n";
    assert_true(al_parse_psi(text, "some", &r));
    assert_float_equal(r, 0.125, 1e-12);
    assert_true(al_parse_psi(text, "full", &r));
    assert_float_equal(r, 0.0025, 1e-12);
    assert_false(al_parse_psi("some avg10=nan", "some", &r));
    assert_false(al_parse_psi("some avg10=250.00 ", "some", &r));
    assert_false(al_parse_psi("some avg10=111111111111111111111111111111111 ", "some", &r));
    assert_false(al_parse_psi("", "some", &r));
}

static void numbers(void **state) {
    (void)state;
    uint64_t n;
    assert_int_equal(al_parse_cpulist("0-3,8,10-11\n"), 7);
    assert_int_equal(al_parse_cpulist("5"), 1);
    assert_int_equal(al_parse_cpulist(""), 0);
    assert_int_equal(al_parse_cpulist("3-1"), 0);
    assert_int_equal(al_parse_cpulist("0-18446744073709551615"), 0);
    assert_true(al_parse_number("4096\n", &n));
    assert_int_equal(n, 4096);
    assert_false(al_parse_number("max\n", &n));
    assert_false(al_parse_number("12x\n", &n));
    assert_false(al_parse_number("-1\n", &n));
    pid_t pids[3];
    assert_int_equal(al_parse_pids("12 34 ", pids, 3), 2);
    assert_int_equal(pids[1], 34);
    assert_int_equal(al_parse_pids("1 2 3 4 5", pids, 3), 3);
    assert_int_equal(al_parse_pids("1 99999999999 3", pids, 3), 1);
}

static void cpu_line(void **state) {
    (void)state;
    struct al_host_cpu c;
    assert_true(al_parse_cpu("cpu  10 20 30 400 50 6 7 8 900 900\ncpu0 1 1 1 1\n", &c));
    assert_int_equal(c.total, 531); // guest time is in user time already
    assert_int_equal(c.idle, 400);
    assert_int_equal(c.iowait, 50);
    assert_false(al_parse_cpu("cpu  1 2 3\n", &c));
    assert_false(al_parse_cpu("cpu0 1 2 3 4 5\n", &c));
}

static void disks(void **state) {
    (void)state;
    const char *text = "   8       0 sda 1 2 100 4 5 6 200 8 0 1234 0\n garbage\n   8 1 sda1 1 2 3 4 5 6 7\n"
                       " 259 0 nvme0n1 10 0 2048 0 20 0 4096 0 0 99 0 0 0 0 0 0 0\n";
    struct al_host_disk d;
    assert_true(al_parse_disk(&text, &d));
    assert_string_equal(d.name, "sda");
    assert_int_equal(d.read_bytes, 51200);
    assert_int_equal(d.written_bytes, 102400);
    assert_int_equal(d.busy_ms, 1234);
    assert_true(al_parse_disk(&text, &d));
    assert_string_equal(d.name, "nvme0n1");
    assert_int_equal(d.busy_ms, 99);
    assert_false(al_parse_disk(&text, &d));

    static const char *const stacked[] = {"loop0", "ram1", "zram0", "dm-3", "md127", "sr0", "nvme0c1n1"};
    static const char *const real[] = {"sda", "nvme0n1", "vda", "xvda1", "mmcblk0", "rbd0", "nbd3", "md", "nvme10n2"};
    for (size_t i = 0; i < sizeof stacked / sizeof *stacked; i++)
        assert_true(al_disk_is_stacked(stacked[i]));
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        assert_false(al_disk_is_stacked(real[i]));
    assert_true(al_disk_is_partition_of("sda1", "sda"));
    assert_true(al_disk_is_partition_of("nvme0n1p12", "nvme0n1"));
    assert_false(al_disk_is_partition_of("sdab", "sda"));
    assert_false(al_disk_is_partition_of("sda", "sda"));
    assert_false(al_disk_is_partition_of("nvme0n11", "nvme0n1"));
    assert_false(al_disk_is_partition_of("nvme0n1p", "nvme0n1"));
}

static void interfaces(void **state) {
    (void)state;
    const char *text = "Inter-|   Receive\n face |bytes\n    lo: 5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0\n"
                       "  eth0:123 1 0 0 0 0 0 0 456 1 0 0 0 0 0 0\n";
    struct al_host_net n;
    assert_true(al_parse_net(&text, &n));
    assert_string_equal(n.name, "lo");
    assert_true(al_parse_net(&text, &n));
    assert_string_equal(n.name, "eth0");
    assert_int_equal(n.rx_bytes, 123);
    assert_int_equal(n.tx_bytes, 456);
    assert_false(al_parse_net(&text, &n));
}

#define ENVIRON(text) al_parse_environ(text, sizeof(text), &e)

static void environs(void **state) {
    (void)state;
    struct al_host_env e;
    ENVIRON("HOME=/root\0RANK=5\0LOCAL_RANK=1\0WORLD_SIZE=8\0NODE_RANK=9\0GROUP_RANK=2\0CUDA_VISIBLE_DEVICES=0,1\0");
    assert_int_equal(e.rank, 5);
    assert_int_equal(e.local_rank, 1);
    assert_int_equal(e.world_size, 8);
    assert_int_equal(e.node_rank, 2); // torchrun's own word
    assert_string_equal(e.visible_devices, "0,1");
    ENVIRON("OMPI_COMM_WORLD_RANK=3\0OMPI_COMM_WORLD_LOCAL_RANK=1\0OMPI_COMM_WORLD_SIZE=4\0OMPI_COMM_WORLD_NODE_RANK=1");
    assert_int_equal(e.rank, 3);
    assert_int_equal(e.local_rank, 1);
    assert_int_equal(e.world_size, 4);
    assert_int_equal(e.node_rank, -1); // counts processes of a node, not nodes
    ENVIRON("SLURM_PROCID=0\0SLURM_NTASKS=16\0SLURM_LOCALID=0\0SLURM_JOB_ID=77"); // sbatch's script
    assert_int_equal(e.rank, -1);
    assert_int_equal(e.world_size, -1);
    assert_string_equal(e.slurm_job, "77");
    ENVIRON("SLURM_STEP_ID=0\0SLURM_PROCID=9\0SLURM_NTASKS=16\0SLURM_LOCALID=1");
    assert_int_equal(e.rank, 9);
    assert_int_equal(e.local_rank, 1);
    assert_int_equal(e.world_size, 16);
    ENVIRON("RANK=\0LOCAL_RANK=x\0WORLD_SIZE=-1\0CUDA_VISIBLE_DEVICES=\033[2J");
    assert_int_equal(e.rank, -1);
    assert_int_equal(e.local_rank, -1);
    assert_int_equal(e.world_size, -1);
    assert_string_equal(e.visible_devices, "?[2J");
    ENVIRON("RANK=0\0WORLD_SIZE=2");
    assert_true(e.meeting == 0);
    ENVIRON("MASTER_ADDR=10.0.0.1\0MASTER_PORT=29500");
    uint64_t first = e.meeting;
    ENVIRON("MASTER_PORT=29500\0RANK=1\0MASTER_ADDR=10.0.0.1");
    assert_true(first != 0 && e.meeting == first);
    ENVIRON("MASTER_ADDR=10.0.0.1\0MASTER_PORT=29501");
    assert_true(e.meeting != first);
    ENVIRON("MASTER_ADDR=10.0.0.2\0MASTER_PORT=29500");
    assert_true(e.meeting != first);
    ENVIRON("MASTER_ADDR=10.0.0.129500"); // not put together from two texts
    assert_true(e.meeting != first && e.meeting != 0);
    ENVIRON("RANK=8\0WORLD_SIZE=8"); // can't both be
    assert_int_equal(e.rank, 8);
    assert_int_equal(e.world_size, -1);
    al_parse_environ("RANK=12", 6, &e); // cut off: it may have been 12
    assert_int_equal(e.rank, -1);
}

int parse_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_line), cmocka_unit_test(stat_garbage), cmocka_unit_test(keys),
        cmocka_unit_test(pressure),  cmocka_unit_test(numbers),      cmocka_unit_test(cpu_line),
        cmocka_unit_test(disks),     cmocka_unit_test(interfaces),   cmocka_unit_test(environs),
    };
    return cmocka_run_group_tests_name("host parse", tests, NULL, NULL);
}
