// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <stdio.h>
#include <string.h>

#define TRAIN "python|-u|train.py|--hub_token|sekret"

static const struct made shell = {.pid = 100, .ppid = 1, .comm = "bash", .exe = "/bin/bash", .cmd = "-bash", .uid = 1000,
                                  .start = 1000};
static const struct made launcher = {.pid = 200, .ppid = 100, .comm = "torchrun", .exe = "/usr/bin/python3.11",
                                     .cmd = "/usr/bin/python3|/usr/bin/torchrun|train.py", .uid = 1000, .start = 2000};
static const struct made rank0 = {.pid = 300, .ppid = 200, .comm = "pt_main_thread", .exe = "/usr/bin/python3.11 (deleted)",
                                  .cmd = TRAIN, .env = "RANK=0|LOCAL_RANK=0|WORLD_SIZE=2|CUDA_VISIBLE_DEVICES=0,1|SECRET=x",
                                  .uid = 1000, .start = 3000, .utime = 100, .stime = 50, .stack = 7};
static const struct made worker = {.pid = 400, .ppid = 300, .comm = "pt_data_worker", .exe = "/usr/bin/python3.11",
                                   .cmd = TRAIN, .env = "RANK=0|LOCAL_RANK=0|WORLD_SIZE=2", .uid = 1000, .start = 4000,
                                   .stack = 7};

static void make_job(struct tree *t) {
    tree_new(t);
    tree_process(t, &shell);
    tree_process(t, &launcher);
    tree_process(t, &rank0);
    tree_process(t, &worker);
    tree_children(t, 100, "200 ");
    tree_children(t, 200, "300 ");
    tree_children(t, 300, "400 ");
    tree_open(t);
    tree_gpu(t, 300, 0);
}

static void whole_rows(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_int_equal(t.s->proc_count, 3); // the shell is nobody's job
    const struct al_proc *r = tree_proc(&t, 300);
    assert_int_equal(r->ppid, 200);
    assert_int_equal(r->uid, 1000);
    assert_int_equal(r->start_ticks, 3000);
    assert_int_equal(r->pid_ns, 4026531836);
    assert_true(r->alive);
    assert_false(r->foreign);
    assert_true(r->holds_context);
    assert_int_equal(r->state, 'S');
    assert_string_equal(r->user, "ada");
    assert_string_equal(r->comm, "pt_main_thread");
    assert_string_equal(r->exe, "python3.11");
    assert_string_equal(r->command, "python -u train.py --hub_token ***");
    assert_string_equal(r->cgroup, "/user.slice");
    assert_string_equal(r->visible_devices, "0,1");
    assert_int_equal(r->rank, 0);
    assert_int_equal(r->local_rank, 0);
    assert_int_equal(r->world_size, 2);
    assert_int_equal(r->node_rank, -1);
    assert_role(r, "rank");
    assert_int_equal(r->job, 200);
    assert_true(r->started_realtime_ns == 1700000030 * S);
    assert_number(r->m[AL_PROC_RSS], 1536000);
    assert_number(r->m[AL_PROC_RSS_ANON], 1024000);
    assert_number(r->m[AL_PROC_RSS_FILE], 409600);
    assert_number(r->m[AL_PROC_RSS_SHMEM], 102400);
    assert_number(r->m[AL_PROC_SWAP], 8192);
    assert_number(r->m[AL_PROC_THREADS], 1);
    assert_number(r->m[AL_PROC_BLOCKED], 0);
    assert_status(r->m[AL_PROC_CPU], AL_STATUS_UNREAD);
    assert_status(r->m[AL_PROC_READ_RATE], AL_STATUS_UNREAD);
    assert_status(r->m[AL_PROC_IO_WAIT], AL_STATUS_UNSUPPORTED);
    assert_status(r->m[AL_PROC_PSS], AL_STATUS_UNSUPPORTED);
    assert_status(r->m[AL_PROC_CGROUP_LIMIT], AL_STATUS_UNSUPPORTED);
    assert_role(tree_proc(&t, 200), "launcher");
    const struct al_proc *w = tree_proc(&t, 400);
    assert_role(w, "worker");
    assert_int_equal(w->owner, 300);
    assert_int_equal(w->job, 200);
    assert_false(w->holds_context);
    tree_gpu(&t, 400, 0);
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    w = tree_proc(&t, 400);
    assert_role(w, "worker");
    assert_true(w->holds_context);
    tree_free(&t);
}

