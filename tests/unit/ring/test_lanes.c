// SPDX-License-Identifier: Apache-2.0
// What goes in comes out: against a plain queue as the model, over many random sequences.
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "suite.h"

#define NO_TEXT UINT32_MAX

// The model: records that were taken by the lane and not yet drained, in order.
struct model {
    struct al_ring_item items[AL_RING_RECORDS];
    char text[AL_RING_RECORDS][48]; // the first bytes of an item's text
    size_t begin, end;                  // positions that only grow
    uint64_t used;                      // records in the lane
    uint64_t lost;
};

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void expect_item(void *user, const struct al_ring_item *item) {
    struct model *m = user;
    assert_true(m->begin < m->end);
    const struct al_ring_item *want = &m->items[m->begin % AL_RING_RECORDS];
    assert_memory_equal(&item->record, &want->record, sizeof item->record);
    m->used -= 1;
    if (item->record.kind == AL_RING_TEXT) {
        assert_non_null(item->text);
        assert_int_equal(item->text_length, want->text_length);
        const char *text = m->text[m->begin % AL_RING_RECORDS];
        assert_memory_equal(item->text, text, item->text_length < 48 ? item->text_length : 48);
        assert_int_equal(item->text[item->text_length], 0);
        m->used -= al_ring_text_records(item->text_length);
    } else {
        assert_null(item->text);
    }
    m->begin++;
}

static void model_put(struct model *m, struct al_ring_lane *lane, uint64_t *random) {
    struct al_ring_record record = {.at_ns = (int64_t)m->end,
                                    .kind = (uint16_t)(1 + next_random(random) % 100),
                                    .code = (uint16_t)next_random(random),
                                    .device = (int32_t)next_random(random),
                                    .a = (int64_t)(next_random(random) << 20),
                                    .b = -(int64_t)next_random(random)};
    bool fits = m->used < AL_RING_RECORDS;
    assert_int_equal(al_ring_writer_put(lane, &record), fits);
    if (!fits) {
        m->lost++;
        return;
    }
    m->items[m->end++ % AL_RING_RECORDS] = (struct al_ring_item){.record = record, .text_length = NO_TEXT};
    m->used++;
}

static void model_put_text(struct model *m, struct al_ring_lane *lane, uint64_t *random) {
    char bytes[AL_RING_TEXT_MAX + 64];
    size_t length = next_random(random) % sizeof bytes;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)next_random(random);
    size_t kept = length < AL_RING_TEXT_MAX ? length : AL_RING_TEXT_MAX;
    uint32_t count = 1 + (uint32_t)((kept + 31) / 32);
    bool fits = m->used + count <= AL_RING_RECORDS;
    assert_int_equal(al_ring_writer_put_text(lane, 7, 3, bytes, length), fits);
    if (!fits) {
        m->lost += count;
        return;
    }
    struct al_ring_record record = {.at_ns = 7, .kind = AL_RING_TEXT, .code = 3, .device = -1, .a = (int64_t)kept};
    memcpy(m->text[m->end % AL_RING_RECORDS], bytes, kept < 48 ? kept : 48);
    m->items[m->end++ % AL_RING_RECORDS] = (struct al_ring_item){.record = record, .text_length = (uint32_t)kept};
    m->used += count;
}

static void test_model(void **state) {
    (void)state;
    struct model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct pair p;
        pair_open(&p);
        memset(m, 0, sizeof *m);
        struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 42);
        uint64_t random = seed;
        for (int round = 0; round < 30; round++) {
            // A burst now and then fills the lane past its end; most are small, so that indices wrap at all offsets.
            uint64_t puts = next_random(&random) % (round % 10 == 9 ? 40000 : 3000);
            for (uint64_t i = 0; i < puts; i++) {
                if (next_random(&random) % 50 == 0)
                    model_put_text(m, lane, &random);
                else
                    model_put(m, lane, &random);
            }
            size_t want = m->end - m->begin;
            assert_int_equal(al_ring_reader_drain(p.reader, expect_item, m), want);
            assert_int_equal(m->begin, m->end);
            assert_int_equal(m->used, 0);
            assert_int_equal(al_ring_reader_lost(p.reader), m->lost);
        }
        assert_true(m->lost > 0);
        pair_close(&p);
    }
    free(m);
}

static void count_item(void *user, const struct al_ring_item *item) {
    int64_t *sums = user;
    sums[item->lane] += item->record.a;
    sums[AL_RING_LANES + item->lane] = item->tid;
}

