// SPDX-License-Identifier: Apache-2.0
// From samples of stacks to looks, from looks to words, and what they add to the finding of an idle GPU.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "detect/look.h"
#include "world.h"

#define FETCH {"/x/site-packages/torch/utils/data/_utils/fetch.py", "fetch", 54}
#define WORKER {"/x/site-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 350}
#define NEXT {"/x/site-packages/torch/utils/data/dataloader.py", "_next_data", 1480}

static void add(struct al_look_tally *t, const struct al_frame *frames, uint32_t count, int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(al_look_tally_add(t, frames, count, true, false), 0);
}

static void waits_for_workers(struct al_look_tally *t, int times)
{
    const struct al_frame frames[] = {NEXT, {"/home/u/train.py", "main", 58}};
    add(t, frames, 2, times);
}

static void collates(struct al_look_tally *t, int line, int times)
{
    const struct al_frame frames[] = {{"/home/u/data.py", "collate_fn", line}, FETCH, WORKER, {"/home/u/train.py", "main", 58}};
    add(t, frames, 4, times);
}

static void has_nothing_to_do(struct al_look_tally *t, int times)
{
    const struct al_frame frames[] = {{"/usr/lib/python3.11/queue.py", "get", 12}, WORKER, {"/home/u/train.py", "main", 58}};
    add(t, frames, 3, times);
}

static struct al_look *look_at(struct world *w, pid_t pid, const struct al_look_tally *own, const struct al_look_tally *theirs,
                               uint32_t workers)
{
    struct al_look *l = al_snapshot_look(w->s, pid);
    if (!l)
        l = al_snapshot_add_look(w->s);
    l->pid = pid;
    al_look_fill(l, own, theirs, workers, 3, w->s->monotonic_ns);
    return l;
}

static const char *say(struct world *w, pid_t pid, uint32_t pids)
{
    static char words[480];
    struct al_looks_told told;
    pid_t all[8];
    for (uint32_t i = 0; i < pids; i++)
        all[i] = pid + (pid_t)i;
    al_looks_sum(w->s, &w->set, all, pids, &told);
    al_looks_say(&told, &w->set, words, sizeof words);
    return words;
}

static void test_workers_in_their_collator(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, theirs = {0};
    world_make(&w, 1);
    waits_for_workers(&own, 26);
    add(&own, (const struct al_frame[]){{"/home/u/train.py", "main", 60}}, 1, 4);
    collates(&theirs, 88, 61);
    collates(&theirs, 90, 20);
    has_nothing_to_do(&theirs, 19);
    struct al_look *l = look_at(&w, 1000, &own, &theirs, 8);
    assert_string_equal(l->worker.function, "collate_fn");
    assert_int_equal(l->worker.line, 88);
    assert_true(fabs(l->m[AL_LOOK_WORKER_FUNCTION].num - 0.81) < 1e-9);
    assert_string_equal(say(&w, 1000, 1), "the main thread waits for its DataLoader in 87 % of samples; 61 % of samples in "
                                          "collate_fn at data.py:88, in 8 DataLoader workers");
    al_look_tally_done(&theirs);
    has_nothing_to_do(&theirs, 80);
    look_at(&w, 1000, &own, &theirs, 1);
    assert_string_equal(say(&w, 1000, 1), "the main thread waits for its DataLoader in 87 % of samples; its 1 DataLoader worker had "
                                          "nothing to do in 100 % of samples");
    // One of eight makes each batch in its turn: it is what is waited for
    al_look_tally_done(&theirs);
    has_nothing_to_do(&theirs, 210);
    collates(&theirs, 88, 30);
    look_at(&w, 1000, &own, &theirs, 8);
    assert_has(say(&w, 1000, 1), "; of its 8 DataLoader workers 1.0 works at a time: 100 % of samples in collate_fn at data.py:88");
    al_look_tally_done(&own);
    al_look_tally_done(&theirs);
    world_free(&w);
}

