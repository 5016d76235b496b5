// SPDX-License-Identifier: Apache-2.0
#include "detect/oom.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/say.h"

#define OUTSIDE_LEAST 1073741824.0 // context, libraries and NCCL come to some 100 MB: that is nobody else

// "20.00 GiB", "512.00 MiB", "0 bytes" at p; returns what is behind it, NULL when there is none.
static const char *size_at(const char *p, double *ret) {
    static const struct {
        const char *word;
        double scale;
    } units[] = {{"bytes", 1}, {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
    char digits[32];
    size_t len = strspn(p, "0123456789.");
    if (!len || p[len] != ' ' || !al_str_copy_n(digits, sizeof digits, p, len) || !al_str_double(digits, ret))
        return NULL;
    p += len + 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i].word);
        if (strncmp(p, units[i].word, unit) == 0 && !(p[unit] >= 'a' && p[unit] <= 'z')) {
            *ret *= units[i].scale;
            return p + unit;
        }
    }
    return NULL;
}

static bool size_after(const char *text, const char *words, double *ret) {
    const char *p = strstr(text, words);
    return p && size_at(p + strlen(words), ret);
}

// The size of two words in front of `at`.
static bool size_in_front(const char *text, const char *at, double *ret) {
    const char *p = at;
    for (int words = 0; words < 2 && p > text; words++) {
        while (p > text && p[-1] == ' ')
            p--;
        while (p > text && p[-1] != ' ' && p[-1] != '(' && p[-1] != ';')
            p--;
    }
    return size_at(p, ret);
}

static bool size_before(const char *text, const char *words, double *ret) {
    const char *p = strstr(text, words);
    return p && size_in_front(text, p, ret);
}

static void take_processes(const char *text, struct al_oom *o) {
    static const char use[] = " memory in use";
    for (const char *p = strstr(text, use); p; p = strstr(p + 1, use)) {
        double bytes;
        const char *sentence = p;
        if (!size_in_front(text, p, &bytes))
            continue;
        while (sentence > text && !(sentence[-1] == ' ' && sentence - 1 > text && sentence[-2] == '.'))
            sentence--;
        const char *own = strstr(sentence, "this process has ");
        if (own && own < p) {
            o->in_use_known = true;
            o->in_use = bytes;
        } else {
            o->others_known = true;
            o->others += bytes;
        }
    }
}

bool al_oom_parse(const char *text, struct al_oom *ret) {
    double reserved;
    *ret = (struct al_oom){.device = -1};
    const char *gpu = strstr(text, "GPU ");
    if (!strstr(text, "out of memory") || !size_after(text, "Tried to allocate ", &ret->tried))
        return false;
    if (gpu && gpu[4] >= '0' && gpu[4] <= '9')
        ret->device = gpu[4] - '0' + (gpu[5] >= '0' && gpu[5] <= '9' ? 9 * (gpu[4] - '0') + gpu[5] - '0' : 0);
    // torch 2.1 wrote "capacty".
    ret->total_known = size_after(text, "total capacity of ", &ret->total) || size_after(text, "total capacty of ", &ret->total) ||
                       size_before(text, " total capacity;", &ret->total);
    ret->free_known = size_before(text, " is free", &ret->free) || size_before(text, " free;", &ret->free);
    ret->allocated_known = size_before(text, " is allocated by PyTorch", &ret->allocated) ||
                           size_before(text, " already allocated;", &ret->allocated);
    ret->unallocated_known = size_before(text, " is reserved by PyTorch but unallocated", &ret->unallocated);
    if (!ret->unallocated_known && ret->allocated_known && size_before(text, " reserved in total by PyTorch", &reserved)) {
        ret->unallocated_known = true;
        ret->unallocated = reserved > ret->allocated ? reserved - ret->allocated : 0;
    }
    take_processes(text, ret);
    return true;
}

