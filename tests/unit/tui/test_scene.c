// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "suites.h"

static struct al_scene v;

// "100(200(+2) 201(+2))": pids with their children in brackets, folded workers as +n.
static const char *outline(const struct world *w, struct al_scene_options o) {
    static char text[4096];
    int depth = 0;
    assert_int_equal(al_scene_build(&v, &w->in, &o), 0);
    text[0] = '\0';
    for (uint32_t i = 0; i < v.proc_count; i++) {
        const struct al_scene_proc *row = &v.procs[i];
        size_t len = strlen(text);
        assert_true(row->depth <= depth + 1);
        for (; depth > row->depth; depth--)
            len += (size_t)snprintf(text + len, sizeof text - len, ")");
        if (row->depth > depth)
            len += (size_t)snprintf(text + len, sizeof text - len, "(");
        else if (len)
            len += (size_t)snprintf(text + len, sizeof text - len, " ");
        depth = row->depth;
        if (row->workers)
            (void)snprintf(text + len, sizeof text - len, "+%u", row->workers);
        else
            (void)snprintf(text + len, sizeof text - len, "%d", (int)row->pid);
    }
    for (; depth > 0; depth--)
        strcat(text, ")");
    return text;
}

static void a_job_is_a_tree_with_folded_workers(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 2, true);
    assert_string_equal(outline(&w, (struct al_scene_options){.tree = true}), "100(200(+2) 201(+2))");
    assert_string_equal(outline(&w, (struct al_scene_options){.tree = true, .workers = true}),
                        "100(200(400 401) 201(402 403))");
    assert_string_equal(outline(&w, (struct al_scene_options){.tree = false}), "200 201 100");
    assert_string_equal(outline(&w, (struct al_scene_options){.tree = true, .reverse = true}), "100(201(+2) 200(+2))");
    // Private memory of the folded ones adds up; shared pages would be counted twice.
    (void)outline(&w, (struct al_scene_options){.tree = true});
    assert_true(v.procs[2].rss.num == 2 * GIB && v.procs[2].cpu.num == 0.5);
    assert_true(v.procs[0].depth == 0 && v.procs[3].last && !v.procs[1].last);
    world_free(&w);
}

static void filters_keep_what_stands_above(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 3, true);
    static const struct {
        const char *filter, *outline;
    } cases[] = {
        {"gpu:1", "100(201)"},       {"rank:2", "100(202)"},  {"user:ALICE gpu:0", "100(200)"},
        {"user:bob", ""},            {"torchrun", "100"},     {"job:100 rank:0", "100(200)"},
        {"201", "100(201)"},         {"worker", "100(200(+2) 201(+2) 202(+2))"},
        {"  rank:1  ", "100(201)"},  {"gpu:x", ""},           {"rank:", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(outline(&w, (struct al_scene_options){.tree = true, .filter = cases[i].filter}), cases[i].outline);
    assert_int_equal(v.proc_all, 10);
    world_free(&w);
}

static void sorts_put_unknown_last(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 3, true);
    w.s->rows[0].memory_bytes = al_value_none(AL_STATUS_DENIED);
    w.s->rows[1].memory_bytes.num = 1;
    w.s->rows[2].sm_ratio.num = 0.9;
    al_snapshot_proc(w.s, 201)->m[AL_PROC_CPU].num = 8;
    assert_string_equal(outline(&w, (struct al_scene_options){.sort = AL_SORT_MEM}), "202 201 100 200");
    assert_string_equal(outline(&w, (struct al_scene_options){.sort = AL_SORT_SM}), "202 200 201 100");
    assert_string_equal(outline(&w, (struct al_scene_options){.sort = AL_SORT_CPU, .workers = true, .filter = "rank"}), "201 200 202");
    assert_string_equal(outline(&w, (struct al_scene_options){.sort = AL_SORT_PID, .reverse = true}), "202 201 200 100");
    assert_string_equal(outline(&w, (struct al_scene_options){.sort = AL_SORT_ROLE}), "100 200 201 202");
    world_free(&w);
}