static void rates(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_file(&t, "proc/sys/kernel/task_delayacct", "1\n");
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    struct made m = rank0;
    m.utime = 300; // 250 ticks of 10 ms in 2 s
    m.stime = 100;
    m.blkio = 50;
    tree_stat(&t, &m);
    tree_file(&t, "proc/300/io", "rchar: 5000\nread_bytes: 8192\nwrite_bytes: 0\n");
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_number(r->m[AL_PROC_CPU], 1.25);
    assert_number(r->m[AL_PROC_READ_RATE], 2048);
    assert_number(r->m[AL_PROC_READ_CHARS], 2000);
    assert_number(r->m[AL_PROC_WRITE_RATE], 0);
    assert_number(r->m[AL_PROC_IO_WAIT], 0.25);
    // The launcher is older than the first process that was charged for a delay: 0 proves nothing for it.
    assert_status(tree_proc(&t, 200)->m[AL_PROC_IO_WAIT], AL_STATUS_UNSUPPORTED);
    assert_number(tree_proc(&t, 400)->m[AL_PROC_IO_WAIT], 0);
    // Switched off: no figure, although the counter stands.
    tree_file(&t, "proc/sys/kernel/task_delayacct", "0\n");
    tree_file(&t, "proc/300/io", "rchar: 1\nread_bytes: 1\nwrite_bytes: 0\n");
    tree_look(&t, AL_GROUP_HOST, 4 * S);
    r = tree_proc(&t, 300);
    assert_status(r->m[AL_PROC_IO_WAIT], AL_STATUS_UNSUPPORTED);
    assert_status(r->m[AL_PROC_READ_RATE], AL_STATUS_UNREAD); // fell: no negative rate
    assert_number(r->m[AL_PROC_CPU], 0);
    tree_free(&t);
}

static void pid_reuse(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    struct made other = rank0;
    other.start = 9000;
    other.utime = 100000;
    other.comm = "other";
    other.cmd = "python|other.py";
    other.env = NULL;
    tree_process(&t, &other);
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_status(r->m[AL_PROC_CPU], AL_STATUS_UNREAD);
    assert_status(r->m[AL_PROC_READ_RATE], AL_STATUS_UNREAD);
    assert_string_equal(r->command, "python other.py");
    assert_int_equal(r->rank, -1);
    assert_true(r->started_realtime_ns == 1700000090 * S);
    tree_free(&t);
}

static void exec_and_titles(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    struct made m = rank0;
    m.cmd = "python|second.py";
    m.env = "RANK=1";
    m.stack = 8; // an exec: same process, name and start time
    tree_process(&t, &m);
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    assert_string_equal(tree_proc(&t, 300)->command, "python second.py");
    assert_int_equal(tree_proc(&t, 300)->rank, 1);
    // A new title alone is seen after a while.
    m.cmd = "third";
    tree_process(&t, &m);
    tree_look(&t, AL_GROUP_HOST, 5 * S);
    assert_string_equal(tree_proc(&t, 300)->command, "python second.py");
    tree_look(&t, AL_GROUP_HOST, 13 * S);
    assert_string_equal(tree_proc(&t, 300)->command, "third");
    tree_free(&t);
}

static void dead_and_foreign(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_gpu(&t, 777, 1);
    tree_gpu(&t, 0, 1); // the driver does not say
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *r = tree_proc(&t, 777);
    assert_false(r->alive);
    assert_false(r->foreign);
    assert_int_equal(r->rank, -1);
    assert_int_equal(t.s->proc_count, 4);
    for (unsigned i = 0; i < AL_PROC_METRIC_COUNT; i++)
        assert_false(al_ok(r->m[i]));
    tree_free(&t);

    // Other people's processes are hidden (hidepid): not seeing one says nothing.
    make_job(&t);
    t.host = al_host_free(t.host);
    t.s = al_snapshot_free(t.s);
    tree_remove(&t, "proc/1");
    tree_open(&t);
    tree_gpu(&t, 777, 1);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_true(tree_proc(&t, 777)->foreign);
    assert_false(tree_proc(&t, 777)->alive);
    tree_free(&t);
}

