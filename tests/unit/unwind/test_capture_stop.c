// SPDX-License-Identifier: Apache-2.0
// --blocking: what was stopped goes on, whatever happens meanwhile.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "suites.h"
#include "target.h"
#include "unwind/capture_parts.h"

#define SIGNALS 300

static struct al_capture *open_capture(pid_t pid) {
    struct al_capture_settings settings = {.ways = AL_CAPTURE_BLOCKING};
    struct al_unwind_error e;
    struct al_capture *c;
    unsigned open = 0;
    assert_int_equal(al_capture_open(pid, &settings, &c, &open, &e), 0);
    assert_int_equal(open, AL_CAPTURE_BLOCKING);
    return c;
}

static enum al_capture_status picture(struct al_capture *c, pid_t tid, struct al_unwind_input *in) {
    enum al_capture_status status = AL_CAPTURE_NOTHING;
    int64_t age;
    for (int i = 0; i < 500 && status == AL_CAPTURE_NOTHING; i++) // one that gets no processor stops late
        assert_int_equal(al_capture_thread(c, tid, AL_CAPTURE_BLOCKING, in, &status, &age), 0);
    return status;
}

static void stopped_and_let_go(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    target_start(&t, TARGET_SPINS);
    struct al_capture *c = open_capture(t.pid);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
        assert_int_equal(target_state(t.pid), 't');
        assert_true(al_capture_stands(c));
        assert_true(target_spins_at(in.regs[AL_REG_PC]) && in.known == AL_REGS_ALL && in.stopped);
        assert_true(target_marked(in.stack, in.size));
        assert_false(al_capture_release(c));
        assert_false(al_capture_stands(c));
        assert_true(target_turns(&t));
    }
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    al_capture_free(c); // lets go, too
    assert_true(target_turns(&t));
    target_end(&t);
}

// One of several threads is stopped, the others run on.
static void only_the_thread_that_is_sampled(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    target_start(&t, TARGET_THREADS);
    struct al_capture *c = open_capture(t.pid);
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    assert_true(target_marked(in.stack, in.size));
    assert_true(target_turns(&t));
    assert_int_equal(picture(c, t.seen->spinner, &in), AL_CAPTURE_STOPPED); // the one before is let go first
    assert_true(target_spins_at(in.regs[AL_REG_PC]));
    assert_int_not_equal(target_state(t.pid), 't');
    al_capture_release(c);
    assert_true(target_becomes(t.seen->spinner, 'R'));
    al_capture_free(c);
    target_end(&t);
}

static void signals_are_delivered(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    target_start(&t, TARGET_SPINS);
    struct al_capture *c = open_capture(t.pid);
    for (int i = 0; i < SIGNALS; i++) { // before, while and after it is stopped; these are queued, none may be lost
        if (i % 3 == 0)
            assert_int_equal(kill(t.pid, SIGRTMIN), 0);
        assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
        if (i % 3 == 1)
            assert_int_equal(kill(t.pid, SIGRTMIN), 0);
        al_capture_release(c);
        if (i % 3 == 2)
            assert_int_equal(kill(t.pid, SIGRTMIN), 0);
    }
    for (int i = 0; i < 5000 && t.seen->signals < SIGNALS; i++)
        (void)usleep(1000);
    assert_int_equal(t.seen->signals, SIGNALS);
    al_capture_free(c);
    target_end(&t);
}

static void one_that_was_stopped_stays_so(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    target_start(&t, TARGET_SPINS);
    assert_int_equal(kill(t.pid, SIGSTOP), 0);
    assert_true(target_becomes(t.pid, 'T'));
    struct al_capture *c = open_capture(t.pid);
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    assert_true(target_spins_at(in.regs[AL_REG_PC]));
    al_capture_release(c);
    assert_true(target_becomes(t.pid, 'T'));
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    assert_int_equal(kill(t.pid, SIGCONT), 0); // comes while it is traced
    al_capture_free(c);
    assert_true(target_turns(&t));
    // And a stop that comes while it is traced.
    c = open_capture(t.pid);
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    assert_int_equal(kill(t.pid, SIGSTOP), 0);
    al_capture_free(c);
    assert_true(target_becomes(t.pid, 'T'));
    assert_int_equal(kill(t.pid, SIGCONT), 0);
    assert_true(target_turns(&t));
    target_end(&t);
}

