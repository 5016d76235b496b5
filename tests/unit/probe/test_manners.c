// SPDX-License-Identifier: Apache-2.0
// What a host may do around the probe, and what the probe must not do then.
#include "collector.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static int mark(int64_t a) {
    return alula_probe_mark(AL_EVENT_EPOCH, 0, -1, a, 0);
}

static int step(void) {
    return alula_probe_turn((uint64_t)(AL_STEP_DONE + 1) << AL_PROBE_TURN_STATE);
}

static int open_files(void) {
    int count = 0;
    struct stat st;
    for (int fd = 0; fd < 1024; fd++)
        count += fstat(fd, &st) == 0;
    return count;
}

static void job_nobody(struct collector *c) {
    (void)c;
    int files = open_files();
    REQUIRE(mark(1) == 0 && step() == 0 && alula_probe_text(AL_TEXT_SOURCE, "x", 1) == 0);
    REQUIRE(alula_probe_state() == 0); // not for good: somebody may come
    REQUIRE(open_files() == files);
    REQUIRE(alula_probe_steps() == 1);
}

static void test_nobody(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    child_end(child_start(job_nobody, &c));
    collector_close(&c);
}

static void job_unset(struct collector *c) {
    (void)c;
    REQUIRE(unsetenv("ALULA_SOCKET") == 0);
    REQUIRE(mark(1) == 0);
    REQUIRE(alula_probe_state() == AL_PROBE_INERT);
}

static void job_long_path(struct collector *c) {
    char path[200];
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    REQUIRE(setenv("ALULA_SOCKET", path, 1) == 0);
    (void)c;
    REQUIRE(mark(1) == 0);
    REQUIRE(alula_probe_state() == AL_PROBE_INERT);
}

static void test_unset(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    child_end(child_start(job_unset, &c));
    child_end(child_start(job_long_path, &c));
    collector_close(&c);
}

static void job_fork(struct collector *c) {
    (void)c;
    REQUIRE(mark(1) == 1);
    int files = open_files();
    pid_t child = fork();
    if (child == 0) {
        REQUIRE(mark(2) == 0 && step() == 0 && alula_probe_text(AL_TEXT_SOURCE, "child", 5) == 0);
        REQUIRE(alula_probe_state() == AL_PROBE_INERT);
        REQUIRE(alula_probe_steps() == 0);
        alula_probe_forked();
        REQUIRE(open_files() == files - 2);
        _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    alula_probe_forked(); // not a child: nothing happens
    REQUIRE(open_files() == files);
    REQUIRE(mark(3) == 1);
}

static void test_fork(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_fork, &c);
    collector_accept(&c);
    child_end(child);
    collector_drain(&c);
    assert_int_equal(c.count, 2);
    assert_int_equal(c.seen[0].a, 1);
    assert_int_equal(c.seen[1].a, 3);
    assert_int_equal(al_ring_reader_lost(c.reader), 0);
    assert_false(collector_has_caller(&c));
    collector_close(&c);
}

static void *mark_once(void *user) {
    // The gate to a first lane may be shut for a moment.
    while (!mark(*(int64_t *)user))
        (void)usleep(100);
    return NULL;
}

static void job_threads(struct collector *c) {
    (void)c;
    for (int64_t round = 0; round < 5; round++) {
        pthread_t threads[12];
        int64_t numbers[12];
        for (int i = 0; i < 12; i++) {
            numbers[i] = round * 12 + i;
            REQUIRE(pthread_create(&threads[i], NULL, mark_once, &numbers[i]) == 0);
        }
        for (int i = 0; i < 12; i++)
            REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
}

// 60 threads one after another on 16 lanes: those of ended threads are used again.
static void test_threads(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_threads, &c);
    collector_accept(&c);
    child_end(child);
    collector_drain(&c);
    assert_int_equal(c.count, 60);
    int64_t sum = 0;
    for (size_t i = 0; i < c.count; i++)
        sum += c.seen[i].a;
    assert_int_equal(sum, 59 * 60 / 2);
    collector_close(&c);
}

static void job_full(struct collector *c) {
    (void)c;
    int written = 0;
    for (uint32_t i = 0; i < AL_RING_RECORDS + 1000; i++)
        written += mark(i);
    REQUIRE(written == (int)AL_RING_RECORDS);
}

static void count_only(void *user, const struct al_ring_item *item) {
    (void)item;
    ++*(size_t *)user;
}