static void in_a_container(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    t.host = al_host_free(t.host);
    t.s = al_snapshot_free(t.s);
    tree_link(&t, "proc/self/ns/pid", "pid:[4026532500]");
    tree_link(&t, "proc/400/fd/3", "/dev/nvidia0");
    tree_link(&t, "proc/300/fd/0", "/dev/null");
    tree_open(&t);
    tree_gpu(&t, 300, 0); // a host's pid that happens to be one of ours, too
    tree_gpu(&t, 400, 0); // the driver's own, translated
    tree_gpu(&t, 777, 0);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_true(r->foreign);
    assert_false(r->alive);
    assert_string_equal(r->command, "");
    assert_true(tree_proc(&t, 777)->foreign);
    assert_false(tree_proc(&t, 400)->foreign);
    assert_true(tree_proc(&t, 400)->alive);
    assert_true(tree_proc(&t, 400)->holds_context);
    tree_free(&t);
}

static void zombie(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    struct made m = rank0;
    m.state = 'Z';
    m.cmd = m.env = m.exe = NULL;
    tree_remove(&t, "proc/300");
    tree_process(&t, &m);
    tree_file(&t, "proc/300/status", "Name:\tx\nState:\tZ (zombie)\nUid:\t1000\t1000\t1000\t1000\n");
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_true(r->alive); // in /proc still, and its state says the rest
    assert_int_equal(r->state, 'Z');
    assert_status(r->m[AL_PROC_RSS_ANON], AL_STATUS_UNSUPPORTED);
    tree_free(&t);

    // A worker that ended stays what it was, and is not put into the root group where the kernel lists it now.
    make_job(&t);
    tree_look(&t, AL_GROUP_HOST, 2 * S);
    m = worker;
    m.state = 'Z';
    m.stack = 0;
    m.cmd = m.env = m.exe = NULL;
    m.cgroup = "4:memory:/\n0::/\n";
    tree_remove(&t, "proc/400");
    tree_process(&t, &m);
    tree_file(&t, "sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
    tree_look(&t, AL_GROUP_HOST, 60 * S);
    r = tree_proc(&t, 400);
    assert_role(r, "worker");
    assert_string_equal(r->command, "python -u train.py --hub_token ***");
    assert_string_equal(r->cgroup, "/user.slice");
    assert_status(r->m[AL_PROC_CGROUP_USED], AL_STATUS_UNSUPPORTED);
    tree_free(&t);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void limits_of_version_2(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_file(&t, "proc/300/cgroup", "0::/kubepods/podaaaabbbbccccddddeeeeffff00001111/" ID "\n");
    tree_file(&t, "sys/fs/cgroup/kubepods/memory.max", "max\n");
    tree_file(&t, "sys/fs/cgroup/kubepods/podaaaabbbbccccddddeeeeffff00001111/memory.max", "1000000\n");
    tree_file(&t, "sys/fs/cgroup/kubepods/podaaaabbbbccccddddeeeeffff00001111/" ID "/memory.max", "2000000\n");
    tree_file(&t, "sys/fs/cgroup/kubepods/podaaaabbbbccccddddeeeeffff00001111/" ID "/memory.current", "300000\n");
    tree_file(&t, "sys/fs/cgroup/kubepods/podaaaabbbbccccddddeeeeffff00001111/" ID "/memory.stat",
              "file 1\nanon_thp 7\nanon 200000\n");
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_string_equal(r->container, ID);
    assert_string_equal(r->pod, "aaaabbbbccccddddeeeeffff00001111");
    assert_number(r->m[AL_PROC_CGROUP_LIMIT], 1000000);
    assert_number(r->m[AL_PROC_CGROUP_USED], 300000);
    assert_number(r->m[AL_PROC_CGROUP_ANON], 200000);
    tree_free(&t);
}

static void limits_of_version_1(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_file(&t, "proc/300/cgroup", "9:memory:/slurm/uid_1000/job_77/step_0\n1:name=systemd:/x\n0::/\n");
    tree_file(&t, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree_file(&t, "sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.limit_in_bytes", "5000000\n");
    tree_file(&t, "sys/fs/cgroup/memory/slurm/uid_1000/job_77/step_0/memory.limit_in_bytes", "9223372036854771712\n");
    tree_file(&t, "sys/fs/cgroup/memory/slurm/uid_1000/job_77/step_0/memory.usage_in_bytes", "700000\n");
    tree_file(&t, "sys/fs/cgroup/memory/slurm/uid_1000/job_77/step_0/memory.stat", "rss 1\ntotal_rss 600000\n");
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *r = tree_proc(&t, 300);
    assert_string_equal(r->slurm_job, "77");
    assert_string_equal(r->cgroup, "/slurm/uid_1000/job_77/step_0");
    assert_number(r->m[AL_PROC_CGROUP_LIMIT], 5000000);
    assert_number(r->m[AL_PROC_CGROUP_USED], 700000);
    assert_number(r->m[AL_PROC_CGROUP_ANON], 600000);
    // The same path outside of the mount, and no path of alula's own: nothing is invented from the mount's root.
    tree_file(&t, "proc/400/cgroup", "9:memory:/gone\n");
    tree_file(&t, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    tree_look(&t, AL_GROUP_HOST, 50 * S);
    assert_status(tree_proc(&t, 400)->m[AL_PROC_CGROUP_USED], AL_STATUS_UNSUPPORTED);
    assert_status(tree_proc(&t, 400)->m[AL_PROC_CGROUP_LIMIT], AL_STATUS_UNSUPPORTED);
    tree_free(&t);
}

static void proportional_set(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    tree_file(&t, "proc/300/smaps_rollup", "55 ---p 0 [rollup]\nRss: 1500 kB\nPss: 900 kB\nPss_Dirty: 1 kB\n");
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_number(tree_proc(&t, 300)->m[AL_PROC_PSS], 921600);
    tree_file(&t, "proc/300/smaps_rollup", "x\nPss: 800 kB\n");
    tree_look(&t, AL_GROUP_HOST, 20 * S);
    assert_number(tree_proc(&t, 300)->m[AL_PROC_PSS], 921600);
    assert_int_equal(tree_proc(&t, 300)->m[AL_PROC_PSS].at_ns, 1 * S);
    tree_look(&t, AL_GROUP_HOST | AL_GROUP_PSS, 21 * S);
    assert_number(tree_proc(&t, 300)->m[AL_PROC_PSS], 819200);
    tree_file(&t, "proc/300/smaps_rollup", "x\nPss: 700 kB\n");
    tree_look(&t, AL_GROUP_HOST, 51 * S);
    assert_number(tree_proc(&t, 300)->m[AL_PROC_PSS], 716800);
    // Dear last time: left alone, and said so.
    al_track_find((struct al_procfs *)t.host, 300)->pss_next_ns = 600 * S;
    tree_look(&t, AL_GROUP_HOST, 100 * S);
    assert_status(tree_proc(&t, 300)->m[AL_PROC_PSS], AL_STATUS_STALE);
    assert_true(tree_proc(&t, 300)->m[AL_PROC_PSS].num == 716800);
    tree_free(&t);
}

static void threads(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    struct made m = rank0, kid = worker;
    m.threads = 3;
    m.state = 'D';
    tree_stat(&t, &m);
    tree_file(&t, "proc/300/task/301/stat", "301 (a) D 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 3 0 5 1\n");
    tree_file(&t, "proc/300/task/302/stat", "302 (b) R 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 3 0 5 1\n");
    tree_file(&t, "proc/300/task/302/children", "401 ");
    kid.pid = 401;
    tree_process(&t, &kid);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_number(tree_proc(&t, 300)->m[AL_PROC_BLOCKED], 2);
    assert_role(tree_proc(&t, 401), "worker");
    // Not asked again at once, but the child is still known.
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    assert_role(tree_proc(&t, 401), "worker");
    tree_remove(&t, "proc/401");
    tree_look(&t, AL_GROUP_HOST, 5 * S);
    assert_int_equal(t.s->proc_count, 3);
    tree_free(&t);
}

static void no_command(void **state) {
    (void)state;
    struct tree t;
    make_job(&t);
    t.host = al_host_free(t.host);
    struct al_procfs_options options = {t.root, true};
    assert_int_equal(al_procfs_open(&options, &t.host), 0);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    for (uint32_t i = 0; i < t.s->proc_count; i++)
        assert_string_equal(t.s->procs[i].command, "");
    assert_role(tree_proc(&t, 400), "worker");
    tree_free(&t);
}

static void users(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_open(&t);
    struct al_procfs *p = (struct al_procfs *)t.host;
    assert_string_equal(al_procfs_user(p, 0), "root");
    assert_string_equal(al_procfs_user(p, 1001), "bob");
    assert_string_equal(al_procfs_user(p, 4242), "4242");
    uint64_t before = p->reads;
    assert_string_equal(al_procfs_user(p, 1001), "bob");
    assert_int_equal(p->reads, before);
    tree_file(&t, "etc/passwd", "::\nx\n\n:x:5:\nev\033il:x:6:6\nnew:x:99999999999:1\n");
    assert_string_equal(al_procfs_user(p, 5), "5");
    assert_string_equal(al_procfs_user(p, 6), "ev?il");
    for (uid_t u = 10000; u < 11000; u++)
        al_procfs_user(p, u);
    assert_string_equal(al_procfs_user(p, 10999), "10999");
    tree_free(&t);
}

// No GPU anywhere: a job's command is told, and then its processes tell of themselves.
static void a_job_without_a_gpu(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_process(&t, &shell);
    tree_process(&t, &launcher);
    tree_process(&t, &rank0);
    tree_process(&t, &worker);
    const struct made helper = {.pid = 410, .ppid = 200, .comm = "sh", .exe = "/bin/sh", .cmd = "sh|-c|x", .uid = 1000,
                                .start = 4100};
    tree_process(&t, &helper);
    tree_children(&t, 100, "200 ");
    tree_children(&t, 200, "300 410 ");
    tree_children(&t, 300, "400 ");
    tree_open(&t);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_int_equal(t.s->proc_count, 0);
    const pid_t roots[] = {200, 999, -1}; // one is no process, one no pid
    al_procfs_roots(t.host, roots, 3);
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    assert_int_equal(t.s->proc_count, 4);
    assert_role(tree_proc(&t, 200), "launcher");
    assert_role(tree_proc(&t, 300), "rank"); // by the variables that only it has
    assert_role(tree_proc(&t, 400), "worker");
    assert_role(tree_proc(&t, 410), "other");
    for (uint32_t i = 0; i < t.s->proc_count; i++)
        assert_int_equal(t.s->procs[i].job, 200);
    assert_false(tree_proc(&t, 300)->holds_context);
    al_procfs_roots(t.host, NULL, 0);
    tree_look(&t, AL_GROUP_HOST, 5 * S);
    assert_int_equal(t.s->proc_count, 0);
    tree_free(&t);
}

// What tells of itself as a rank is one, with its launcher above and its workers below.
static void a_rank_that_tells_of_itself(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_process(&t, &shell);
    tree_process(&t, &launcher);
    tree_process(&t, &rank0);
    tree_process(&t, &worker);
    tree_children(&t, 100, "200 ");
    tree_children(&t, 200, "300 ");
    tree_children(&t, 300, "400 ");
    tree_open(&t);
    struct al_rank *r = al_snapshot_add_rank(t.s);
    r->pid = 300;
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_int_equal(t.s->proc_count, 3);
    assert_role(tree_proc(&t, 200), "launcher");
    assert_role(tree_proc(&t, 300), "rank");
    assert_role(tree_proc(&t, 400), "worker");
    assert_int_equal(tree_proc(&t, 300)->job, 200);
    r->start_ticks = 2999; // another process had the pid
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    assert_int_equal(t.s->proc_count, 0);
    tree_free(&t);
}

int processes_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_a_gpu), cmocka_unit_test(a_rank_that_tells_of_itself),
        cmocka_unit_test(whole_rows),          cmocka_unit_test(rates),
        cmocka_unit_test(pid_reuse),           cmocka_unit_test(exec_and_titles),
        cmocka_unit_test(dead_and_foreign),    cmocka_unit_test(in_a_container),
        cmocka_unit_test(zombie),              cmocka_unit_test(limits_of_version_2),
        cmocka_unit_test(limits_of_version_1), cmocka_unit_test(proportional_set),
        cmocka_unit_test(threads),             cmocka_unit_test(no_command),
        cmocka_unit_test(users),
    };
    return cmocka_run_group_tests_name("host processes", tests, NULL, NULL);
}