static void the_sampler_is_killed(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    target_start(&t, TARGET_SPINS);
    pid_t sampler = fork();
    if (sampler == 0) {
        struct al_capture *c = open_capture(t.pid);
        if (picture(c, t.pid, &in) == AL_CAPTURE_STOPPED)
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(sampler, &status, 0), sampler);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(target_turns(&t));
    assert_true(target_becomes(t.pid, 'R'));
    target_end(&t);
}

static void the_target_is_killed(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    target_start(&t, TARGET_SPINS);
    struct al_capture *c = open_capture(t.pid);
    assert_int_equal(picture(c, t.pid, &in), AL_CAPTURE_STOPPED);
    assert_int_equal(kill(t.pid, SIGKILL), 0);
    al_capture_release(c);
    int result = 0;
    for (int i = 0; i < 1000 && result != AL_E_GONE; i++) {
        result = al_capture_thread(c, t.pid, AL_CAPTURE_BLOCKING, &in, &status, &age);
        (void)usleep(1000);
    }
    assert_int_equal(result, AL_E_GONE);
    al_capture_free(c);
    target_end(&t);
}

// Threads end at any moment, traced or not: none may hang, nor its process.
static void threads_that_end(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    target_start(&t, TARGET_THREADS);
    struct al_capture *c = open_capture(t.pid);
    unsigned stopped = 0;
    uint64_t before = t.seen->threads;
    for (int64_t until = al_monotonic_ns() + 10 * AL_NS_PER_S; al_monotonic_ns() < until && t.seen->threads < before + 100;)
        for (pid_t tid = t.pid + 3; tid < t.pid + 400; tid++)
            if (kill(tid, 0) == 0 && tid != t.seen->spinner) {
                (void)al_capture_thread(c, tid, AL_CAPTURE_BLOCKING, &in, &status, &age);
                stopped += status == AL_CAPTURE_STOPPED;
            }
    assert_true(t.seen->threads >= before + 100);
    al_capture_free(c);
    before = t.seen->threads;
    for (int i = 0; i < 5000 && t.seen->threads < before + 10; i++)
        (void)usleep(1000);
    assert_true(t.seen->threads >= before + 10);
    print_message("%u were caught\n", stopped);
    target_end(&t);
}

static void another_traces_it(void **state) {
    (void)state;
    struct target t;
    struct al_unwind_error e;
    struct al_capture *c;
    unsigned open;
    struct al_capture_settings settings = {.ways = AL_CAPTURE_BLOCKING};
    target_start(&t, TARGET_SPINS);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        long traced = ptrace(PTRACE_SEIZE, t.pid, NULL, NULL);
        (void)!write(ready[1], traced == 0 ? "y" : "n", 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(al_capture_open(t.pid, &settings, &c, &open, &e), AL_E_DENIED);
    assert_non_null(strstr(e.text, "traces it already"));
    assert_int_equal(kill(tracer, SIGKILL), 0);
    assert_int_equal(waitpid(tracer, NULL, 0), tracer);
    (void)close(ready[0]);
    (void)close(ready[1]);
    target_end(&t);
}

int al_test_capture_stop(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_and_let_go),
        cmocka_unit_test(only_the_thread_that_is_sampled),
        cmocka_unit_test(signals_are_delivered),
        cmocka_unit_test(one_that_was_stopped_stays_so),
        cmocka_unit_test(the_sampler_is_killed),
        cmocka_unit_test(the_target_is_killed),
        cmocka_unit_test(threads_that_end),
        cmocka_unit_test(another_traces_it),
    };
    return cmocka_run_group_tests_name("unwind/capture_stop", tests, NULL, NULL);
}