static void test_full(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_full, &c);
    collector_accept(&c);
    child_end(child);
    size_t count = 0;
    (void)al_ring_reader_drain(c.reader, count_only, &count);
    assert_int_equal(count, AL_RING_RECORDS);
    assert_int_equal(al_ring_reader_lost(c.reader), 1000);
    collector_close(&c);
}

static void wait_for(const char *path, bool there) {
    for (int i = 0; i < 5000 && (access(path, F_OK) == 0) != there; i++)
        (void)usleep(1000);
}

static const char *in_folder(const struct collector *c, const char *name, char place[128]) {
    (void)stpcpy(stpcpy(place, c->folder), name);
    return place;
}

static bool leave(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd >= 0 && close(fd) == 0;
}

static void job_restart(struct collector *c) {
    REQUIRE(alula_probe_mark(AL_EVENT_HELLO, 1, -1, 0, 1) == 1);
    REQUIRE(alula_probe_text(AL_TEXT_FRAMEWORK, "torch=9", 7) == 1);
    REQUIRE(mark(1) == 1);
    wait_for(c->path, false);
    char place[128];
    REQUIRE(leave(in_folder(c, "/gone", place)));
    wait_for(c->path, true);
    int64_t steps = 0;
    for (int i = 0; i < 5000 && alula_probe_steps() < 4000; i++) { // looks once a second
        REQUIRE(step() == 1);
        steps++;
        (void)usleep(1000);
        if (access(in_folder(c, "/done", place), F_OK) == 0)
            break;
    }
    REQUIRE(alula_probe_steps() == steps);
    REQUIRE(mark(2) == 1);
}

static void test_restart(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_restart, &c);
    collector_accept(&c);
    while (c.count < 3)
        collector_drain(&c);
    // The collector dies, another one comes to the same place.
    (void)close(c.socket);
    (void)close(c.listener);
    c.reader = al_ring_reader_free(c.reader);
    (void)unlink(c.path);
    char place[128];
    wait_for(in_folder(&c, "/gone", place), true); // the job has seen that it died
    (void)unlink(place);
    c.count = 0;
    collector_listen(&c);
    collector_accept(&c);
    assert_int_equal(c.peer, child);
    assert_true(leave(in_folder(&c, "/done", place)));
    child_end(child);
    collector_drain(&c);
    (void)unlink(place);
    size_t hello = 0, framework = 0, first = 0, steps = 0;
    for (size_t i = 0; i < c.count; i++) {
        hello += c.seen[i].kind == AL_EVENT_HELLO;
        framework += strcmp(c.text[i], "torch=9") == 0;
        first += c.seen[i].kind == AL_EVENT_EPOCH && c.seen[i].a == 1;
        steps += c.seen[i].kind == AL_EVENT_STEP;
    }
    assert_int_equal(hello, 1);
    assert_int_equal(framework, 1);
    assert_int_equal(first, 0); // the first collector had it
    assert_true(steps > 0);
    assert_int_equal(c.seen[c.count - 1].a, 2);
    assert_int_equal(al_ring_reader_lost(c.reader), 0);
    collector_close(&c);
}

// A host that closes every descriptor and opens its own on the same numbers.
static void job_closed(struct collector *c) {
    (void)c;
    REQUIRE(mark(1) == 1);
    for (int fd = 3; fd < 1024; fd++)
        (void)close(fd);
    for (int fd = 3; fd < 1000; fd++)
        REQUIRE(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
    (void)usleep(1100000); // past the next look
    REQUIRE(step() == 1);
    REQUIRE(mark(2) == 1 || alula_probe_state() == AL_PROBE_INERT + AL_PROBE_STARTED);
    struct stat st;
    for (int fd = 3; fd < 1000; fd++)
        REQUIRE(fstat(fd, &st) == 0 && S_ISCHR(st.st_mode));
}

static void test_closed(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_closed, &c);
    collector_accept(&c);
    child_end(child);
    collector_drain(&c);
    assert_true(c.count >= 1);
    assert_int_equal(c.seen[0].a, 1);
    collector_close(&c);
}

int manners_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody),  cmocka_unit_test(test_unset), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_full),  cmocka_unit_test(test_restart),
        cmocka_unit_test(test_closed),
    };
    return cmocka_run_group_tests_name("probe: manners", tests, NULL, NULL);
}