// What neither is free nor torch's: other processes, and this one's memory outside torch.
static double outside(const struct al_oom *o) {
    if (o->others_known)
        return o->others;
    if (!o->total_known || !o->free_known || !o->allocated_known || !o->unallocated_known)
        return 0;
    // The process's own figure includes its context. Of 0 the driver knows nothing (a container).
    double own = o->in_use_known && o->in_use > 0 ? o->in_use : o->allocated + o->unallocated;
    double rest = o->total - o->free - own;
    return rest > 0 ? rest : 0;
}

enum al_oom_cause al_oom_cause(const struct al_oom *o) {
    if (o->total_known && o->tried > o->total)
        return AL_OOM_TOO_LARGE;
    if (!o->free_known || !o->unallocated_known)
        return AL_OOM_UNCLEAR;
    // What is cached counts only beside what is asked for: a few MiB of remains are no fragmentation.
    if (o->unallocated > 0 && o->tried <= o->free + o->unallocated && o->tried > o->free)
        return AL_OOM_FRAGMENTATION;
    if (outside(o) > OUTSIDE_LEAST && o->tried <= o->free + o->unallocated + outside(o))
        return AL_OOM_OTHERS;
    return o->allocated_known ? AL_OOM_CAPACITY : AL_OOM_UNCLEAR;
}

const char *al_oom_word(enum al_oom_cause c) {
    static const char *const words[] = {"unclear", "one request too large", "fragmentation", "another process", "capacity"};
    return words[c];
}

static void say_message(const struct al_oom *o, enum al_oom_cause cause, char *out, size_t size) {
    static const char *const tails[] = {
        [AL_OOM_UNCLEAR] = "the message does not tell enough",
        [AL_OOM_TOO_LARGE] = "no device of this size could serve it",
        [AL_OOM_FRAGMENTATION] = "free and cached together were enough, but not in one piece",
        [AL_OOM_OTHERS] = "what others hold would have been enough",
        [AL_OOM_CAPACITY] = "nearly all of it is in use by tensors: real demand",
    };
    size_t len = (size_t)snprintf(out, size, "%s: %s asked for", al_oom_word(cause), al_say_bytes(o->tried).s);
    const struct {
        bool known;
        double bytes;
        const char *words;
    } parts[] = {{o->total_known, o->total, "on the device"},
                 {o->free_known, o->free, "free"},
                 {o->allocated_known, o->allocated, "in tensors"},
                 {o->unallocated_known, o->unallocated, "cached"},
                 {cause == AL_OOM_OTHERS, outside(o), o->others_known ? "in other processes" : "neither free nor torch's"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].known && len < size)
            len += (size_t)snprintf(out + len, size - len, ", %s %s", al_say_bytes(parts[i].bytes).s, parts[i].words);
    if (len < size)
        (void)snprintf(out + len, size - len, ": %s", tails[cause]);
}

static void say_advice(const struct al_oom *o, const struct al_allocator *a, enum al_oom_cause cause, char *out, size_t size) {
    switch (cause) {
    case AL_OOM_FRAGMENTATION: al_allocator_advise(a, out, size); break;
    case AL_OOM_OTHERS:
        (void)snprintf(out, size, "see who holds it (alula ps, alula memory) and end or move it%s%s",
                       o->others_known ? "" : "; it may also be this process's own memory outside torch (NCCL, CUDA graphs, an engine)",
                       a->async ? "; with cudaMallocAsync the pool's free memory shows here too" : "");
        break;
    case AL_OOM_TOO_LARGE:
        (void)snprintf(out, size, "look at the size that is asked for: a shape or a sequence length that is off, or logits of a whole "
                                  "batch at once");
        break;
    default:
        (void)snprintf(out, size, "a smaller micro-batch with more gradient accumulation, gradient checkpointing, shorter sequences, "
                                  "or sharding (ZeRO, FSDP); allocator settings do not help here");
    }
}

void al_oom_say(const struct al_oom *o, const struct al_allocator *a, char *message, size_t size, char *advice, size_t advice_size) {
    enum al_oom_cause cause = al_oom_cause(o);
    if (message)
        say_message(o, cause, message, size);
    if (advice)
        say_advice(o, a, cause, advice, advice_size);
}
