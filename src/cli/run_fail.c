// SPDX-License-Identifier: Apache-2.0
// --fail-on: a level, "leak", or rules by their names.
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/run.h"

// Rules on steps (detect/steps*.c), then those on devices and hosts (detect/rule_*.c).
static const char *const rules[] = {
    "data_wait", "communication", "save",      "log",         "evaluation", "between_steps", "own_code",    "host_bound",
    "settings",  "allocated",     "outside_torch", "host",    "contexts",   "hardware",      "host_memory", "inefficient",
    "link",      "memory",        "orphan",    "sensor",      "throttled",  "uneven",
};

static bool is_rule(const char *word) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(word, rules[i]) == 0)
            return true;
    return false;
}

// The next word of a list; false at its end.
static bool next_word(const char **list, char *out, size_t size) {
    if (!**list)
        return false;
    size_t len = strcspn(*list, ",");
    if (!al_str_copy_n(out, size, *list, len))
        out[0] = '\0';
    *list += len;
    *list += **list == ',';
    return true;
}

int al_run_fail_on(struct al_run *r, const char *argument) {
    const char *list = argument;
    char word[32];
    if (!*argument)
        return AL_E_INVALID;
    while (next_word(&list, word, sizeof word)) {
        int level = al_level_from_word(word);
        if (level >= 0 && (r->fail_on < 0 || level < r->fail_on))
            r->fail_on = level;
        if (level < 0 && strcmp(word, "leak") != 0 && !is_rule(word))
            return AL_E_INVALID;
    }
    r->fail_rules = argument;
    return 0;
}

// Memory that is kept: by tensors, outside torch, on the host. A cache that grows is none, nor is one in pieces.
bool al_run_is_leak(const struct al_finding *f) {
    if (strcmp(f->rule, "allocated") == 0)
        return f->evidence_count && strcmp(f->evidence[0].name, "allocated_bytes_per_step") == 0;
    return strcmp(f->rule, "outside_torch") == 0 || strcmp(f->rule, "host") == 0 || strcmp(f->rule, "host_memory") == 0;
}

bool al_run_fails_on(const struct al_run *r, const struct al_finding *f) {
    const char *list = r->fail_rules ? r->fail_rules : "";
    char word[32];
    if (r->fail_on >= 0 && (int)f->level >= r->fail_on)
        return true;
    while (next_word(&list, word, sizeof word))
        if (strcmp(word, f->rule) == 0 || (strcmp(word, "leak") == 0 && al_run_is_leak(f)))
            return true;
    return false;
}
