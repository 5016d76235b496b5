// SPDX-License-Identifier: Apache-2.0
#include "collector.h"

#include <time.h>

static void expect(const struct collector *c, size_t i, int kind, int code, int64_t a, int64_t b) {
    assert_true(i < c->count);
    assert_int_equal(c->seen[i].kind, kind);
    assert_int_equal(c->seen[i].code, code);
    assert_int_equal(c->seen[i].a, a);
    assert_int_equal(c->seen[i].b, b);
}

static uint64_t turn(int end, int begin, int state, uint64_t samples) {
    return (uint64_t)(end + 1) << AL_PROBE_TURN_END | (uint64_t)(begin + 1) << AL_PROBE_TURN_BEGIN |
           (uint64_t)(state + 1) << AL_PROBE_TURN_STATE | samples << AL_PROBE_TURN_SAMPLES;
}

static void job_marks(struct collector *c) {
    (void)c;
    REQUIRE(alula_probe_mark(AL_EVENT_HELLO, 1, -1, 3, 8) == 1);
    REQUIRE(alula_probe_text(AL_TEXT_ERROR, "OutOfMemoryError: tried to allocate 20 GiB", 42) == 1);
    REQUIRE(alula_probe_mark(AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, 2, INT64_MAX, INT64_MIN) == 1);
    REQUIRE(alula_probe_mark(AL_EVENT_TEXT, 0, 0, 64, 0) == 0); // would take what follows for its bytes
    REQUIRE(alula_probe_state() == (AL_PROBE_STARTED | AL_PROBE_CONNECTED));
    REQUIRE(alula_probe_turn(turn(-1, AL_IN_DATA, -1, 0)) == 1);
    REQUIRE(alula_probe_turn(turn(AL_IN_DATA, AL_IN_FORWARD, -1, 0)) == 1);
    REQUIRE(alula_probe_turn(turn(AL_IN_FORWARD, AL_IN_BACKWARD, AL_STEP_MICRO, 8)) == 1);
    REQUIRE(alula_probe_turn(turn(AL_IN_OPTIMIZER, -1, AL_STEP_DONE, UINT32_MAX)) == 1);
    REQUIRE(alula_probe_turn(turn(AL_IN_OPTIMIZER, AL_IN_DATA, AL_STEP_SKIPPED, 16)) == 1);
    REQUIRE(alula_probe_turn(turn(AL_IN_DATA, -1, -1, 0) | 1ULL << AL_PROBE_TURN_LOOP) == 1);
    REQUIRE(alula_probe_steps() == 2);
}

static void job_request(struct collector *c) {
    (void)c;
    REQUIRE(alula_probe_request() == 0);
    REQUIRE(alula_probe_mark(AL_EVENT_HELLO, 1, -1, 0, 1) == 1);
    uint32_t got = 0;
    for (int i = 0; i < 5000 && !got; i++) {
        (void)usleep(1000);
        got = alula_probe_request();
    }
    REQUIRE(got == AL_REQUEST_EMPTY_CACHE); // not what this probe has no name for
    REQUIRE(alula_probe_request() == 0);
}

static void test_request(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    pid_t child = child_start(job_request, &c);
    collector_accept(&c);
    assert_true(al_ring_reader_ask(c.reader, AL_REQUEST_EMPTY_CACHE | 1u << 20));
    child_end(child);
    collector_close(&c);
}

static void test_marks(void **state) {
    (void)state;
    struct collector c;
    collector_open(&c);
    collector_listen(&c);
    struct timespec now;
    pid_t child = child_start(job_marks, &c);
    collector_accept(&c);
    child_end(child);
    collector_drain(&c);
    assert_memory_equal(c.hello.magic, "ALHELLO1", 8);
    assert_int_equal(c.hello.pid, child);
    assert_int_equal(c.peer, child);
    assert_int_equal(c.hello.start_ticks, al_ring_reader_origin(c.reader)->start_ticks);
    assert_int_equal(al_ring_reader_origin(c.reader)->pid, child);
    assert_int_equal(c.count, 15);
    expect(&c, 0, AL_EVENT_HELLO, 1, 3, 8);
    expect(&c, 1, AL_EVENT_TEXT, AL_TEXT_ERROR, 42, 0);
    assert_string_equal(c.text[1], "OutOfMemoryError: tried to allocate 20 GiB");
    expect(&c, 2, AL_EVENT_MEMORY, AL_ALLOCATOR_RESERVED, INT64_MAX, INT64_MIN);
    assert_int_equal(c.seen[2].device, 2);
    expect(&c, 3, AL_EVENT_PHASE_BEGIN, AL_IN_DATA, 1, 0);
    expect(&c, 4, AL_EVENT_PHASE_END, AL_IN_DATA, 1, 0);
    expect(&c, 5, AL_EVENT_PHASE_BEGIN, AL_IN_FORWARD, 1, 0);
    expect(&c, 6, AL_EVENT_PHASE_END, AL_IN_FORWARD, 1, 0);
    expect(&c, 7, AL_EVENT_STEP, AL_STEP_MICRO, 1, 8);
    expect(&c, 8, AL_EVENT_PHASE_BEGIN, AL_IN_BACKWARD, 1, 0);
    expect(&c, 9, AL_EVENT_PHASE_END, AL_IN_OPTIMIZER, 1, 0);
    expect(&c, 10, AL_EVENT_STEP, AL_STEP_DONE, 1, UINT32_MAX);
    expect(&c, 11, AL_EVENT_PHASE_END, AL_IN_OPTIMIZER, 2, 0);
    expect(&c, 12, AL_EVENT_STEP, AL_STEP_SKIPPED, 2, 16);
    expect(&c, 13, AL_EVENT_PHASE_BEGIN, AL_IN_DATA, 3, 0);
    expect(&c, 14, AL_EVENT_PHASE_END, AL_IN_DATA, 3, 1);
    assert_int_equal(c.seen[4].at_ns, c.seen[5].at_ns);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true(c.seen[0].at_ns <= c.seen[13].at_ns);
    assert_true(c.seen[13].at_ns <= now.tv_sec * 1000000000 + now.tv_nsec);
    collector_close(&c);
}

int marks_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_marks), cmocka_unit_test(test_request)};
    return cmocka_run_group_tests_name("probe: marks", tests, NULL, NULL);
}