// Many lines of one function: the function; many functions: nothing.
static void test_nothing_is_named_on_which_few_agree(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, theirs = {0};
    world_make(&w, 1);
    waits_for_workers(&own, 30);
    for (int line = 80; line < 100; line++)
        collates(&theirs, line, 5);
    look_at(&w, 1000, &own, &theirs, 8);
    assert_has(say(&w, 1000, 1), "100 % of samples in collate_fn (data.py), in 8 DataLoader workers");
    al_look_tally_done(&theirs);
    al_look_tally_done(&own);
    for (int i = 0; i < 30; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i % 10);
        add(&own, (const struct al_frame[]){{"/home/u/train.py", name, i}}, 1, 1);
    }
    look_at(&w, 1000, &own, &theirs, 0);
    assert_string_equal(say(&w, 1000, 1), "no function of the main thread has 25 % of samples");
    al_look_tally_done(&own);
    waits_for_workers(&own, 9); // too few
    look_at(&w, 1000, &own, &theirs, 0);
    assert_string_equal(say(&w, 1000, 1), "");
    al_look_tally_done(&own);
    world_free(&w);
}

static void test_a_source_line_tells_the_native_call(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, none = {0};
    uint32_t in_function;
    world_make(&w, 1);
    add(&own, (const struct al_frame[]){{"/home/u/train.py", "step", 77}}, 1, 20);
    add(&own, (const struct al_frame[]){{"/home/u/train.py", "step", 78}}, 1, 10);
    al_look_tally_source(&own, al_look_tally_top(&own, &in_function), "    total += loss.item()\n", false);
    look_at(&w, 1000, &own, &none, 0);
    assert_string_equal(say(&w, 1000, 1), "the main thread waits for the GPU: 67 % of samples in step at train.py:77, calling .item()");
    al_look_tally_done(&own);
    world_free(&w);
}

static void test_a_source_line_of_a_module(void **unused)
{
    (void)unused;
    static const struct al_frame module[] = {{"/home/u/model.py", "forward", 20},
                                             {"/x/site-packages/torch/nn/modules/module.py", "_call_impl", 5},
                                             {"/home/u/train.py", "step", 3}};
    static const struct {
        const char *source;
        bool ranks;
        enum al_look_kind kind;
        const char *words;
    } rows[] = {
        {"y = F.scaled_dot_product_attention(q, k, v)", false, AL_LOOK_KIND_ATTENTION,
         "the main thread is in attention: 100 % of samples in forward at model.py:20, calling scaled_dot_product_attention()"},
        {"if mask.sum().item():", false, AL_LOOK_KIND_SYNCHRONISE,
         "the main thread waits for the GPU: 100 % of samples in forward at model.py:20, calling .item()"},
        {"y = x.tolist()", false, AL_LOOK_KIND_FORWARD,
         "the main thread is in the forward pass: 100 % of samples in forward at model.py:20, calling .tolist()"},
        {"handle.wait()", true, AL_LOOK_KIND_COLLECTIVE,
         "the main thread is in collectives: 100 % of samples in forward at model.py:20, calling .wait()"},
        {"handle.wait()", false, AL_LOOK_KIND_FORWARD, // who is alone waits for something else
         "the main thread is in the forward pass: 100 % of samples in forward at model.py:20, calling .wait()"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct world w;
        struct al_look_tally own = {0}, none = {0};
        uint32_t in_function;
        world_make(&w, 1);
        add(&own, module, 3, 20);
        al_look_tally_source(&own, al_look_tally_top(&own, &in_function), rows[i].source, rows[i].ranks);
        assert_int_equal(own.kinds[rows[i].kind], 20);
        look_at(&w, 1000, &own, &none, 0);
        assert_string_equal(say(&w, 1000, 1), rows[i].words);
        al_look_tally_done(&own);
        world_free(&w);
    }
}

// A line is told as of a kind only where most of its samples must be.
static void test_a_line_of_another_kind(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, none = {0};
    world_make(&w, 1);
    for (int i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "layer%d", i);
        add(&own, (const struct al_frame[]){{"/home/u/model.py", name, 20}, {"/x/site-packages/torch/nn/modules/module.py",
                                            "_call_impl", 5}, {"/home/u/train.py", "step", 3}}, 3, 6);
    }
    add(&own, (const struct al_frame[]){{"/home/u/text.py", "prepare", 9}}, 1, 40);
    look_at(&w, 1000, &own, &none, 0);
    assert_string_equal(say(&w, 1000, 1), "the main thread is in the forward pass in 60 % of samples; 40 % of samples in prepare at "
                                          "text.py:9");
    al_look_tally_done(&own);
    world_free(&w);
}

