// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "image.h"
#include "stack/core/plan.h"
#include "stack/core/walk.h"
#include "suites.h"

#define THREAD (IMAGE_BASE + 0x100)
#define CFRAME (IMAGE_BASE + 0x800)
#define CHUNK (IMAGE_BASE + 0x1000)
#define CHUNK_SIZE 0x4000u
#define DEPTH 64u
#define STEP 128u

struct fixture {
    struct image *image;
    struct al_memory memory;
    struct al_layout layout;
    struct al_walk walk;
    struct al_plan plan;
};

static uint64_t frame_at(unsigned n) { // 0: the root
    return CHUNK + 24 + n * STEP;
}

static void put_frame(struct fixture *f, unsigned n, uint64_t code) {
    uint64_t at = frame_at(n);
    image_u64(f->image, at + f->layout.frame_previous, n ? frame_at(n - 1) : 0);
    image_u64(f->image, at + f->layout.frame_code, code);
    image_u64(f->image, at + f->layout.frame_instr, code + 1000 + n);
    f->image->bytes[at - IMAGE_BASE + f->layout.frame_owner] = 0;
    f->image->bytes[at - IMAGE_BASE + f->layout.frame_entry] = n == 0;
}

static void top_is(struct fixture *f, unsigned n) {
    image_u64(f->image, CFRAME + f->layout.cframe_frame, frame_at(n));
}

// A 3.11 thread of `count` frames in one chunk.
static struct fixture set_up(unsigned count) {
    struct fixture f = {.image = calloc(1, sizeof *f.image)};
    assert_int_equal(al_layout_table(0x030b07f0, 62, &f.layout), AL_LAYOUT_FINE);
    image_u64(f.image, THREAD + f.layout.thread_frame, CFRAME);
    image_u64(f.image, THREAD + f.layout.thread_chunk, CHUNK);
    image_u64(f.image, CHUNK + 8, CHUNK_SIZE);
    for (unsigned i = 0; i < count; i++)
        put_frame(&f, i, 0x20000 + 16 * i);
    if (count)
        top_is(&f, count - 1);
    f.plan = (struct al_plan){.spans = calloc(16, sizeof *f.plan.spans), .cap = 16};
    return f;
}

static enum al_walk_status walk(struct fixture *f) {
    f->memory = (struct al_memory){image_gather, f->image};
    f->walk.layout = &f->layout;
    f->walk.memory = &f->memory;
    if (!f->walk.buffer) {
        f->walk.buffer_size = 2 * AL_WALK_BYTES;
        f->walk.buffer = malloc(f->walk.buffer_size);
        f->walk.frames = calloc(DEPTH, sizeof *f->walk.frames);
        f->walk.second = calloc(DEPTH, sizeof *f->walk.second);
        f->walk.depth = DEPTH;
    }
    return al_walk_thread(&f->walk, &f->plan, THREAD);
}

static void tear_down(struct fixture *f) {
    free(f->image);
    free(f->walk.buffer);
    free(f->walk.frames);
    free(f->walk.second);
    free(f->plan.spans);
}

static void a_still_chain_is_read_whole(void **state) {
    (void)state;
    struct fixture f = set_up(50);
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, 50);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(f.walk.frames[i].address, frame_at(49 - i));
        assert_int_equal(f.walk.frames[i].entry, i == 49);
    }
    // Once it is known what to read, one call does.
    f.image->gathers = 0;
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.image->gathers, 1);
    assert_true(f.plan.count <= 3); // the thread's word, the C frame, the chunk
    tear_down(&f);
}

static void growth_is_followed(void **state) {
    (void)state;
    struct fixture f = set_up(3);
    assert_int_equal(walk(&f), AL_WALK_OK);
    for (unsigned i = 3; i < 60; i++)
        put_frame(&f, i, 0x20000 + 16 * i);
    top_is(&f, 59);
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, 60);
    top_is(&f, 1);
    for (int i = 0; i < 20; i++)
        assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, 2);
    assert_true(f.plan.total < 4096); // what is not in use any more is not copied for ever
    tear_down(&f);
}

// A stack of two chunks that was never read, or that has moved elsewhere: no reading a frame.
static void new_chunks_are_learned_together(void **state) {
    (void)state;
    struct fixture f = set_up(60);
    uint64_t second = CHUNK + 0x8000;
    for (unsigned i = 40; i < 60; i++) { // as if pushed to a second chunk
        uint64_t at = second + 24 + (i - 40) * STEP, before = i == 40 ? frame_at(39) : at - STEP;
        image_u64(f.image, at + f.layout.frame_previous, before);
        image_u64(f.image, at + f.layout.frame_code, 0x20000 + 16 * i);
    }
    image_u64(f.image, THREAD + f.layout.thread_chunk, second);
    image_u64(f.image, second, CHUNK);
    image_u64(f.image, second + 8, CHUNK_SIZE);
    image_u64(f.image, CHUNK + 16, 40 * STEP / 8);
    image_u64(f.image, CFRAME + f.layout.cframe_frame, second + 24 + 19 * STEP);
    f.image->gathers = 0;
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, 60);
    assert_int_equal(f.walk.frames[59].address, frame_at(0));
    assert_true(f.image->gathers < 20); // a third of the frames
    tear_down(&f);
}

