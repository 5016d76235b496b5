// SPDX-License-Identifier: Apache-2.0
#include "detect/allocator.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

// torch 2.9 gave the variable a name without CUDA in it and looks at the old one first (c10/cuda/CUDAAllocatorConfig.h);
// before, the new name means nothing to it.
#define NEW_NAME_MAJOR 2
#define NEW_NAME_MINOR 9
static const char old_name[] = "PYTORCH_CUDA_ALLOC_CONF", new_name[] = "PYTORCH_ALLOC_CONF";

// The word behind "key=" in a text of such words.
static bool word_of(const char *text, const char *key, char *out, size_t size) {
    size_t len = strlen(key);
    for (const char *p = strstr(text, key); p; p = strstr(p + 1, key))
        if ((p == text || p[-1] == ' ') && p[len] == '=')
            return (void)al_str_copy_n(out, size, p + len + 1, strcspn(p + len + 1, " ")), true;
    *out = '\0';
    return false;
}

static bool knows_new_name(const struct al_tally *t) {
    char version[32], number[16];
    uint64_t major, minor;
    if (!word_of(t->text[AL_TEXT_FRAMEWORK], "torch", version, sizeof version))
        return false;
    size_t first = strcspn(version, "."), second = version[first] ? strspn(version + first + 1, "0123456789") : 0;
    if (!second || !al_str_copy_n(number, sizeof number, version, first) || !al_str_u64(number, &major) ||
        !al_str_copy_n(number, sizeof number, version + first + 1, second) || !al_str_u64(number, &minor))
        return false;
    return major > NEW_NAME_MAJOR || (major == NEW_NAME_MAJOR && minor >= NEW_NAME_MINOR);
}

// "expandable_segments:True", as torch reads it: the last one counts.
static bool is_on(const char *settings, const char *key) {
    size_t len = strlen(key);
    bool on = false;
    for (const char *p = strstr(settings, key); p; p = strstr(p + 1, key))
        if (p[len] == ':')
            on = al_str_starts(p + len + 1, "True") || al_str_starts(p + len + 1, "true");
    return on;
}

void al_allocator_of(const struct al_tally *t, struct al_allocator *ret) {
    const char *text = t->text[AL_TEXT_ALLOCATOR];
    char newer[sizeof ret->settings];
    bool new_known = knows_new_name(t);
    *ret = (struct al_allocator){.known = *text != '\0', .variable = new_known ? new_name : old_name};
    (void)word_of(text, "backend", ret->backend, sizeof ret->backend);
    bool old_set = word_of(text, old_name, ret->settings, sizeof ret->settings);
    bool new_set = word_of(text, new_name, newer, sizeof newer);
    if (old_set)
        ret->variable = old_name;
    if (new_set && (old_set || !new_known))
        ret->not_read[0] = new_name;
    else if (new_set)
        (void)al_str_copy(ret->settings, sizeof ret->settings, newer);
    ret->async = strcmp(ret->backend, "cudaMallocAsync") == 0;
    ret->expandable = !ret->async && is_on(ret->settings, "expandable_segments");
}

void al_allocator_advise(const struct al_allocator *a, char *out, size_t size) {
    static const char lengths[] = "batches of equal lengths (padding to a multiple, bucketing, packing)";
    if (a->async)
        (void)snprintf(out, size, "the driver's own pool (cudaMallocAsync) does the splitting; try torch's backend "
                                  "(backend:native in %s), or %s", a->variable, lengths);
    else if (a->expandable)
        (void)snprintf(out, size, "expandable_segments is on already; what is left is %s, or smaller batches", lengths);
    else if (*a->settings)
        (void)snprintf(out, size, "add expandable_segments:True to %s (now %s), or %s", a->variable, a->settings, lengths);
    else
        (void)snprintf(out, size, "%s=expandable_segments:True, or %s", a->variable, lengths);
    size_t len = strlen(out);
    if (a->not_read[0] && !a->expandable)
        (void)snprintf(out + len, size - len, "; %s is set but not read (%s)", a->not_read[0],
                       a->variable == old_name && *a->settings ? "the other name goes first" : "this torch knows the old name only");
}
