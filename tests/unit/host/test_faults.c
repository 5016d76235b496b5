// SPDX-License-Identifier: Apache-2.0
// Many processes, processes that pass, files that are not there or hold anything, and the real /proc.
#include "suite.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

#define OTHERS 10000

static const struct made rank = {.pid = 50, .ppid = 1, .comm = "python3", .exe = "/usr/bin/python3", .cmd = "python|t.py",
                                 .env = "RANK=0|WORLD_SIZE=1", .uid = 1000, .start = 500};

static void make_crowd(struct tree *t) {
    struct made kid = rank;
    tree_new(t);
    tree_file(t, "proc/999/stat", "999 (x) S 1 1 1 0 -1 4 0 0 0 0 1 1 0 0 20 0 1 0 5 1\n");
    for (int i = 0; i < OTHERS; i++) {
        char path[64];
        snprintf(path, sizeof path, "proc/%d/stat", 1000 + i);
        tree_again(t, path, "proc/999/stat");
    }
    tree_process(t, &rank);
    kid.ppid = 50;
    kid.start = 600;
    for (kid.pid = 60; kid.pid < 68; kid.pid++)
        tree_process(t, &kid);
    tree_children(t, 50, "60 61 62 63 64 65 66 67 ");
    tree_open(t);
    tree_gpu(t, 50, 0);
}

static void crowd(void **state) {
    (void)state;
    struct tree t;
    make_crowd(&t);
    // Where the kernel lists children, a reading's files are a matter of the job alone.
    uint64_t before = tree_reads(&t);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_int_equal(t.s->proc_count, 9);
    assert_true(tree_reads(&t) - before < 9 * 20);
    before = tree_reads(&t);
    tree_look(&t, AL_GROUP_HOST, 3 * S);
    assert_true(tree_reads(&t) - before < 9 * 12);

    // Where it does not, /proc is gone through once in 10 s.
    for (int pid = 50; pid < 68; pid++) {
        char path[64];
        snprintf(path, sizeof path, "proc/%d/task/%d/children", pid, pid);
        tree_remove(&t, path);
    }
    before = tree_reads(&t);
    tree_look(&t, AL_GROUP_HOST, 5 * S);
    assert_int_equal(t.s->proc_count, 9);
    assert_in_range(tree_reads(&t) - before, OTHERS, OTHERS + 200);
    for (int k = 1; k < 5; k++) {
        before = tree_reads(&t);
        tree_look(&t, AL_GROUP_HOST, (5 + 2 * k) * S);
        assert_int_equal(t.s->proc_count, 9);
        assert_role(tree_proc(&t, 67), "worker");
        assert_true(tree_reads(&t) - before < 9 * 12);
    }
    before = tree_reads(&t);
    tree_look(&t, AL_GROUP_HOST, 15 * S);
    assert_true(tree_reads(&t) - before > OTHERS);
    tree_free(&t);
}

// Workers that come and go leave nothing behind.
static void passing(void **state) {
    (void)state;
    struct tree t;
    struct made kid = rank;
    tree_new(&t);
    tree_process(&t, &rank);
    tree_open(&t);
    tree_gpu(&t, 50, 0);
    const struct al_procfs *p = (const struct al_procfs *)t.host;
    kid.ppid = 50;
    kid.start = 700;
    size_t used = 0;
    for (int round = 0; round < 30; round++) {
        char list[512] = "", path[32];
        for (int i = 0; i < 40; i++) {
            kid.pid = 1000 + round * 40 + i;
            tree_stat(&t, &kid);
            tree_children(&t, kid.pid, "");
            snprintf(list + strlen(list), sizeof list - strlen(list), "%d ", kid.pid);
        }
        tree_children(&t, 50, list);
        uint64_t before = tree_reads(&t);
        tree_look(&t, AL_GROUP_HOST, (1 + round) * S);
        assert_int_equal(t.s->proc_count, 41);
        assert_true(tree_reads(&t) - before < 42 * 20 + 41); // those that are gone are tried once
        assert_int_equal(p->track_count, 42); // with process 1, where climbing ends
        assert_true(p->spare_count <= 64);
        if (round == 3)
            used = mallinfo2().uordblks;
        for (int i = 0; i < 40; i++) {
            snprintf(path, sizeof path, "proc/%d", 1000 + round * 40 + i);
            tree_remove(&t, path);
        }
    }
    if (used) // 0 under a sanitizer's allocator
        assert_true(mallinfo2().uordblks <= used + 4096);
    t.s->row_count = 0;
    tree_look(&t, AL_GROUP_HOST, 100 * S);
    assert_int_equal(t.s->proc_count, 0);
    assert_int_equal(p->track_count, 0);
    tree_free(&t);
}

static void missing_files(void **state) {
    (void)state;
    struct tree t;
    tree_new(&t);
    tree_stat(&t, &rank); // and nothing else
    tree_open(&t);
    tree_gpu(&t, 50, 0);
    for (int k = 1; k < 4; k++) {
        tree_look(&t, AL_GROUP_HOST, k * S);
        const struct al_proc *r = tree_proc(&t, 50);
        assert_true(r->alive);
        assert_string_equal(r->comm, "python3");
        assert_string_equal(r->command, "");
        assert_string_equal(r->user, "");
        assert_int_equal(r->rank, -1);
        static const int unknown[] = {AL_PROC_RSS, AL_PROC_RSS_ANON, AL_PROC_SWAP, AL_PROC_READ_RATE, AL_PROC_PSS,
                                      AL_PROC_CGROUP_LIMIT, AL_PROC_CGROUP_USED, AL_PROC_IO_WAIT};
        for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
            assert_status(r->m[unknown[i]], AL_STATUS_UNSUPPORTED);
    }
    tree_free(&t);
}

