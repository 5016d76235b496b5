// SPDX-License-Identifier: Apache-2.0
// What stacks are about. The files and functions are those of torch 2.13, transformers 5.24, accelerate 1.15, datasets 5.2,
// ms-swift 4.6, trl 1.16, deepspeed 0.19 and vLLM 0.33 (test_frame_names.py holds those that are installed to it).
#include <string.h>

#include "detect/frames.h"
#include "world.h"

#define SITE "/opt/venv/lib/python3.11/site-packages/"
#define STD "/usr/lib/python3.11/"
#define USER "/home/u/"
#define DEPTH 12

struct stack {
    enum al_look_kind kind;
    const char *line, *call; // names of the frames that are told; NULL none
    bool worker, waits, leaf;
    struct {
        const char *file, *name;
    } frames[DEPTH];
};

#define LOADER SITE "torch/utils/data/dataloader.py"
#define FETCH {SITE "torch/utils/data/_utils/fetch.py", "fetch"}
#define WORKER {SITE "torch/utils/data/_utils/worker.py", "_worker_loop"}
#define FORKED {STD "multiprocessing/process.py", "run"}, {LOADER, "__init__"}, {USER "train.py", "main"}

static const struct stack stacks[] = {
    // the main thread at its DataLoader
    {AL_LOOK_KIND_LOADER, "main", "_next_data", .frames = {{STD "selectors.py", "select"}, {STD "multiprocessing/connection.py", "wait"},
        {STD "multiprocessing/queues.py", "get"}, {LOADER, "_try_get_data"}, {LOADER, "_get_data"}, {LOADER, "_next_data"},
        {LOADER, "__next__"}, {SITE "accelerate/data_loader.py", "__iter__"}, {USER "train.py", "main"}}},
    {AL_LOOK_KIND_LOADER, "_inner_training_loop", "_next_data", .frames = {{LOADER, "_next_data"}, {LOADER, "__next__"},
        {SITE "accelerate/data_loader.py", "__iter__"}, {SITE "transformers/trainer.py", "_inner_training_loop"},
        {SITE "transformers/trainer.py", "train"}, {USER "train.py", "<module>"}}},
    {AL_LOOK_KIND_FETCH, "collate", "decode", .frames = {{SITE "numpy/core.py", "sum"}, {USER "helpers.py", "decode"},
        {USER "data.py", "collate"}, FETCH, {LOADER, "_next_data"}, {LOADER, "__next__"}, {USER "train.py", "main"}}},
    {AL_LOOK_KIND_FETCH, "__call__", "encode", .frames = {{SITE "tokenizers/x.py", "encode"},
        {SITE "transformers/data/data_collator.py", "__call__"}, FETCH, {LOADER, "_next_data"}, {USER "train.py", "main"}}},
    {AL_LOOK_KIND_FETCH, "default_collate", NULL, .frames = {{SITE "torch/utils/data/_utils/collate.py", "default_collate"}, FETCH,
        {LOADER, "_next_data"}, {USER "train.py", "main"}}, .leaf = true},
    {AL_LOOK_KIND_FETCH, "__iter__", NULL, .frames = {{USER "sampler.py", "__iter__"}, {LOADER, "_next_index"}, {LOADER, "_next_data"},
        {USER "train.py", "main"}}, .leaf = true},
    // a worker's: what it was forked from does not count
    {AL_LOOK_KIND_FETCH, "collate", NULL, true, .frames = {{USER "data.py", "collate"}, FETCH, WORKER, FORKED}, .leaf = true},
    {AL_LOOK_KIND_FETCH, "__getitem__", "open", true, .frames = {{SITE "PIL/Image.py", "open"}, {USER "data.py", "__getitem__"},
        {SITE "torch/utils/data/dataset.py", "__getitem__"}, FETCH, WORKER, FORKED}},
    {AL_LOOK_KIND_FETCH, "data_collator", "encode", true, .frames = {{SITE "tokenizers/x.py", "encode"},
        {SITE "swift/template/base.py", "data_collator"}, FETCH, WORKER, FORKED}},
    {AL_LOOK_KIND_FETCH, "collate", NULL, true, .frames = {{USER "data.py", "<genexpr>"}, {USER "data.py", "collate"}, FETCH, WORKER,
        FORKED}},
    {AL_LOOK_KIND_LOADER, NULL, NULL, true, true, .frames = {{STD "multiprocessing/queues.py", "get"}, WORKER, FORKED}},
    // attention, collectives, the GPU
    {AL_LOOK_KIND_ATTENTION, "sdpa_attention_forward", NULL, .leaf = true, .frames = {
        {SITE "transformers/integrations/sdpa_attention.py", "sdpa_attention_forward"},
        {SITE "transformers/models/qwen2/modeling_qwen2.py", "forward"}, {SITE "torch/nn/modules/module.py", "_call_impl"},
        {USER "train.py", "step"}}},
    {AL_LOOK_KIND_ATTENTION, "forward", "multi_head_attention_forward", .frames = {
        {SITE "torch/nn/functional.py", "multi_head_attention_forward"}, {SITE "torch/nn/modules/activation.py", "forward"},
        {USER "model.py", "forward"}}},
    {AL_LOOK_KIND_COLLECTIVE, "sync", "all_reduce", .frames = {{SITE "torch/distributed/distributed_c10d.py", "all_reduce"},
        {SITE "torch/distributed/c10d_logger.py", "wrapper"}, {USER "train.py", "sync"}}},
    {AL_LOOK_KIND_COLLECTIVE, "_save_checkpoint", "barrier", .frames = {{SITE "torch/distributed/distributed_c10d.py", "barrier"},
        {SITE "torch/distributed/c10d_logger.py", "wrapper"}, {SITE "transformers/trainer.py", "_save_checkpoint"},
        {USER "train.py", "<module>"}}},
    {AL_LOOK_KIND_SYNCHRONISE, "step", "synchronize", .frames = {{SITE "torch/cuda/__init__.py", "synchronize"},
        {USER "train.py", "step"}}},
    {AL_LOOK_KIND_OTHER, "step", NULL, .leaf = true, .frames = {{USER "train.py", "step"}, {USER "train.py", "main"}}},
    // the rest of a job's life
    {AL_LOOK_KIND_SAVE, "keep", "save", .frames = {{SITE "torch/serialization.py", "_save"}, {SITE "torch/serialization.py", "save"},
        {USER "train.py", "keep"}}},
    {AL_LOOK_KIND_LOG, "main", "info", .frames = {{STD "logging/__init__.py", "emit"}, {STD "logging/__init__.py", "info"},
        {USER "train.py", "main"}}},
    {AL_LOOK_KIND_COMPILE, "main", "_compile", .frames = {{SITE "sympy/core/basic.py", "subs"},
        {SITE "torch/_inductor/graph.py", "run"}, {SITE "torch/_dynamo/convert_frame.py", "_compile"},
        {SITE "torch/_dynamo/eval_frame.py", "_fn"}, {USER "train.py", "main"}}},
    {AL_LOOK_KIND_LOAD, "main", "_find_and_load", .frames = {{SITE "torch/_dynamo/convert_frame.py", "<module>"},
        {"<frozen importlib._bootstrap>", "_call_with_frames_removed"}, {"<frozen importlib._bootstrap>", "_find_and_load"},
        {SITE "torch/nn/parallel/distributed.py", "__init__"}, {USER "train.py", "main"}}},
    {AL_LOOK_KIND_LOAD, "_load_pretrained_model", "load_file", .frames = {{SITE "safetensors/torch.py", "load_file"},
        {SITE "transformers/modeling_utils.py", "_load_pretrained_model"}, {SITE "transformers/modeling_utils.py", "from_pretrained"},
        {USER "train.py", "main"}}},
    // of a forward pass the module whose own code runs, not who calls the model
    {AL_LOOK_KIND_FORWARD, "attend", NULL, .leaf = true, .frames = {{USER "model.py", "attend"}, {USER "model.py", "forward"},
        {SITE "torch/nn/modules/module.py", "_call_impl"}, {SITE "torch/nn/modules/module.py", "_wrapped_call_impl"},
        {USER "train.py", "step"}}},
    {AL_LOOK_KIND_FORWARD, "mlp", NULL, .frames = {{SITE "torch/nn/modules/linear.py", "forward"},
        {SITE "torch/nn/modules/module.py", "_call_impl"}, {USER "model.py", "mlp"},
        {SITE "torch/nn/modules/module.py", "_call_impl"}, {USER "train.py", "step"}}},
    {AL_LOOK_KIND_BACKWARD, "step", "_engine_run_backward", .frames = {{SITE "torch/autograd/graph.py", "_engine_run_backward"},
        {SITE "torch/autograd/__init__.py", "backward"}, {SITE "torch/_tensor.py", "backward"}, {USER "train.py", "step"}}},
    {AL_LOOK_KIND_OPTIMIZER, "step", "_multi_tensor_adamw", .frames = {{SITE "torch/optim/adamw.py", "_multi_tensor_adamw"},
        {SITE "torch/optim/optimizer.py", "wrapper"}, {USER "train.py", "step"}}},
    {AL_LOOK_KIND_REQUESTS, "_process_input_queue", "get", .frames = {{STD "queue.py", "get"},
        {SITE "vllm/v1/engine/core.py", "_process_input_queue"}, {SITE "vllm/v1/engine/core.py", "run_busy_loop"}}},
};

