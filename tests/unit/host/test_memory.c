// SPDX-License-Identifier: Apache-2.0
// Memory of single processes and their groups.
#include "suite.h"

#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "host/memory.h"

static void processes(void **state) {
    (void)state;
    struct tree t;
    struct al_host_resident r;
    struct al_host_proportional p;
    int root;
    tree_new(&t);
    tree_file(&t, "proc/300/status", "Name:\tpython\nVmRSS:\t  60 kB\nRssAnon:\t  10 kB\nRssFile:\t 20 kB\nRssShmem:\t 30 kB\n");
    tree_file(&t, "proc/301/status", "Name:\told\nVmRSS:\t  60 kB\n");
    tree_file(&t, "proc/300/smaps_rollup", "00400000-7fff r--p 00000000 00:00 0 [rollup]\nRss: 60 kB\nPss:  40 kB\nPss_Dirty: 9 kB\n"
                                           "Pss_Anon:  7 kB\nPss_File: 3 kB\n");
    tree_file(&t, "proc/301/smaps_rollup", "00400000-7fff r--p 00000000 00:00 0 [rollup]\nRss: 60 kB\nPss:  40 kB\n");
    tree_file(&t, "proc/302/smaps_rollup", "garbage");
    assert_int_equal(al_fs_root(t.root, &root), 0);
    assert_int_equal(al_host_resident(root, 300, &r), 0);
    assert_true(r.all == 60 << 10 && r.anon == 10 << 10 && r.file == 20 << 10 && r.shmem == 30 << 10);
    assert_int_equal(al_host_resident(root, 301, &r), AL_E_FORMAT);
    assert_true(al_host_resident(root, 999, &r) < 0);
    assert_int_equal(al_host_proportional(root, 300, &p), 0);
    assert_true(p.all == 40 << 10 && p.anon_known && p.anon == 7 << 10);
    assert_int_equal(al_host_proportional(root, 301, &p), 0);
    assert_true(p.all == 40 << 10 && !p.anon_known);
    assert_int_equal(al_host_proportional(root, 302, &p), AL_E_FORMAT);
    (void)close(root);
    tree_free(&t);
}

static void groups(void **state) {
    (void)state;
    struct tree t;
    struct al_host_group g;
    int root;
    tree_new(&t);
    tree_file(&t, "proc/300/cgroup", "0::/slurm/job_7/step_0\n");
    tree_file(&t, "proc/301/cgroup", "0::/../escape\n");
    tree_file(&t, "proc/302/cgroup", "5:memory:/kube/pod\n0::/\n");
    tree_file(&t, "proc/self/cgroup", "0::/slurm\n5:memory:/kube/pod\n");
    tree_file(&t, "sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
    tree_file(&t, "sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    tree_file(&t, "sys/fs/cgroup/slurm/job_7/step_0/memory.current", "777\n");
    tree_file(&t, "sys/fs/cgroup/slurm/job_7/step_0/memory.stat", "anon 500\nfile 200\nkernel 7\nshmem 70\n");
    tree_file(&t, "sys/fs/cgroup/memory/memory.usage_in_bytes", "50\n"); // v1, seen from inside: the mount is our own group
    tree_file(&t, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree_file(&t, "sys/fs/cgroup/memory/memory.stat", "cache 1\ntotal_rss 30\ntotal_cache 15\ntotal_shmem 5\n");
    assert_int_equal(al_fs_root(t.root, &root), 0);
    al_host_group(root, 300, &g);
    assert_true(g.known && g.used == 777 && g.anon == 500 && g.file == 200 && g.shmem == 70);
    assert_true(g.limit_known && g.limit == 1000000);
    al_host_group(root, 301, &g);
    assert_false(g.known);
    al_host_group(root, 302, &g);
    assert_true(g.known && g.used == 50 && g.anon == 30 && g.shmem == 5 && !g.limit_known);
    al_host_group(root, 999, &g);
    assert_false(g.known);
    (void)close(root);
    tree_free(&t);
}

static void workers(void **state) {
    (void)state;
    struct tree t;
    pid_t pids[2];
    int root;
    tree_new(&t);
    tree_bytes(&t, "proc/300/cmdline", "python\0train.py", 16);
    tree_file(&t, "proc/300/task/300/children", "400 401 402 403 ");
    tree_bytes(&t, "proc/400/cmdline", "python\0train.py", 16);
    tree_file(&t, "proc/400/comm", "python\n");
    tree_bytes(&t, "proc/401/cmdline", "nvidia-smi", 11);
    tree_file(&t, "proc/401/comm", "nvidia-smi\n");
    tree_file(&t, "proc/402/comm", "pt_data_worker\n");
    tree_bytes(&t, "proc/403/cmdline", "python\0train.py", 16);
    assert_int_equal(al_fs_root(t.root, &root), 0);
    assert_int_equal(al_host_workers(root, 300, pids, 2), 3);
    assert_true(pids[0] == 400 && pids[1] == 402);
    assert_int_equal(al_host_workers(root, 999, pids, 2), -1);
    (void)close(root);
    tree_free(&t);
}

int memory_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes), cmocka_unit_test(groups), cmocka_unit_test(workers)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