// Of a stack that moved while it was read, the innermost frames are missing: no line is told of it.
static void test_what_moved_counts_without_a_line(void **unused)
{
    (void)unused;
    struct al_look_tally own = {0};
    uint32_t in_function;
    assert_int_equal(al_look_tally_add(&own, (const struct al_frame[]){{"/home/u/train.py", "main", 5}}, 1, false, false), 0);
    assert_int_equal(own.samples, 1);
    assert_null(al_look_tally_top(&own, &in_function));
    al_look_tally_done(&own);
}

static void test_ranks_together(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, theirs = {0};
    world_make(&w, 2);
    waits_for_workers(&own, 30);
    collates(&theirs, 88, 60);
    has_nothing_to_do(&theirs, 40);
    look_at(&w, 1000, &own, &theirs, 4);
    look_at(&w, 1001, &own, &theirs, 4);
    assert_has(say(&w, 1000, 2), "60 % of samples in collate_fn at data.py:88, in 8 DataLoader workers");
    assert_has(say(&w, 1000, 1), "in 4 DataLoader workers");
    w.s->monotonic_ns += 100 * SEC; // old looks tell nothing
    assert_string_equal(say(&w, 1000, 2), "");
    al_look_tally_done(&own);
    al_look_tally_done(&theirs);
    world_free(&w);
}

static void in_frames(struct al_look_tally *t, const char *file, const char *name, int line)
{
    const struct al_frame frames[] = {{file, name, 7}, {"/home/u/train.py", "step", line}};
    add(t, frames, 2, 30);
}

static void test_the_rank_that_others_wait_for(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally waits = {0}, slow = {0}, none = {0};
    world_make(&w, 3);
    in_frames(&waits, "/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce", 31);
    in_frames(&slow, "/usr/lib/python3.11/random.py", "shuffle", 44);
    look_at(&w, 1000, &waits, &none, 0)->rank = 0;
    look_at(&w, 1001, &slow, &none, 0)->rank = 1;
    look_at(&w, 1002, &waits, &none, 0)->rank = 2;
    assert_string_equal(say(&w, 1000, 3), "the others wait in collectives for rank 1: 100 % of samples in step at train.py:44, calling "
                                          "shuffle");
    // its own loader's workers
    al_look_tally_done(&slow);
    waits_for_workers(&slow, 30);
    collates(&none, 88, 60);
    look_at(&w, 1001, &slow, &none, 2);
    al_look_tally_done(&none);
    assert_string_equal(say(&w, 1000, 3), "the others wait in collectives for rank 1: its main thread waits for its DataLoader in 100 "
                                          "% of samples; 100 % of samples in collate_fn at data.py:88, in 2 DataLoader workers");
    // all of them there, or only one seen: nobody is to blame
    look_at(&w, 1001, &waits, &none, 0);
    assert_has(say(&w, 1000, 3), "the main thread is in collectives: 100 % of samples in step at train.py:31, calling all_reduce");
    assert_has(say(&w, 1000, 1), "the main thread is in collectives");
    // few of many; but where most are elsewhere, it is they whom the summary is about
    al_look_tally_done(&slow);
    in_frames(&slow, "/usr/lib/python3.11/random.py", "shuffle", 44);
    look_at(&w, 1003, &slow, &none, 0)->rank = 3;
    look_at(&w, 1001, &slow, &none, 0);
    assert_has(say(&w, 1000, 4), "the others wait in collectives for 2 of 4 ranks: 100 % of samples in step at train.py:44");
    look_at(&w, 1000, &slow, &none, 0);
    assert_string_equal(say(&w, 1000, 4), "75 % of samples in step at train.py:44, calling shuffle");
    al_look_tally_done(&waits);
    al_look_tally_done(&slow);
    world_free(&w);
}

static void idle(struct world *w)
{
    world_gpu(w, 0, AL_GPU_UTIL_MEAN, 0.05);
}

