// SPDX-License-Identifier: Apache-2.0
#include "detect/frames.h"

#include <string.h>

#include "base/str.h"

#define CODE_MAX 1024 // of a source line

// ---- files ----

// Packages whose lines say less than those around them.
static const char *const core_packages[] = {"torch", "torchgen", "functorch", "triton", "numpy", "accelerate", "safetensors",
                                            "tqdm", "PIL", "scipy", "pandas", "pyarrow", "fsspec", "multiprocess", "dill",
                                            "cloudpickle", "alula", "_alula_hook"};

// Whether the folder or file `name` stands at text.
static bool is_part(const char *text, const char *name) {
    size_t len = strlen(name);
    return strncmp(text, name, len) == 0 && (text[len] == '/' || strcmp(text + len, ".py") == 0);
}

static bool is_core(const char *package) {
    for (size_t i = 0; i < sizeof core_packages / sizeof *core_packages; i++)
        if (is_part(package, core_packages[i]))
            return true;
    return false;
}

// ".../lib/python3.11/multiprocessing/queues.py", ".../lib64/python3.9/...", ".../Lib/..." of a zip
static bool in_standard_library(const char *file) {
    for (const char *p = strstr(file, "/python3"); p; p = strstr(p + 1, "/python3")) {
        const char *end = p + strlen("/python3");
        bool in_lib = (p - file >= 4 && strncmp(p - 4, "/lib", 4) == 0) || (p - file >= 6 && strncmp(p - 6, "/lib64", 6) == 0);
        if (!in_lib)
            continue;
        while (*end == '.' || (*end >= '0' && *end <= '9') || *end == 't')
            end++;
        if (*end == '/')
            return true;
    }
    return false;
}

enum al_frames_owner al_frames_owner(const char *file) {
    static const char *const places[] = {"/site-packages/", "/dist-packages/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *package = strstr(file, places[i]);
        if (package)
            return is_core(package + strlen(places[i])) ? AL_FRAMES_CORE : AL_FRAMES_PACKAGE;
    }
    if (file[0] == '<') // generated or frozen; a notebook's cells and stdin are the user's
        return al_str_starts(file, "<ipython-input") || strcmp(file, "<stdin>") == 0
                   ? AL_FRAMES_USER : AL_FRAMES_CORE;
    if (!*file || in_standard_library(file) || strstr(file, "/_alula_hook/") || strstr(file, "/torch/utils/data/"))
        return AL_FRAMES_CORE;
    return AL_FRAMES_USER;
}

// ---- what frames mean ----

// Where several kinds are found in one stack, the strongest counts, and of equal ones the innermost.
enum strength { WEAK, FAIR, STRONG, STRONGER, STRONGEST };

struct meaning {
    enum al_look_kind kind;
    enum strength strength;
    const char *file;  // end of the path behind a '/'; one that does not end in ".py": anywhere in it
    const char *names; // separated by blanks; NULL any
};

#define COLLECTIVES                                                                                                    \
    "all_reduce all_reduce_coalesced all_gather all_gather_into_tensor all_gather_single all_gather_object "           \
    "all_gather_coalesced _all_gather_base reduce reduce_scatter reduce_scatter_tensor reduce_scatter_single "         \
    "_reduce_scatter_base broadcast broadcast_object_list gather gather_object scatter scatter_object_list "           \
    "all_to_all all_to_all_single barrier monitored_barrier send recv isend irecv send_object_list "                   \
    "recv_object_list batch_isend_irecv wait init_process_group new_group _store_based_barrier "