static void test_lanes(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct al_ring_lane *lanes[AL_RING_LANES];
    for (uint32_t i = 0; i < AL_RING_LANES; i++) {
        lanes[i] = al_ring_writer_claim(&p.writer, 100 + (int32_t)i);
        assert_non_null(lanes[i]);
        struct al_ring_record record = {.kind = 2, .a = 1000 + i};
        assert_true(al_ring_writer_put(lanes[i], &record));
    }
    assert_null(al_ring_writer_claim(&p.writer, 7));
    al_ring_writer_lose(&p.writer, 4);
    // A thread that ends leaves its lane, with what is in it, to the next.
    al_ring_writer_release(lanes[3]);
    assert_ptr_equal(al_ring_writer_claim(&p.writer, 555), lanes[3]);
    struct al_ring_record more = {.kind = 2, .a = 5};
    assert_true(al_ring_writer_put(lanes[3], &more));
    int64_t sums[2 * AL_RING_LANES] = {0};
    assert_int_equal(al_ring_reader_drain(p.reader, count_item, sums), AL_RING_LANES + 1);
    for (uint32_t i = 0; i < AL_RING_LANES; i++) {
        assert_int_equal(sums[i], 1000 + i + (i == 3 ? 5 : 0));
        assert_int_equal(sums[AL_RING_LANES + i], i == 3 ? 555 : 100 + i);
    }
    assert_int_equal(al_ring_reader_lost(p.reader), 5);
    pair_close(&p);
}

static void test_all_or_nothing(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 1);
    struct al_ring_record records[3] = {{.kind = 1, .a = 1}, {.kind = 1, .a = 10}, {.kind = 1, .a = 100}};
    for (uint32_t i = 0; i < AL_RING_RECORDS - 2; i++)
        assert_true(al_ring_writer_put(lane, &records[0]));
    assert_false(al_ring_writer_put_all(lane, records, 3));
    assert_true(al_ring_writer_put_all(lane, records + 1, 2));
    assert_false(al_ring_writer_put(lane, records));
    int64_t sums[2 * AL_RING_LANES] = {0};
    assert_int_equal(al_ring_reader_drain(p.reader, count_item, sums), AL_RING_RECORDS);
    assert_int_equal(sums[0], AL_RING_RECORDS - 2 + 110);
    assert_int_equal(al_ring_reader_lost(p.reader), 4);
    pair_close(&p);
}

// A second collector begins where the first one stopped: nothing twice, nothing missing.
static void test_next_reader(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 1);
    struct al_ring_record record = {.kind = 1, .a = 1};
    int64_t sums[2 * AL_RING_LANES] = {0};
    assert_true(al_ring_writer_put(lane, &record));
    assert_int_equal(al_ring_reader_drain(p.reader, count_item, sums), 1);
    p.reader = al_ring_reader_free(p.reader);
    record.a = 10;
    assert_true(al_ring_writer_put(lane, &record));
    assert_int_equal(al_ring_reader_open(dup(p.writer.fd), &p.reader), 0);
    assert_int_equal(al_ring_reader_drain(p.reader, count_item, sums), 1);
    assert_int_equal(sums[0], 11);
    pair_close(&p);
}

static void test_origin(void **state) {
    (void)state;
    struct pair p;
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    pair_open(&p);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    const struct al_ring_origin *o = al_ring_reader_origin(p.reader);
    assert_int_equal(o->pid, getpid());
    assert_int_equal(o->version, AL_RING_VERSION);
    assert_true(o->start_ticks > 0);
    assert_true(o->monotonic_ns >= before.tv_sec * 1000000000 + before.tv_nsec);
    assert_true(o->monotonic_ns <= after.tv_sec * 1000000000 + after.tv_nsec);
    assert_true(o->realtime_ns > 1600000000000000000);
    assert_int_equal(fcntl(p.writer.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(ftruncate(p.writer.fd, 4096), -1);
    assert_true(p.writer.size <= (size_t)9 << 20);
    pair_close(&p);
}

static void test_requests(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    assert_int_equal(al_ring_writer_requests(&p.writer), 0);
    assert_true(al_ring_reader_ask(p.reader, 1));
    assert_true(al_ring_reader_ask(p.reader, 2));
    assert_true(al_ring_reader_ask(p.reader, 2));
    assert_int_equal(al_ring_writer_requests(&p.writer), 3);
    assert_int_equal(al_ring_writer_requests(&p.writer), 0);
    pair_close(&p);
}

// Another version of the probe, which would never answer.
static void test_writer_without_requests(void **state) {
    (void)state;
    struct al_ring_writer w;
    struct al_ring_reader *r;
    assert_int_equal(al_ring_writer_open(&w), 0);
    ((struct al_ring_header *)(void *)w.base)->features = 0;
    assert_int_equal(al_ring_reader_open(dup(w.fd), &r), 0);
    assert_false(al_ring_reader_ask(r, 1));
    al_ring_reader_free(r);
    al_ring_writer_close(&w);
}

int lanes_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),       cmocka_unit_test(test_lanes),  cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_next_reader), cmocka_unit_test(test_origin),
        cmocka_unit_test(test_requests),    cmocka_unit_test(test_writer_without_requests),
    };
    return cmocka_run_group_tests_name("ring: lanes", tests, NULL, NULL);
}