static void test_an_idle_gpu_asks_and_is_told(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, theirs = {0};
    pid_t pids[AL_DETECT_LOOKS];
    world_make(&w, 1);
    world_job(&w, 1);
    world_tick(&w);
    assert_int_equal(al_detect_looks(w.d, pids, AL_DETECT_LOOKS), 0);
    idle(&w);
    world_ticks(&w, 6);
    assert_int_equal(al_detect_looks(w.d, pids, AL_DETECT_LOOKS), 1);
    assert_int_equal(pids[0], 1000);
    assert_non_null(world_open(&w, "inefficient"));
    waits_for_workers(&own, 30);
    collates(&theirs, 88, 60);
    look_at(&w, 1000, &own, &theirs, 8);
    world_ticks(&w, 1);
    const struct al_finding *f = world_open(&w, "starved");
    assert_non_null(f);
    assert_has(f->message, "100 % of samples in collate_fn at data.py:88, in 8 DataLoader workers");
    assert_has(f->advice, "Make collate_fn (data.py:88) cheaper");
    assert_true(evidence(f, "stack_loader_ratio") == 1);
    assert_true(evidence(f, "stack_worker_line_ratio") == 1);
    // It is over: nothing is asked for
    world_gpu(&w, 0, AL_GPU_UTIL_MEAN, 0.95);
    world_ticks(&w, 5);
    assert_int_equal(al_detect_looks(w.d, pids, AL_DETECT_LOOKS), 0);
    al_look_tally_done(&own);
    al_look_tally_done(&theirs);
    world_free(&w);
}

static void test_kinds_have_their_own_advice(void **unused)
{
    (void)unused;
    static const struct {
        const char *file, *name, *title, *advice;
        bool excused;
    } kinds[] = {
        {"/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce",
         "running inefficiently: the main thread is in collectives",
         "Look for the rank that is elsewhere", false},
        {"/x/site-packages/transformers/integrations/sdpa_attention.py", "sdpa_attention_forward",
         "running inefficiently: the main thread is in attention", "FlashAttention may be off or the shapes unsuitable", false},
        {"/x/site-packages/torch/cuda/__init__.py", "synchronize",
         "running inefficiently: the main thread waits for the GPU", "every n-th step", false},
        {"/x/site-packages/torch/serialization.py", "save",
         "running inefficiently: the main thread saves checkpoints", "Save less often", false},
        {"/x/site-packages/torch/_dynamo/convert_frame.py", "_compile",
         "running inefficiently: the main thread compiles", "fixed shapes", true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct world w;
        struct al_look_tally own = {0}, none = {0};
        world_make(&w, 1);
        world_job(&w, 1);
        idle(&w);
        add(&own, (const struct al_frame[]){{kinds[i].file, kinds[i].name, 7}, {"/home/u/train.py", "step", 31}}, 2, 20);
        for (int tick = 0; tick < 30; tick++) {
            look_at(&w, 1000, &own, &none, 0);
            world_tick(&w);
        }
        const struct al_finding *f = world_open(&w, "inefficient");
        assert_non_null(f);
        assert_string_equal(f->title, kinds[i].title);
        assert_has(f->advice, kinds[i].advice);
        assert_has(f->message, ": 100 % of samples in ");
        assert_int_equal(f->level, kinds[i].excused ? AL_LEVEL_INFO : AL_LEVEL_WARNING);
        al_look_tally_done(&own);
        world_free(&w);
    }
}

// One cause, whichever of the two ranks has a sample more: the data of the one that the other waits for.
static void test_a_rank_without_data_starves_its_job(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally waits = {0}, slow = {0}, theirs = {0}, none = {0};
    world_make(&w, 2);
    world_job(&w, 2);
    for (uint32_t g = 0; g < 2; g++)
        world_gpu(&w, g, AL_GPU_UTIL_MEAN, 0.05);
    in_frames(&waits, "/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce", 31);
    waits_for_workers(&slow, 29);
    collates(&theirs, 88, 60);
    for (int tick = 0; tick < 10; tick++) {
        look_at(&w, 1000, &waits, &none, 0)->rank = 0;
        look_at(&w, 1001, &slow, &theirs, 2)->rank = 1;
        world_tick(&w);
    }
    const struct al_finding *f = world_open(&w, "starved");
    assert_non_null(f);
    assert_has(f->message, "the others wait in collectives for rank 1: its main thread waits for its DataLoader");
    assert_has(f->advice, "Make collate_fn (data.py:88) cheaper");
    assert_true(evidence(f, "stack_collective_ratio") == 1 && evidence(f, "stack_loader_ratio") == 1);
    al_look_tally_done(&waits);
    al_look_tally_done(&slow);
    al_look_tally_done(&theirs);
    world_free(&w);
}

// Workers do not take what the main process does beside them, and nobody makes torch's own functions cheaper.
static void test_advice_that_can_be_followed(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, theirs = {0};
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w);
    add(&own, (const struct al_frame[]){{"/home/u/sampler.py", "__iter__", 9},
                                        {"/x/site-packages/torch/utils/data/dataloader.py", "_next_index", 5},
                                        {"/home/u/train.py", "step", 31}}, 3, 20);
    has_nothing_to_do(&theirs, 40);
    for (int tick = 0; tick < 8; tick++) {
        look_at(&w, 1000, &own, &theirs, 2);
        world_tick(&w);
    }
    assert_has(world_open(&w, "starved")->advice, "although it has DataLoader workers, which cannot take it (a sampler");
    al_look_tally_done(&own);
    al_look_tally_done(&theirs);
    waits_for_workers(&own, 20);
    add(&theirs, (const struct al_frame[]){{"/x/site-packages/torch/utils/data/_utils/collate.py", "default_collate", 401}, FETCH,
                                           WORKER}, 3, 40);
    look_at(&w, 1000, &own, &theirs, 2);
    world_tick(&w);
    assert_has(world_open(&w, "starved")->advice, "No code of yours is what takes long in the workers, but default_collate");
    al_look_tally_done(&own);
    al_look_tally_done(&theirs);
    world_free(&w);
}

