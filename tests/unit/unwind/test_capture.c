// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "suites.h"
#include "target.h"
#include "unwind/capture_parts.h"

static struct al_capture *open_capture(pid_t pid, unsigned ways, double rate) {
    struct al_capture_settings settings = {.ways = ways, .rate = rate};
    struct al_unwind_error e;
    struct al_capture *c = NULL;
    unsigned open = 0;
    int result = al_capture_open(pid, &settings, &c, &open, &e);
    if (result == AL_E_DENIED || result == AL_E_UNSUPPORTED) {
        print_message("%s\n", e.text);
        skip(); // no perf here
    }
    assert_int_equal(result, 0);
    if (open != ways) {
        print_message("%s\n", e.text);
        al_capture_free(c);
        skip();
    }
    assert_string_equal(e.text, "");
    return c;
}

static void a_running_thread_has_its_registers_and_stack(void **state) {
    (void)state;
    struct target t;
    target_start(&t, TARGET_SPINS);
    struct al_capture *c = open_capture(t.pid, AL_CAPTURE_PERF | AL_CAPTURE_WAITING, 1000);
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    assert_int_equal(al_capture_thread(c, t.pid, AL_CAPTURE_PERF, &in, &status, &age), 0);
    assert_int_equal(status, AL_CAPTURE_NOTHING); // it has got its clock just now
    assert_true(al_capture_has_clock(c, t.pid));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(al_capture_wait(c, al_monotonic_ns() + 10 * AL_NS_PER_S), t.pid);
        assert_int_equal(al_capture_thread(c, t.pid, AL_CAPTURE_PERF, &in, &status, &age), 0);
        assert_int_equal(status, AL_CAPTURE_RUNNING);
        assert_false(al_capture_stands(c));
        assert_true(age > 0 && age < 10 * AL_NS_PER_S);
        assert_true(in.known == AL_REGS_ALL && !in.stopped);
        assert_true(target_spins_at(in.regs[AL_REG_PC]));
        assert_true(in.size >= 2048 && target_marked(in.stack, in.size));
    }
    struct al_capture_counts counts;
    al_capture_get_counts(c, &counts);
    assert_int_equal(counts.pictures, 20);
    assert_int_equal(counts.clocks, 1);
    kill(t.pid, SIGKILL);
    (void)target_becomes(t.pid, 'Z');
    (void)al_capture_wait(c, al_monotonic_ns() + 100 * AL_NS_PER_MS);
    (void)al_capture_thread(c, t.pid, AL_CAPTURE_PERF, &in, &status, &age); // what had come before its end
    assert_int_equal(al_capture_wait(c, al_monotonic_ns() + 50 * AL_NS_PER_MS), 0);
    assert_false(al_capture_has_clock(c, t.pid));
    al_capture_free(c);
    target_end(&t);
}

static void a_waiting_thread_has_its_stack(void **state) {
    (void)state;
    struct target t;
    target_start(&t, TARGET_WAITS);
    assert_true(target_becomes(t.pid, 'S'));
    struct al_capture *c = open_capture(t.pid, AL_CAPTURE_WAITING, 0);
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    assert_int_equal(al_capture_thread(c, t.pid, AL_CAPTURE_WAITING, &in, &status, &age), 0);
    assert_int_equal(status, AL_CAPTURE_ASLEEP);
    assert_true(in.stopped && in.known == (1ULL << AL_REG_SP | 1ULL << AL_REG_PC));
    assert_true(in.size > 0 && target_marked(in.stack, in.size));
    assert_true(al_capture_stands(c));
    kill(t.pid, SIGKILL);
    assert_true(target_becomes(t.pid, 'Z'));
    assert_false(al_capture_stands(c));
    target_end(&t);
    assert_int_equal(al_capture_thread(c, t.pid, AL_CAPTURE_WAITING, &in, &status, &age), AL_E_GONE);
    al_capture_free(c);
}

