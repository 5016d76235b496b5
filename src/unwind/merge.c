// SPDX-License-Identifier: Apache-2.0
#include "unwind/merge.h"

#include <string.h>

#include "base/str.h"

// Frames of the run that begins at `from`.
static uint32_t run_length(const struct al_merge_input *in, uint32_t from) {
    uint32_t n = 0;
    while (from + n < in->python_count)
        if (in->python[from + n++].entry)
            break;
    return n;
}

static uint32_t count_runs(const struct al_merge_input *in) {
    uint32_t runs = 0;
    for (uint32_t i = 0; i < in->python_count; runs++)
        i += run_length(in, i);
    return runs;
}

// A piece of the loop that the loop itself called is no run of its own.
static bool is_loop(const struct al_merge_input *in, uint32_t i) {
    if (in->native[i] == AL_MERGE_LOOP_PART)
        return i + 1 >= in->native_count || in->native[i + 1] != AL_MERGE_LOOP;
    return in->native[i] == AL_MERGE_LOOP;
}

static uint32_t count_loops(const struct al_merge_input *in) {
    uint32_t loops = 0;
    for (uint32_t i = 0; i < in->native_count; i++)
        loops += is_loop(in, i);
    return loops;
}

// How many of the innermost loops have no Python frame yet; -1: they do not fit.
static int judge(const struct al_merge_input *in, enum al_stack_native *ret) {
    uint32_t loops = count_loops(in), runs = count_runs(in);
    bool native_whole = in->native_status == AL_UNWIND_WHOLE;
    // The innermost loop was just entered, or is about to leave: its frame is not in the chain.
    bool spare = in->native_count && (is_loop(in, 0) || in->native[0] == AL_MERGE_LOOP_PART);
    *ret = AL_STACK_NATIVE_UNFIT;
    if (native_whole && !in->truncated) {
        if (loops != runs && !(spare && loops == runs + 1))
            return -1;
        *ret = AL_STACK_NATIVE_MERGED;
        return (int)(loops - runs);
    }
    if ((!in->truncated && loops > runs) || (native_whole && runs > loops))
        return -1;
    // All of Python's frames have their place: what is missing lies further out than they.
    *ret = !in->truncated && loops == runs ? AL_STACK_NATIVE_MERGED : AL_STACK_NATIVE_PART;
    return 0;
}

static uint32_t take_run(const struct al_merge_input *in, uint32_t *at, int32_t *out) {
    uint32_t n = run_length(in, *at);
    for (uint32_t k = 0; k < n; k++)
        out[k] = (int32_t)(*at + k);
    *at += n;
    return n;
}

uint32_t al_merge(const struct al_merge_input *in, int32_t *out, enum al_stack_native *ret) {
    uint32_t count = 0, at = 0;
    int skip = in->python_count ? judge(in, ret) : -1;
    if (!in->python_count)
        *ret = AL_STACK_NATIVE_UNFIT;
    for (uint32_t i = 0; skip >= 0 && i < in->native_count; i++) {
        if (is_loop(in, i) && skip-- <= 0) {
            skip = 0;
            if (at == in->python_count)
                break;
            count += take_run(in, &at, out + count);
            if (in->truncated && at == in->python_count && !in->python[at - 1].entry)
                break; // Python's root end is missing, and with it the place of what follows
        } else if (in->native[i] == AL_MERGE_SHOWN) {
            out[count++] = -1 - (int32_t)i;
        }
    }
    while (at < in->python_count)
        count += take_run(in, &at, out + count);
    return count;
}

static bool starts_with_any(const char *symbol, const char *const *prefixes) {
    for (; *prefixes; prefixes++)
        if (al_str_starts(symbol, *prefixes))
            return true;
    return false;
}

static bool is_any(const char *symbol, const char *const *names) {
    for (; *names; names++)
        if (strcmp(symbol, *names) == 0)
            return true;
    return false;
}

bool al_merge_is_plumbing(const char *symbol) {
    static const char *const prefixes[] = {
        "0x", "Py", "_Py", "_init", "cfunction_", "method_vectorcall", "vectorcall_", "object_vacall", "slot_tp_", "slot_sq_", "slot_mp_",
        "slot_nb_", "slot_am_", "type_call", "wrap_", "wrapperdescr_", "gen_", "coro_", "async_gen_", "function_code_fastcall",
        "call_function", "method_call", "classmethoddescr_", "partial_", "lru_cache_", "bounded_lru_cache_", "infinite_lru_cache_",
        "run_", "pymain_", "pyrun_", "builtin_exec", "builtin_eval", "builtin___build_class__", "thread_run", "pythread_wrapper",
        "bootstrap_", "py::", "property_descr_", "functools_partial", "cached_call", "do_call_core", "tail_call_", "_TAIL_CALL_", NULL};
    static const char *const names[] = {"main", "object_call", "exec_code_in_module", "import_find_and_load", "call_method", "vgetargskeywords",
                                        "call_unbound", "call_attribute", "call_unbound_noarg", "t_bootstrap", "cache_call", NULL};
    return starts_with_any(symbol, prefixes) || is_any(symbol, names) || al_merge_is_start(symbol);
}

bool al_merge_is_start(const char *symbol) {
    static const char *const names[] = {"_start", "start_thread", "clone", "clone3", "__clone", "__clone3", "__libc_start_main",
                                        "__libc_start_call_main", "__libc_start_main_impl", NULL};
    return is_any(symbol, names) || al_str_starts(symbol, "__libc_start_");
}