static const struct meaning meanings[] = {
    {AL_LOOK_KIND_FETCH, STRONGEST, "torch/utils/data/_utils/fetch.py", "fetch"},
    {AL_LOOK_KIND_FETCH, STRONGEST, "torch/utils/data/dataloader.py", "_next_index"},
    {AL_LOOK_KIND_LOADER, STRONGEST, "torch/utils/data/dataloader.py", "_try_get_data _get_data _next_data"},
    {AL_LOOK_KIND_COMPILE, STRONGER, "torch/_dynamo/convert_frame.py", NULL},
    {AL_LOOK_KIND_COMPILE, STRONGER, "torch/utils/cpp_extension.py", NULL},
    {AL_LOOK_KIND_COMPILE, STRONGER, "deepspeed/ops/op_builder/builder.py", "load jit_load"},
    {AL_LOOK_KIND_COMPILE, STRONGER, "triton/compiler/compiler.py", "compile"},
    {AL_LOOK_KIND_COMPILE, STRONGER, "triton/runtime/jit.py", "_do_compile"},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "torch/distributed/distributed_c10d.py", COLLECTIVES},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "torch/distributed/_functional_collectives.py", NULL},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py", NULL},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "torch/distributed/rendezvous.py", NULL},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "deepspeed/comm/comm.py", COLLECTIVES},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "vllm/distributed/parallel_state.py", COLLECTIVES},
    {AL_LOOK_KIND_COLLECTIVE, STRONG, "horovod/torch/mpi_ops.py", NULL},
    {AL_LOOK_KIND_SAVE, FAIR, "torch/serialization.py", "save _save _legacy_save"},
    {AL_LOOK_KIND_SAVE, FAIR, "safetensors/torch.py", "save save_file save_model"},
    {AL_LOOK_KIND_SAVE, FAIR, "torch/distributed/checkpoint/state_dict_saver.py", NULL},
    {AL_LOOK_KIND_SAVE, FAIR, "transformers/trainer.py", "_save_checkpoint save_model _save _save_optimizer_and_scheduler"},
    {AL_LOOK_KIND_SAVE, FAIR, "transformers/modeling_utils.py", "save_pretrained"},
    {AL_LOOK_KIND_SAVE, FAIR, "peft/peft_model.py", "save_pretrained"},
    {AL_LOOK_KIND_SAVE, FAIR, "accelerate/accelerator.py", "save_state save_model"},
    {AL_LOOK_KIND_SAVE, FAIR, "deepspeed/runtime/engine.py", "save_checkpoint _save_checkpoint _save_zero_checkpoint save_16bit_model"},
    {AL_LOOK_KIND_SAVE, FAIR, "pytorch/callbacks/model_checkpoint.py", NULL},
    {AL_LOOK_KIND_SAVE, FAIR, "pytorch_lightning/callbacks/model_checkpoint.py", NULL},
    {AL_LOOK_KIND_SAVE, FAIR, "megatron/training/checkpointing.py", "save_checkpoint"},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "torch/cuda/__init__.py", "synchronize"},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "torch/cuda/streams.py", "synchronize"},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "torch/accelerator/__init__.py", "synchronize"},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "torch/_tensor_str.py", NULL},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "torch/amp/grad_scaler.py", "<genexpr>"},
    {AL_LOOK_KIND_SYNCHRONISE, STRONG, "deepspeed/accelerator/cuda_accelerator.py", "synchronize"},
    {AL_LOOK_KIND_ATTENTION, STRONG, "torch/nn/functional.py", "multi_head_attention_forward scaled_dot_product_attention"},
    {AL_LOOK_KIND_ATTENTION, STRONG, "", "sdpa_attention_forward eager_attention_forward scaled_dot_product_attention"},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "/transformers/tokenization_", NULL},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "/transformers/image_processing_", NULL},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "transformers/processing_utils.py", NULL},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "transformers/data/data_collator.py", NULL},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "datasets/arrow_dataset.py", "map _map_single filter"},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "/swift/template/", "encode _encode _encode_truncated data_collator _data_collator"},
    {AL_LOOK_KIND_PREPROCESS, FAIR, "/swift/llm/template/", "encode _encode _encode_truncated data_collator _data_collator"},
    {AL_LOOK_KIND_LOG, FAIR, "transformers/trainer.py", "log"},
    {AL_LOOK_KIND_LOG, FAIR, "/torch/utils/tensorboard/", NULL},
    {AL_LOOK_KIND_LOG, FAIR, "/site-packages/wandb/", NULL},
    {AL_LOOK_KIND_LOG, FAIR, "/site-packages/swanlab/", NULL},
    {AL_LOOK_KIND_LOG, FAIR, "/site-packages/mlflow/", NULL},
    {AL_LOOK_KIND_LOG, FAIR, "logging/__init__.py", NULL},
    {AL_LOOK_KIND_LOAD, FAIR, "torch/serialization.py", "load _load _legacy_load"},
    {AL_LOOK_KIND_LOAD, FAIR, "transformers/modeling_utils.py", "from_pretrained _load_pretrained_model"},
    {AL_LOOK_KIND_LOAD, FAIR, "/site-packages/huggingface_hub/", NULL},
    {AL_LOOK_KIND_LOAD, FAIR, "datasets/load.py", "load_dataset"},
    {AL_LOOK_KIND_LOAD, WEAK, "<frozen importlib._bootstrap>", "_find_and_load"},
    {AL_LOOK_KIND_REQUESTS, FAIR, "vllm/v1/engine/core.py", "_process_input_queue"},
    {AL_LOOK_KIND_REQUESTS, FAIR, "vllm/distributed/device_communicators/shm_broadcast.py", "dequeue acquire_read"},
    {AL_LOOK_KIND_FORWARD, WEAK, "torch/nn/modules/module.py", "_wrapped_call_impl _call_impl"},
    {AL_LOOK_KIND_BACKWARD, WEAK, "torch/autograd/graph.py", "_engine_run_backward"},
    {AL_LOOK_KIND_BACKWARD, WEAK, "torch/autograd/__init__.py", "backward"},
    {AL_LOOK_KIND_OPTIMIZER, WEAK, "/torch/optim/", NULL},
};
#define MEANINGS (sizeof meanings / sizeof *meanings)