// A function whose lines share its samples out is advised on as a line is, and a printed tensor may be one in memory.
static void test_advice_on_a_function(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally own = {0}, none = {0};
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w);
    for (int line = 30; line < 40; line++)
        add(&own, (const struct al_frame[]){{"/home/u/train.py", "step", line}}, 1, 3);
    for (int tick = 0; tick < 8; tick++) {
        look_at(&w, 1000, &own, &none, 0);
        world_tick(&w);
    }
    assert_has(world_open(&w, "inefficient")->message, "100 % of samples in step (train.py)");
    assert_has(world_open(&w, "inefficient")->advice, "Take what step (train.py) does out of the loop");
    al_look_tally_done(&own);
    add(&own, (const struct al_frame[]){{"/x/site-packages/torch/_tensor_str.py", "_str", 7}, {"/home/u/train.py", "step", 31}}, 2, 20);
    look_at(&w, 1000, &own, &none, 0);
    world_tick(&w);
    assert_has(world_open(&w, "inefficient")->considered, "It prints a tensor: of one in memory");
    al_look_tally_done(&own);
    world_free(&w);
}

static void test_what_could_not_be_read_is_said(void **unused)
{
    (void)unused;
    struct world w;
    struct al_look_tally none = {0};
    world_make(&w, 1);
    world_job(&w, 1);
    idle(&w);
    for (int tick = 0; tick < 8; tick++) {
        struct al_look *l = look_at(&w, 1000, &none, &none, 0);
        (void)snprintf(l->problem, sizeof l->problem, "kernel.yama.ptrace_scope is 1");
        world_tick(&w);
    }
    assert_has(world_open(&w, "inefficient")->considered, "could not be seen: kernel.yama.ptrace_scope is 1");
    world_free(&w);
}

static void test_it_can_be_turned_off(void **unused)
{
    (void)unused;
    struct world w;
    pid_t pids[AL_DETECT_LOOKS];
    world_make(&w, 1);
    world_job(&w, 1);
    w.set.stacks_enabled = 0;
    world_settings(&w);
    idle(&w);
    world_ticks(&w, 8);
    assert_non_null(world_open(&w, "inefficient"));
    assert_int_equal(al_detect_looks(w.d, pids, AL_DETECT_LOOKS), 0);
    world_free(&w);
}

int look_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_in_their_collator),
        cmocka_unit_test(test_nothing_is_named_on_which_few_agree),
        cmocka_unit_test(test_a_source_line_tells_the_native_call),
        cmocka_unit_test(test_a_source_line_of_a_module),
        cmocka_unit_test(test_a_line_of_another_kind),
        cmocka_unit_test(test_what_moved_counts_without_a_line),
        cmocka_unit_test(test_ranks_together),
        cmocka_unit_test(test_the_rank_that_others_wait_for),
        cmocka_unit_test(test_an_idle_gpu_asks_and_is_told),
        cmocka_unit_test(test_kinds_have_their_own_advice),
        cmocka_unit_test(test_a_rank_without_data_starves_its_job),
        cmocka_unit_test(test_advice_that_can_be_followed),
        cmocka_unit_test(test_advice_on_a_function),
        cmocka_unit_test(test_what_could_not_be_read_is_said),
        cmocka_unit_test(test_it_can_be_turned_off),
    };
    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
