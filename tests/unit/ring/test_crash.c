// SPDX-License-Identifier: Apache-2.0
// Two processes, two threads: what was published is whole and in order, whenever the writer stops.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "suite.h"

// Every record says the same number in all its fields; a text is 100 times its own digit.
static void put_numbered(struct al_ring_lane *lane, int64_t i) {
    struct al_ring_record record = {
        .at_ns = i, .kind = 1, .code = (uint16_t)i, .device = (int32_t)(i & INT32_MAX), .a = i, .b = ~i};
    while (!al_ring_writer_put(lane, &record))
        (void)usleep(50);
    if (i % 100 == 0) {
        char text[100];
        memset(text, '0' + (int)(i / 100 % 10), sizeof text);
        while (!al_ring_writer_put_text(lane, i, 1, text, sizeof text))
            (void)usleep(50);
    }
}

static void check_numbered(void *user, const struct al_ring_item *item) {
    int64_t *next = user, i = *next;
    if (item->text) {
        assert_int_equal((i - 1) % 100, 0);
        assert_int_equal(item->text_length, 100);
        for (uint32_t c = 0; c < 100; c++)
            assert_int_equal(item->text[c], '0' + (int)((i - 1) / 100 % 10));
        return;
    }
    assert_int_equal(item->record.at_ns, i);
    assert_int_equal(item->record.code, (uint16_t)i);
    assert_int_equal(item->record.device, i & INT32_MAX);
    assert_int_equal(item->record.b, ~i);
    *next = i + 1;
}

static void test_killed(void **state) {
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct pair p;
        pair_open(&p);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 9);
            for (int64_t i = 0;; i++)
                put_numbered(lane, i);
        }
        int64_t next = 0;
        while (next < 20000 + 3000 * round)
            (void)al_ring_reader_drain(p.reader, check_numbered, &next);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        al_ring_writer_close(&p.writer); // the reader's own descriptor keeps what is there
        int64_t before = next;
        (void)al_ring_reader_drain(p.reader, check_numbered, &next);
        assert_true(next >= before);
        assert_int_equal(al_ring_reader_drain(p.reader, check_numbered, &next), 0);
        p.reader = al_ring_reader_free(p.reader);
    }
}

static void *write_many(void *user) {
    struct al_ring_lane *lane = user;
    for (int64_t i = 0; i < 300000; i++)
        put_numbered(lane, i);
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_many, al_ring_writer_claim(&p.writer, 1)), 0);
    int64_t next = 0;
    while (next < 300000)
        (void)al_ring_reader_drain(p.reader, check_numbered, &next);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_close(&p);
}

int crash_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests_name("ring: crash", tests, NULL, NULL);
}