static void assert_name(const struct stack *s, int frame, const char *name, const char *what)
{
    const char *is = frame < 0 ? NULL : s->frames[frame].name;
    if ((is == NULL) != (name == NULL) || (name && strcmp(is, name) != 0))
        fail_msg("stack %d: %s is %s, not %s", (int)(s - stacks), what, is ? is : "none", name ? name : "none");
}

static void test_kinds_and_places(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        const struct stack *s = &stacks[i];
        struct al_frame frames[DEPTH];
        struct al_frames f;
        uint32_t count = 0;
        for (; count < DEPTH && s->frames[count].file; count++)
            frames[count] = (struct al_frame){s->frames[count].file, s->frames[count].name, (int32_t)count + 1};
        al_frames_judge(frames, count, &f);
        if (f.kind != s->kind)
            fail_msg("stack %d is '%s', not '%s'", (int)i, al_look_kind_word(f.kind), al_look_kind_word(s->kind));
        assert_name(s, f.line < 0 ? -1 : f.name, s->line, "the line's function");
        assert_name(s, f.call, s->call, "the call");
        assert_int_equal(f.worker, s->worker);
        assert_int_equal(f.waits, s->waits);
        if (f.line >= 0)
            assert_int_equal(f.leaf, s->leaf || f.line == 0);
    }
}