// The stack of a thread ends with its mapping, and 32 KiB are more than is there.
static void threads_that_come_and_go(void **state) {
    (void)state;
    struct target t;
    target_start(&t, TARGET_THREADS);
    struct al_capture *c = open_capture(t.pid, AL_CAPTURE_PERF | AL_CAPTURE_WAITING, 500);
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    assert_int_equal(al_capture_thread(c, t.pid, AL_CAPTURE_WAITING | AL_CAPTURE_PERF, &in, &status, &age), 0);
    assert_int_equal(status, AL_CAPTURE_ASLEEP);
    uint64_t before = t.seen->threads;
    unsigned seen = 0;
    for (int64_t until = al_monotonic_ns() + 20 * AL_NS_PER_S; al_monotonic_ns() < until && (seen < 20 || t.seen->threads < before + 50);) {
        for (pid_t tid = t.pid; tid < t.pid + 200; tid++) // whichever of its threads it may be
            if (tid == t.seen->spinner || (tid & 7) == 0)
                (void)al_capture_thread(c, tid, AL_CAPTURE_PERF, &in, &status, &age);
        pid_t tid = al_capture_wait(c, al_monotonic_ns() + 20 * AL_NS_PER_MS);
        if (tid != t.seen->spinner)
            continue;
        assert_int_equal(al_capture_thread(c, tid, AL_CAPTURE_PERF | AL_CAPTURE_WAITING, &in, &status, &age), 0);
        if (status != AL_CAPTURE_RUNNING)
            continue;
        assert_true(target_spins_at(in.regs[AL_REG_PC]) && target_marked(in.stack, in.size));
        seen++;
    }
    assert_true(seen >= 20 && t.seen->threads >= before + 50);
    struct al_capture_counts counts;
    al_capture_get_counts(c, &counts);
    assert_true(counts.clocks >= 1 && counts.clocks < 30); // not those of all that have ended
    al_capture_free(c);
    target_end(&t);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

// A made /proc: lines that the kernel does not write are no pictures.
static void lines_of_proc_are_not_believed(void **state) {
    (void)state;
    char folder[] = "/tmp/al-capture-XXXXXX", path[128];
    struct al_unwind_input in;
    enum al_capture_status status;
    int64_t age;
    static const char *const lines[] = {"", "running\n", "x 0x1000 0x2000\n", "0 0x1000\n", "0 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe1000\n", "-1 0x0 0x0\n",
                                        "-1 0x7ffe1000 0xffffffffffffffffffffff\n", "230 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe1000 0x400000 0x1\n",
                                        "230 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe1000 zz\n"};
    assert_non_null(mkdtemp(folder));
    static const char *const parts[] = {"7", "7/task", "7/task/7"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    (void)snprintf(path, sizeof path, "%s/7/task/7", folder);
    write_file(path, "syscall", "230 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe1000 0x401000\n");
    struct al_capture_settings settings = {.ways = AL_CAPTURE_WAITING, .procfs = folder};
    struct al_unwind_error e;
    struct al_capture *c;
    unsigned open;
    assert_int_equal(al_capture_open(7, &settings, &c, &open, &e), 0);
    assert_int_equal(al_capture_thread(c, 7, AL_CAPTURE_WAITING, &in, &status, &age), 0);
    assert_int_equal(status, AL_CAPTURE_ASLEEP);
    assert_true(in.regs[AL_REG_SP] == 0x7ffe1000 && in.regs[AL_REG_PC] == 0x401000);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        write_file(path, "syscall", lines[i]);
        int result = al_capture_thread(c, 7, AL_CAPTURE_WAITING, &in, &status, &age);
        assert_int_equal(result, i == 0 ? AL_E_GONE : 0);
        assert_int_equal(status, AL_CAPTURE_NOTHING);
    }
    al_capture_free(c);
    (void)snprintf(path, sizeof path, "rm -r %s", folder);
    assert_int_equal(system(path), 0);
}

// As nobody, of a process of root's: the kernel answers EACCES, and the setting (here of a made /proc) is named.
static void what_forbids_perf_is_named(void **state) {
    (void)state;
    struct target t;
    char folder[] = "/tmp/al-capture-XXXXXX", path[128];
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    static const char *const parts[] = {"sys", "sys/kernel", "self"};
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    target_start(&t, TARGET_WAITS);
    static const struct {
        const char *paranoid, *status, *words;
    } cases[] = {
        {"3\n", "Name:\tx\nSeccomp:\t2\n", "kernel.perf_event_paranoid is 3: sysctl kernel.perf_event_paranoid=2"},
        {"2\n", "Name:\tx\nSeccomp:\t2\n", "a seccomp filter forbids perf_event_open"},
        {"2\n", "Name:\tx\nSeccomp:\t0\n", "not permitted (kernel.perf_event_paranoid 2"},
        {"nonsense", "", "not permitted (kernel.perf_event_paranoid -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(folder, "sys/kernel/perf_event_paranoid", cases[i].paranoid);
        write_file(folder, "self/status", cases[i].status);
        pid_t child = fork();
        if (child == 0) {
            struct al_capture_settings settings = {.ways = AL_CAPTURE_PERF, .procfs = folder};
            struct al_unwind_error e;
            struct al_capture *c;
            unsigned open;
            if (setgid(65534) || setuid(65534))
                _exit(2);
            bool denied = al_capture_open(t.pid, &settings, &c, &open, &e) == AL_E_DENIED;
            bool said = strstr(e.text, cases[i].words) && strstr(e.text, "threads that run have no native frames");
            _exit(denied && said && !open ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    target_end(&t);
    (void)snprintf(path, sizeof path, "rm -r %s", folder);
    assert_int_equal(system(path), 0);
}

static void a_process_that_is_gone(void **state) {
    (void)state;
    struct target t;
    target_start(&t, TARGET_WAITS);
    kill(t.pid, SIGKILL);
    pid_t pid = t.pid;
    target_end(&t);
    struct al_capture_settings settings = {.ways = AL_CAPTURE_PERF | AL_CAPTURE_WAITING | AL_CAPTURE_BLOCKING};
    struct al_unwind_error e;
    struct al_capture *c;
    unsigned open;
    assert_int_equal(al_capture_open(pid, &settings, &c, &open, &e), AL_E_GONE);
    assert_null(c);
    assert_non_null(strstr(e.text, "has ended"));
}

int al_test_capture(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_thread_has_its_registers_and_stack),
        cmocka_unit_test(a_waiting_thread_has_its_stack),
        cmocka_unit_test(threads_that_come_and_go),
        cmocka_unit_test(lines_of_proc_are_not_believed),
        cmocka_unit_test(what_forbids_perf_is_named),
        cmocka_unit_test(a_process_that_is_gone),
    };
    return cmocka_run_group_tests_name("unwind/capture", tests, NULL, NULL);
}