static void garbage(void **state) {
    (void)state;
    static const char *const files[] = {"status", "io", "cgroup", "cmdline", "environ", "smaps_rollup",
                                        "task/50/children"};
    static char big[600000];
    struct tree t;
    tree_new(&t);
    memset(big, 'a', sizeof big);
    for (int kind = 0; kind < 3; kind++) {
        tree_process(&t, &rank);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[64];
            snprintf(path, sizeof path, "proc/50/%s", files[i]);
            if (kind == 0)
                tree_bytes(&t, path, "\xff\xfe:\0(:-1 kB\n\n50 50 -3 0 99999999999", 33);
            else if (kind == 1)
                tree_bytes(&t, path, big, sizeof big);
            else
                tree_bytes(&t, path, "", 0);
        }
        tree_open(&t);
        tree_gpu(&t, 50, 0);
        for (int k = 1; k < 3; k++)
            tree_look(&t, AL_GROUP_HOST | AL_GROUP_PSS, k * S);
        const struct al_proc *r = tree_proc(&t, 50);
        assert_int_equal(t.s->proc_count, 1);
        assert_true(strlen(r->command) < AL_CMD_MAX);
        assert_false(al_ok(r->m[AL_PROC_RSS_ANON]));
        assert_false(al_ok(r->m[AL_PROC_READ_RATE]));
        assert_false(al_ok(r->m[AL_PROC_PSS]));
        assert_int_equal(r->rank, -1);
        assert_string_equal(r->container, "");
        t.host = al_host_free(t.host);
        t.s = al_snapshot_free(t.s);
    }
    // A stat that is none: the process can't be told from another one.
    tree_file(&t, "proc/50/stat", "50 (python3\n");
    tree_open(&t);
    tree_gpu(&t, 50, 0);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    assert_false(tree_proc(&t, 50)->alive);
    assert_true(tree_proc(&t, 50)->foreign);
    tree_free(&t);
}

static void opening(void **state) {
    (void)state;
    struct al_host *h = NULL;
    struct al_procfs_options o = {"/no/such/folder", false};
    assert_int_equal(al_procfs_open(&o, &h), AL_E_NOENT);
    assert_null(al_host_free(NULL));
}

// Never outlives the test, nor keeps its output open.
static void stay(int *ready) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    close(ready[1]);
    pause();
    _exit(0);
}

// The process itself as a GPU's, with a child and a grandchild.
static void real_tree(void **state) {
    (void)state;
    struct tree t = {.root = "/"};
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        if (!fork())
            stay(ready);
        stay(ready);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); // both run
    close(ready[0]);
    tree_open(&t);
    tree_gpu(&t, getpid(), 0);
    tree_look(&t, AL_GROUP_HOST, 1 * S);
    const struct al_proc *self = tree_proc(&t, getpid()), *kid = tree_proc(&t, child);
    bool container = !((struct al_procfs *)t.host)->host_pid_ns;
    if (!container) { // else our own process holds no driver file, and so is not the one the driver means
        assert_true(self->alive);
        assert_int_equal(self->ppid, getppid());
        assert_int_equal(self->uid, getuid());
        assert_string_equal(self->exe, "test-host");
        assert_true(self->start_ticks > 0);
        assert_true(self->m[AL_PROC_RSS_ANON].num > 100000);
        assert_int_equal(kid->ppid, getpid());
        assert_role(kid, "other");
        assert_true(kid->start_ticks >= self->start_ticks);
        assert_int_equal(t.s->proc_count, 3);
        kill(t.s->procs[2].pid == child ? t.s->procs[1].pid : t.s->procs[2].pid, SIGKILL);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    tree_look(&t, AL_GROUP_HOST, 30 * S);
    al_host_free(t.host);
    al_snapshot_free(t.s);
}

// Children that end while they are read: rows are whole or not there, nothing else.
static void real_vanishing(void **state) {
    (void)state;
    struct tree t = {.root = "/"};
    tree_open(&t);
    ((struct al_procfs *)t.host)->host_pid_ns = true;
    for (int i = 0; i < 150; i++) {
        pid_t pid = fork();
        if (!pid)
            _exit(0);
        t.s->row_count = 0;
        tree_gpu(&t, pid, 0);
        if (i % 2)
            waitpid(pid, NULL, 0);
        tree_look(&t, AL_GROUP_HOST, (1 + i) * S);
        const struct al_proc *r = tree_proc(&t, pid);
        if (i % 2)
            assert_false(r->alive);
        if (r->alive) {
            assert_int_equal(r->ppid, getpid());
            assert_string_equal(r->comm, "test-host");
            assert_non_null(strchr("RSDZX", r->state));
        }
        if (i % 2 == 0)
            waitpid(pid, NULL, 0);
    }
    al_host_free(t.host);
    al_snapshot_free(t.s);
}

int faults_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crowd),   cmocka_unit_test(passing),   cmocka_unit_test(missing_files),
        cmocka_unit_test(garbage), cmocka_unit_test(opening),   cmocka_unit_test(real_tree),
        cmocka_unit_test(real_vanishing),
    };
    return cmocka_run_group_tests_name("host faults", tests, NULL, NULL);
}