static void processes_that_only_the_driver_knows_are_rows(void **state) {
    (void)state;
    struct world w;
    char gpus[32];
    world_make(&w, 4, true);
    for (uint32_t gpu = 0; gpu < 4; gpu++) {
        struct al_proc_gpu *row = al_snapshot_add_row(w.s);
        row->pid = 9999;
        row->gpu = gpu;
        row->memory_bytes = al_value_ok(1 * GIB, 0);
        row->sm_ratio = al_value_none(AL_STATUS_UNSUPPORTED);
        (void)al_str_copy(row->driver_name, sizeof row->driver_name, "/usr/bin/mystery");
    }
    al_snapshot_sort(w.s);
    assert_string_equal(outline(&w, (struct al_scene_options){.filter = "mystery"}), "9999");
    assert_true(v.procs[0].memory.num == 4 * GIB && !v.procs[0].p);
    al_scene_gpus(w.s, &v.procs[0], gpus, sizeof gpus);
    assert_string_equal(gpus, "0-3");
    v.procs[0].gpus[0] = 0x3 | 0x8;
    al_scene_gpus(w.s, &v.procs[0], gpus, sizeof gpus);
    assert_string_equal(gpus, "0,1,3");
    // One part that is missing makes the sum unknown.
    w.s->rows[w.s->row_count - 1].memory_bytes = al_value_none(AL_STATUS_DENIED);
    (void)outline(&w, (struct al_scene_options){.filter = "mystery"});
    assert_int_equal(v.procs[0].memory.status, AL_STATUS_DENIED);
    world_free(&w);
}

static void rings_and_chains_of_parents_end(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    (void)world_proc(&w, 10, 11, AL_ROLE_OTHER, "a");
    (void)world_proc(&w, 11, 10, AL_ROLE_OTHER, "b");
    (void)world_proc(&w, 12, 12, AL_ROLE_OTHER, "c");
    for (pid_t pid = 1000; pid < 1100; pid++)
        (void)world_proc(&w, pid, pid - 1, AL_ROLE_OTHER, "deep");
    al_snapshot_sort(w.s);
    const struct al_scene_options o = {.tree = true};
    assert_int_equal(al_scene_build(&v, &w.in, &o), 0);
    assert_int_equal(v.proc_count, 103); // each of them, once
    world_free(&w);
}

static void random_forests_show_each_process_once(void **state) {
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 60; round++) {
        struct world w;
        world_make(&w, 2, false);
        int n = 1 + (int)(next_random(&seed) % 60);
        for (pid_t pid = 1; pid <= n; pid++) {
            struct al_proc *p = world_proc(&w, pid, (pid_t)(next_random(&seed) % (uint64_t)(n + 5)),
                                           (enum al_role)(next_random(&seed) % 7), "x");
            p->owner = (pid_t)(next_random(&seed) % (uint64_t)(n + 5));
        }
        const struct al_scene_options o = {.tree = true, .workers = true, .sort = (enum al_sort)(next_random(&seed) % AL_SORT_COUNT)};
        assert_int_equal(al_scene_build(&v, &w.in, &o), 0);
        assert_int_equal(v.proc_count, n);
        bool seen[80] = {false};
        for (uint32_t i = 0; i < v.proc_count; i++) {
            assert_false(seen[v.procs[i].pid]);
            seen[v.procs[i].pid] = true;
        }
        const struct al_scene_options folded = {.tree = true};
        assert_int_equal(al_scene_build(&v, &w.in, &folded), 0);
        assert_true(v.proc_count <= (uint32_t)n);
        world_free(&w);
    }
}

static void the_oldest_figure_of_a_row_is_its_age(void **state) {
    (void)state;
    struct world w;
    world_make(&w, 1, false);
    struct al_gpu *g = &w.s->gpus[0];
    assert_int_equal(al_scene_stale_ns(w.s, g), 0);
    g->m[AL_GPU_TEMP].status = AL_STATUS_STALE;
    g->m[AL_GPU_TEMP].at_ns -= 9 * S;
    g->m[AL_GPU_POWER].status = AL_STATUS_STALE;
    g->m[AL_GPU_POWER].at_ns -= 4 * S;
    assert_int_equal(al_scene_stale_ns(w.s, g), 9 * S);
    world_free(&w);
}

static int done(void **state) {
    (void)state;
    al_scene_free(&v);
    return 0;
}

int scene_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_a_tree_with_folded_workers),
        cmocka_unit_test(filters_keep_what_stands_above),
        cmocka_unit_test(sorts_put_unknown_last),
        cmocka_unit_test(processes_that_only_the_driver_knows_are_rows),
        cmocka_unit_test(rings_and_chains_of_parents_end),
        cmocka_unit_test(random_forests_show_each_process_once),
        cmocka_unit_test(the_oldest_figure_of_a_row_is_its_age),
    };
    return cmocka_run_group_tests_name("scene", tests, NULL, done);
}