// The copies of the plan in the caller's own reading serve as well, once; what differs between them is unstable.
static void what_was_read_ahead_is_used_once(void **state) {
    (void)state;
    struct fixture f = set_up(10);
    assert_int_equal(walk(&f), AL_WALK_OK);
    struct al_piece pieces[2 * 16 + 1];
    uint16_t sequence[AL_SPANS_MOST];
    static unsigned char copies[2][8192];
    uint32_t total = al_plan_lay(&f.plan, sizeof copies[0], sequence);
    assert_in_range(total, 10 * STEP, sizeof copies[0]);
    assert_int_equal(al_plan_lay(&f.plan, total - 1, sequence), 0);
    assert_int_equal(al_plan_lay(&f.plan, total, sequence), total);
    for (int twin = 1; twin >= 0; twin--) {
        uint32_t n = al_plan_first(&f.plan, sequence, 0, 0, 0, pieces);
        assert_int_equal(n, f.plan.count);
        // Without what lies near the thread's own struct.
        assert_int_equal(al_plan_first(&f.plan, sequence, THREAD, CHUNK, 0, pieces), n - 1);
        n = al_plan_first(&f.plan, sequence, 0, 0, 0, pieces);
        // What points to the innermost frame comes between the passes over the frames, once.
        assert_int_equal(pieces[n - 1].address, THREAD + f.layout.thread_frame);
        uint32_t more = al_plan_second(&f.plan, sequence, sizeof copies[0], pieces + n);
        for (uint32_t i = n; i < n + more; i++)
            assert_true(pieces[i].size > 8);
        n += more;
        assert_int_equal(f.memory.gather(f.memory.user, pieces, n, copies), n);
        al_plan_twins(&f.plan, copies[0], copies[1]);
        if (!twin)
            for (size_t i = 0; i + 8 <= total; i += 8)
                if (al_u64(copies[1] + i) == 0x20000 + 16 * 5)
                    copies[1][i] ^= 1;
        f.walk.ahead = (struct al_copies){copies[0], copies[1], 0};
        f.image->gathers = 0;
        assert_int_equal(walk(&f), twin ? AL_WALK_OK : AL_WALK_UNSTABLE);
        assert_int_equal(f.image->gathers, 0);
        assert_int_equal(f.walk.count, twin ? 10 : 5);
        assert_null(f.walk.ahead.first);
        total = al_plan_lay(&f.plan, sizeof copies[0], sequence);
    }
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.image->gathers, 1);
    tear_down(&f);
}

static struct fixture *moving;

// Between the two copies the two innermost frames become others.
static void move_top(struct image *i) {
    (void)i;
    static unsigned turn;
    turn++;
    put_frame(moving, 9, 0x70000 + 16 * turn);
    put_frame(moving, 8, 0x80000 + 16 * turn);
}

static void a_moving_chain_keeps_its_common_part(void **state) {
    (void)state;
    struct fixture f = set_up(10);
    assert_int_equal(walk(&f), AL_WALK_OK);
    moving = &f;
    f.image->change = move_top;
    assert_int_equal(walk(&f), AL_WALK_UNSTABLE);
    assert_int_equal(f.walk.count, 8);
    assert_int_equal(f.walk.frames[0].address, frame_at(7));
    assert_int_equal(f.walk.frames[7].address, frame_at(0));
    tear_down(&f);
}

// The innermost frame goes on from line to line: that is no other stack.
static void step_top(struct image *i) {
    static uint64_t at = 0x90000;
    (void)i;
    image_u64(moving->image, frame_at(9) + moving->layout.frame_instr, at += 2);
}

static void a_running_line_is_stable(void **state) {
    (void)state;
    struct fixture f = set_up(10);
    moving = &f;
    f.image->change = step_top;
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, 10);
    tear_down(&f);
}

static void damage_ends(void **state) {
    (void)state;
    struct fixture f = set_up(10);
    image_u64(f.image, frame_at(5) + f.layout.frame_previous, frame_at(5)); // calls itself
    assert_int_equal(walk(&f), AL_WALK_UNSTABLE);
    assert_true(f.walk.damaged);
    image_u64(f.image, frame_at(5) + f.layout.frame_previous, frame_at(9)); // a ring
    (void)walk(&f);
    assert_true(f.walk.truncated || f.walk.damaged);
    image_u64(f.image, frame_at(5) + f.layout.frame_previous, 0x7fffffffffff0);
    assert_int_equal(walk(&f), AL_WALK_UNSTABLE);
    image_u64(f.image, CFRAME + f.layout.cframe_frame, 0);
    assert_int_equal(walk(&f), AL_WALK_EMPTY);
    image_u64(f.image, THREAD + f.layout.thread_frame, 0x7fffffffffff0);
    assert_int_equal(walk(&f), AL_WALK_UNREADABLE);
    tear_down(&f);
}

static void depth_is_bounded(void **state) {
    (void)state;
    struct fixture f = set_up(DEPTH + 20);
    assert_int_equal(walk(&f), AL_WALK_OK);
    assert_int_equal(f.walk.count, DEPTH);
    assert_true(f.walk.truncated);
    assert_int_equal(f.walk.frames[0].address, frame_at(DEPTH + 19));
    tear_down(&f);
}

int al_test_walk(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_still_chain_is_read_whole),
        cmocka_unit_test(growth_is_followed),
        cmocka_unit_test(new_chunks_are_learned_together),
        cmocka_unit_test(what_was_read_ahead_is_used_once),
        cmocka_unit_test(a_moving_chain_keeps_its_common_part),
        cmocka_unit_test(a_running_line_is_stable),
        cmocka_unit_test(damage_ends),
        cmocka_unit_test(depth_is_bounded),
    };
    return cmocka_run_group_tests_name("stack/walk", tests, NULL, NULL);
}