static void test_no_frames_and_odd_ones(void **unused)
{
    (void)unused;
    const struct al_frame odd[] = {{"", "", 0}, {"/", "fetch", -1}, {"fetch.py", "<genexpr>", 1}};
    struct al_frames f;
    al_frames_judge(NULL, 0, &f);
    assert_int_equal(f.kind, AL_LOOK_KIND_OTHER);
    assert_int_equal(f.line, -1);
    al_frames_judge(odd, 3, &f);
    assert_int_equal(f.kind, AL_LOOK_KIND_OTHER);
    assert_int_equal(f.line, 1);
}

static void test_whose_file_it_is(void **unused)
{
    (void)unused;
    static const struct {
        const char *file;
        enum al_frames_owner owner;
    } files[] = {
        {"/home/u/train.py", AL_FRAMES_USER}, {"train.py", AL_FRAMES_USER}, {"/home/u/torch/train.py", AL_FRAMES_USER},
        {"/tmp/ipykernel_7/12.py", AL_FRAMES_USER}, {"<stdin>", AL_FRAMES_USER}, {"/home/python3/train.py", AL_FRAMES_USER},
        {SITE "torch/_tensor.py", AL_FRAMES_CORE}, {SITE "torchtune/x.py", AL_FRAMES_PACKAGE},
        {SITE "transformers/trainer.py", AL_FRAMES_PACKAGE}, {STD "queue.py", AL_FRAMES_CORE},
        {"/opt/lib/python3.14t/queue.py", AL_FRAMES_CORE}, {"/usr/lib64/python3.9/queue.py", AL_FRAMES_CORE},
        {"/usr/lib/python3/dist-packages/yaml/x.py", AL_FRAMES_PACKAGE}, {"<frozen runpy>", AL_FRAMES_CORE},
        {"lib/python3.11/x.py", AL_FRAMES_USER}, {"/python3/x.py", AL_FRAMES_USER}, {"/lib/python3", AL_FRAMES_USER},
        {"<string>", AL_FRAMES_CORE}, {"", AL_FRAMES_CORE},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (al_frames_owner(files[i].file) != files[i].owner)
            fail_msg("%s: %d", files[i].file, (int)al_frames_owner(files[i].file));
}

static void test_native_calls_by_the_source_line(void **unused)
{
    (void)unused;
    enum al_look_kind kind;
    assert_string_equal(al_frames_native_call("    total += loss.item()\n", &kind), ".item()");
    assert_int_equal(kind, AL_LOOK_KIND_SYNCHRONISE);
    assert_string_equal(al_frames_native_call("work.wait()", &kind), ".wait()");
    assert_int_equal(kind, AL_LOOK_KIND_COLLECTIVE);
    assert_string_equal(al_frames_native_call("y = F.scaled_dot_product_attention(q, k, v)", &kind), "scaled_dot_product_attention()");
    assert_int_equal(kind, AL_LOOK_KIND_ATTENTION);
    assert_null(al_frames_native_call("for key, value in row.items():", &kind));
    // arrays have these too, and a child is no rank
    assert_string_equal(al_frames_native_call("ids = batch.tolist()", &kind), ".tolist()");
    assert_int_equal(kind, AL_LOOK_KIND_OTHER);
    assert_string_equal(al_frames_native_call("pid, status = os.wait()", &kind), "os.wait()");
    assert_int_equal(kind, AL_LOOK_KIND_OTHER);
}

// What a comment or a text says is not called; what an f-string holds is.
static void test_comments_and_strings_of_a_source_line(void **unused)
{
    (void)unused;
    enum al_look_kind kind;
    assert_null(al_frames_native_call("loss.backward()  # no .item() here", &kind));
    assert_null(al_frames_native_call("words.append('.item()' + \"a\\\"b.cpu()\" + rb'.wait(')", &kind));
    assert_null(al_frames_native_call("\"\"\"why .item() waits\"\"\"", &kind));
    assert_string_equal(al_frames_native_call("print('# of steps', loss.item())", &kind), ".item()");
    assert_string_equal(al_frames_native_call("print(f'#{step}: {loss.item():.3f}')", &kind), ".item()");
    assert_string_equal(al_frames_native_call("print(fR\"{x.cpu()}\")", &kind), ".cpu()");
    assert_null(al_frames_native_call("", &kind));
    assert_null(al_frames_native_call("'", &kind));
    assert_null(al_frames_native_call("'\\", &kind));
}

int frames_suite(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_and_places),
        cmocka_unit_test(test_no_frames_and_odd_ones),
        cmocka_unit_test(test_whose_file_it_is),
        cmocka_unit_test(test_native_calls_by_the_source_line),
        cmocka_unit_test(test_comments_and_strings_of_a_source_line),
    };
    return cmocka_run_group_tests_name("frames", tests, NULL, NULL);
}