static bool file_ends(const char *file, const char *end) {
    size_t n = strlen(file), m = strlen(end);
    return n >= m && memcmp(file + n - m, end, m) == 0 && (n == m || file[n - m - 1] == '/');
}

static bool has_name(const char *names, const char *name) {
    size_t len = strlen(name);
    for (const char *p = strstr(names, name); p && len; p = strstr(p + 1, name))
        if ((p == names || p[-1] == ' ') && (p[len] == ' ' || !p[len]))
            return true;
    return false;
}

static bool file_is(const char *file, const char *pattern) {
    return !*pattern || (al_str_ends(pattern, ".py") || pattern[0] == '<' ? file_ends(file, pattern) : strstr(file, pattern) != NULL);
}

static const struct meaning *meaning_of(const struct al_frame *f) {
    bool imported = strcmp(f->name, "<module>") == 0; // it does not do yet what the file is there for
    for (size_t i = 0; i < MEANINGS; i++)
        if ((meanings[i].names ? has_name(meanings[i].names, f->name) : !imported) && file_is(f->file, meanings[i].file))
            return &meanings[i];
    return NULL;
}

static bool is_at(const struct al_frame *f, const char *file, const char *name) {
    return strcmp(f->name, name) == 0 && file_ends(f->file, file);
}

// ---- which frame to name ----

// Of those inside frame `end`, where data is made: the outermost of the user's, else of a package's, else what is called
// first. All the time of a collator or data set is in it, however deep it goes.
static int name_inside(const struct al_frame *frames, int end) {
    int package = -1;
    for (int i = end - 1; i >= 0; i--) {
        enum al_frames_owner owner = al_frames_owner(frames[i].file);
        if (owner == AL_FRAMES_USER)
            return i;
        if (owner == AL_FRAMES_PACKAGE && package < 0)
            package = i;
    }
    return package >= 0 ? package : end - 1;
}

// From frame `from` outwards the first that is not core.
static int name_outside(const struct al_frame *frames, int from, int end) {
    for (int i = from; i < end; i++)
        if (al_frames_owner(frames[i].file) != AL_FRAMES_CORE)
            return i;
    return -1;
}

static int name_around(const struct al_frame *frames, int count, int line) {
    static const char parts[] = "<genexpr> <listcomp> <dictcomp> <setcomp>";
    for (int i = line; i >= 0 && i < count && strcmp(frames[i].file, frames[line].file) == 0; i++)
        if (!has_name(parts, frames[i].name))
            return i;
    return line;
}

// What runs below the named frame, worth telling beside it: the innermost function that is not core, else what is called.
static int call_below(const struct al_frame *frames, int count, const struct al_frames *f) {
    for (int i = 0; i < f->line; i++) {
        if (al_frames_owner(frames[i].file) == AL_FRAMES_CORE)
            continue;
        int name = name_around(frames, count, i);
        return name < f->name ? name : -1;
    }
    return f->line > 0 && f->name == f->line ? f->line - 1 : -1;
}

// What made the kind, as the line calls it: torch.save, not what that uses in the same file.
static int outermost_of(const struct al_frame *frames, int at, int end, enum al_look_kind kind) {
    while (at + 1 < end && strcmp(frames[at + 1].file, frames[at].file) == 0) {
        const struct meaning *m = meaning_of(&frames[at + 1]);
        if (!m || m->kind != kind)
            break;
        at++;
    }
    return at;
}

