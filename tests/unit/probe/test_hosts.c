// SPDX-License-Identifier: Apache-2.0
// Hosts that do unusual things: marks from signal handlers, children by vfork and posix_spawn, ways in that know no loop.
#include "collector.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "probe/nccl_abi.h"

int InitializeInjection(void);
extern const struct al_nccl_profiler ncclProfiler_v5;

#define MARKS 2000 // that both make; the ring holds them all

static volatile sig_atomic_t handled, handled_written;

static void on_alarm(int number) {
    (void)number;
    handled++;
    handled_written += alula_probe_mark(AL_EVENT_EPOCH, 1, -1, handled, 0);
}

static void job_signals(struct collector *c) {
    (void)c;
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    int written = 0;
    REQUIRE(alula_probe_mark(AL_EVENT_HELLO, 1, -1, -1, 0) == 1);
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < MARKS || handled < 50; i++) {
        int done = i < MARKS ? alula_probe_mark(AL_EVENT_EPOCH, 0, -1, written, 0) : 0;
        written += done;
        REQUIRE(i >= MARKS || done == 1); // a mark that is interrupted is not hurt
        if (handled >= 1000)
            REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
    }
    REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
    // Those that came between two marks are there, those inside of one gave way.
    REQUIRE(alula_probe_mark(AL_EVENT_EPOCH, 2, -1, written, handled_written) == 1);
}

static void test_marks_from_a_signal_handler(void **state) {
    (void)state;
    struct collector *c = calloc(1, sizeof *c);
    collector_open(c);
    collector_listen(c);
    pid_t child = child_start(job_signals, c);
    collector_accept(c);
    child_end(child);
    collector_drain(c);
    int64_t from[2] = {0, 0};
    for (size_t i = 1; i + 1 < c->count; i++) {
        assert_int_equal(c->seen[i].kind, AL_EVENT_EPOCH);
        assert_in_range(c->seen[i].code, 0, 1);
        if (c->seen[i].code == 0)
            assert_int_equal(c->seen[i].a, from[0]);
        from[c->seen[i].code]++;
    }
    const struct al_ring_record *last = &c->seen[c->count - 1];
    assert_int_equal(last->code, 2);
    assert_int_equal(last->a, from[0]);
    assert_int_equal(last->b, from[1]);
    assert_int_equal(al_ring_reader_lost(c->reader), 0);
    collector_close(c);
    free(c);
}

static void job_spawn(struct collector *c) {
    (void)c;
    char *const look[] = {(char *)"sh", (char *)"-c",
                          (char *)"! ls -l /proc/self/fd | grep -q -e alula-ring -e '[4-9][0-9][0-9] ->'", NULL};
    char *const environment[] = {NULL};
    pid_t child;
    int status = -1;
    REQUIRE(alula_probe_mark(AL_EVENT_EPOCH, 0, -1, 1, 0) == 1);
    REQUIRE(posix_spawn(&child, "/bin/sh", NULL, NULL, look, environment) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    child = vfork();
    if (child == 0) {
        (void)execve("/bin/sh", look, environment);
        _exit(9);
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(alula_probe_mark(AL_EVENT_EPOCH, 0, -1, 2, 0) == 1); // as before
    REQUIRE(alula_probe_state() == (AL_PROBE_STARTED | AL_PROBE_CONNECTED));
}

static void test_spawned_children_inherit_nothing(void **state) {
    (void)state;
    struct collector *c = calloc(1, sizeof *c);
    collector_open(c);
    collector_listen(c);
    pid_t child = child_start(job_spawn, c);
    collector_accept(c);
    child_end(child);
    collector_drain(c);
    assert_int_equal(c->count, 2);
    assert_false(collector_has_caller(c));
    collector_close(c);
    free(c);
}

// CUDA is initialised in the parent before a fork, and again in its child.
static void job_cuda(struct collector *c) {
    (void)c;
    int mask = -1, status = -1;
    void *context = NULL;
    REQUIRE(setenv("RANK", "5", 1) == 0 && setenv("WORLD_SIZE", "8", 1) == 0);
    REQUIRE(InitializeInjection() == 1 && InitializeInjection() == 1);
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(InitializeInjection() == 1);
        REQUIRE(ncclProfiler_v5.init_5(&context, 1, &mask, "x", 1, 2, 0, NULL) == 0);
        REQUIRE(mask == 0 && alula_probe_state() == AL_PROBE_INERT);
        exit(0); // with its destructors
    }
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    REQUIRE(ncclProfiler_v5.init_5(&context, 1, &mask, NULL, 1, 2, 0, NULL) == 0);
    REQUIRE(context && mask == (AL_NCCL_COLL | AL_NCCL_P2P));
    REQUIRE(ncclProfiler_v5.finalize(context) == 0);
}

static void test_cuda_and_nccl(void **state) {
    (void)state;
    struct collector *c = calloc(1, sizeof *c);
    collector_open(c);
    collector_listen(c);
    pid_t child = child_start(job_cuda, c);
    collector_accept(c);
    child_end(child);
    collector_drain(c);
    assert_int_equal(c->count, 3);
    assert_int_equal(c->seen[0].kind, AL_EVENT_HELLO);
    assert_int_equal(c->seen[0].a, 5);
    assert_int_equal(c->seen[0].b, 8);
    assert_string_equal(c->text[1], AL_SOURCE_CUDA);
    assert_int_equal(c->seen[2].kind, AL_EVENT_COMMUNICATOR);
    assert_int_equal(c->seen[2].b, 2 | 1 << 24);
    assert_false(collector_has_caller(c));
    collector_close(c);
    free(c);
}

int hosts_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_from_a_signal_handler),
        cmocka_unit_test(test_spawned_children_inherit_nothing),
        cmocka_unit_test(test_cuda_and_nccl),
    };
    return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
