// SPDX-License-Identifier: Apache-2.0
// What a broken or hostile writer, or a hostile reader, can do to the other side: nothing but lose records.
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "suite.h"

static int open_raw(size_t size, bool seal) {
    int fd = (int)syscall(SYS_memfd_create, "raw", MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seal)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

static void expect_refused(int fd, int error) {
    struct al_ring_reader *r = (struct al_ring_reader *)(void *)&error;
    assert_int_equal(al_ring_reader_open(fd, &r), error);
    assert_null(r);
    assert_int_equal(close(fd), 0); // still the caller's
}

static void test_refused(void **state) {
    (void)state;
    size_t size = al_ring_size(AL_RING_LANES, AL_RING_RECORDS);
    expect_refused(open_raw(size, false), -EPERM);
    expect_refused(open_raw(0, true), -EPROTO);
    expect_refused(open_raw(4096, true), -EPROTO);
    expect_refused(open_raw(size, true), -EPROTO); // no magic
    expect_refused(open_raw((size_t)300 << 20, true), -EPROTO);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    expect_refused(pipes[0], -EPERM);
    (void)close(pipes[1]);
}

static void test_headers(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        uint32_t value;
    } wrong[] = {
        {offsetof(struct al_ring_header, magic), 0x41414141},
        {offsetof(struct al_ring_header, version), AL_RING_VERSION + 1},
        {offsetof(struct al_ring_header, version), 0},
        {offsetof(struct al_ring_header, record_bytes), 40},
        {offsetof(struct al_ring_header, lanes), 0},
        {offsetof(struct al_ring_header, lanes), 17},
        {offsetof(struct al_ring_header, lanes), 0xffffffff},
        {offsetof(struct al_ring_header, records), 0},
        {offsetof(struct al_ring_header, records), 1000},
        {offsetof(struct al_ring_header, records), 32768},
        {offsetof(struct al_ring_header, records), 0x80000000},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct al_ring_writer w;
        assert_int_equal(al_ring_writer_open(&w), 0);
        memcpy(w.base + wrong[i].offset, &wrong[i].value, sizeof wrong[i].value);
        expect_refused(dup(w.fd), -EPROTO);
        al_ring_writer_close(&w);
    }
}

static void count_item(void *user, const struct al_ring_item *item) {
    (void)item;
    ++*(size_t *)user;
}

static size_t drain(struct pair *p) {
    size_t count = 0, said = al_ring_reader_drain(p->reader, count_item, &count);
    assert_int_equal(said, count);
    return count;
}

static void test_indices(void **state) {
    (void)state;
    struct pair p;
    pair_open(&p);
    struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 1);
    struct al_ring_record record = {.kind = 1};
    assert_true(al_ring_writer_put(lane, &record));
    atomic_store(&lane->shared->head, UINT64_MAX); // far ahead
    assert_int_equal(drain(&p), 0);
    assert_int_equal(al_ring_reader_lost(p.reader), AL_RING_RECORDS);
    atomic_store(&lane->shared->head, 5); // ran back... but as unsigned distance it is 6 ahead: what is there is read
    assert_int_equal(drain(&p) + (al_ring_reader_lost(p.reader) - AL_RING_RECORDS), 6);
    atomic_store(&lane->shared->head, 3);
    assert_int_equal(drain(&p), 0);
    // Lanes that the writer enlarges after the header was taken stay as they were.
    pair_header(&p)->lanes = 0xffffffff;
    pair_header(&p)->records = 0xffffffff;
    atomic_store(&lane->shared->head, 4);
    assert_int_equal(drain(&p), 1);
    pair_close(&p);
}

static void test_texts(void **state) {
    (void)state;
    static const int64_t lengths[] = {-1, INT64_MIN, INT64_MAX, AL_RING_TEXT_MAX + 1, 33, 65};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct pair p;
        pair_open(&p);
        struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 1);
        struct al_ring_record text = {.kind = AL_RING_TEXT, .a = lengths[i]}, plain = {.kind = 1};
        assert_true(al_ring_writer_put(lane, &text));
        assert_true(al_ring_writer_put(lane, &plain)); // would be 32 bytes of the text
        assert_int_equal(drain(&p), 0);
        assert_int_equal(al_ring_reader_lost(p.reader), 2);
        assert_true(al_ring_writer_put(lane, &plain));
        assert_int_equal(drain(&p), 1);
        pair_close(&p);
    }
}

// The reader's tail is as little trusted: the writer loses records, but never writes outside of its lane.
static void test_hostile_reader(void **state) {
    (void)state;
    static const uint64_t tails[] = {1, AL_RING_RECORDS + 1, UINT64_MAX, UINT64_MAX / 2};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        struct pair p;
        pair_open(&p);
        struct al_ring_lane *lane = al_ring_writer_claim(&p.writer, 1);
        struct al_ring_record record = {.kind = 1};
        atomic_store(&lane->shared->tail, tails[i]);
        for (uint32_t n = 0; n < 2 * AL_RING_RECORDS; n++)
            (void)al_ring_writer_put(lane, &record);
        uint8_t *next = p.writer.base + al_ring_records_offset(AL_RING_LANES, AL_RING_RECORDS, 1);
        for (size_t n = 0; n < 4096; n++)
            assert_int_equal(next[n], 0);
        assert_true(atomic_load(&lane->shared->lost) >= AL_RING_RECORDS - 1);
        pair_close(&p);
    }
}

int damage_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused), cmocka_unit_test(test_headers),        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_texts),   cmocka_unit_test(test_hostile_reader),
    };
    return cmocka_run_group_tests_name("ring: damage", tests, NULL, NULL);
}