static void judge_worker(const struct al_frame *frames, int end, struct al_frames *ret) {
    int fetch = end - 1;
    while (fetch >= 0 && !is_at(&frames[fetch], "torch/utils/data/_utils/fetch.py", "fetch"))
        fetch--;
    ret->worker = true;
    ret->waits = fetch < 0;
    ret->kind = fetch < 0 ? AL_LOOK_KIND_LOADER : AL_LOOK_KIND_FETCH;
    if (fetch < 0)
        return;
    ret->line = fetch ? name_inside(frames, fetch) : fetch;
    ret->name = name_around(frames, fetch, ret->line);
    ret->call = call_below(frames, fetch, ret);
    ret->leaf = ret->line == 0;
}

void al_frames_judge(const struct al_frame *frames, uint32_t count, struct al_frames *ret) {
    const struct meaning *most = NULL;
    int at = -1, end = (int)count;
    *ret = (struct al_frames){.kind = AL_LOOK_KIND_OTHER, .line = -1, .name = -1, .call = -1};
    for (int i = 0; i < end; i++)
        if (is_at(&frames[i], "torch/utils/data/_utils/worker.py", "_worker_loop")) {
            judge_worker(frames, i, ret);
            return;
        }
    for (int i = 0; i < end; i++) {
        const struct meaning *m = meaning_of(&frames[i]);
        if (m && (!most || m->strength > most->strength)) {
            most = m;
            at = i;
        }
    }
    ret->kind = most ? most->kind : AL_LOOK_KIND_OTHER;
    // Of a forward pass the line is the innermost: that of the module whose own code runs, not of who calls the model.
    bool inside = ret->kind == AL_LOOK_KIND_FETCH || ret->kind == AL_LOOK_KIND_OTHER || ret->kind == AL_LOOK_KIND_FORWARD;
    if (ret->kind == AL_LOOK_KIND_FETCH && at > 0)
        ret->line = name_inside(frames, at);
    else
        ret->line = name_outside(frames, inside ? 0 : at, end);
    ret->name = name_around(frames, end, ret->line);
    if (ret->line >= 0 && (inside || at == ret->line))
        ret->call = ret->kind == AL_LOOK_KIND_FORWARD ? -1 : call_below(frames, end, ret);
    else if (at >= 0)
        ret->call = outermost_of(frames, at, ret->line < 0 ? end : ret->line, ret->kind);
    ret->leaf = ret->line == 0;
}

// A source line without its comment and the text of its strings, but for that of f-strings, which may hold code.
static void bare_code(const char *source, char *out, size_t size) {
    size_t n = 0;
    char quote = '\0';
    bool formatted = false;
    for (const char *c = source; *c && n + 1 < size; c++) {
        if (!quote && *c == '#')
            break;
        if (quote && *c == '\\' && c[1]) {
            c++;
            continue;
        }
        if (!quote && (*c == '"' || *c == '\'')) {
            quote = *c;
            formatted = c > source && (strchr("fF", c[-1]) || (strchr("rR", c[-1]) && c - 1 > source && strchr("fF", c[-2])));
        } else if (*c == quote) {
            quote = '\0';
        } else if (!quote || formatted) {
            out[n++] = *c;
        }
    }
    out[n] = '\0';
}

const char *al_frames_native_call(const char *source, enum al_look_kind *ret_kind) {
    static const struct {
        const char *text, *words;
        enum al_look_kind kind;
    } calls[] = {
        {".item(", ".item()", AL_LOOK_KIND_SYNCHRONISE},
        {".cpu(", ".cpu()", AL_LOOK_KIND_SYNCHRONISE},
        {".synchronize(", ".synchronize()", AL_LOOK_KIND_SYNCHRONISE},
        {".tolist(", ".tolist()", AL_LOOK_KIND_OTHER}, // arrays have these too, and take their time on the CPU
        {".nonzero(", ".nonzero()", AL_LOOK_KIND_OTHER},
        {"scaled_dot_product_attention(", "scaled_dot_product_attention()", AL_LOOK_KIND_ATTENTION},
        {"os.wait(", "os.wait()", AL_LOOK_KIND_OTHER}, // for a child
        {".wait(", ".wait()", AL_LOOK_KIND_COLLECTIVE},
        {"sleep(", "sleep()", AL_LOOK_KIND_OTHER},
    };
    char code[CODE_MAX];
    bare_code(source, code, sizeof code);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strstr(code, calls[i].text)) {
            *ret_kind = calls[i].kind;
            return calls[i].words;
        }
    return NULL;
}
