// SPDX-License-Identifier: Apache-2.0
// The words of the model's enumerations, both ways.
#include <stddef.h>
#include <string.h>

#include "model/attr.h"
#include "model/finding.h"
#include "model/look.h"
#include "model/process.h"
#include "model/rank.h"
#include "model/status.h"

static const char *const status_words[] = {
#define X(name, word, smi, text) word,
    AL_STATUSES(X)
#undef X
};
static const char *const status_smi[] = {
#define X(name, word, smi, text) smi,
    AL_STATUSES(X)
#undef X
};
static const char *const status_texts[] = {
#define X(name, word, smi, text) text,
    AL_STATUSES(X)
#undef X
};

static const char *const part_words[] = {
#define X(name, word, help) word,
    AL_PHASES(X)
#undef X
    "between_steps"};
static const char *const look_words[] = {
#define X(id, word, does) word,
    AL_LOOK_KINDS(X)
#undef X
};
static const char *const look_does[] = {
#define X(id, word, does) does,
    AL_LOOK_KINDS(X)
#undef X
};
static const char *const role_words[] = {"unknown", "launcher", "rank", "worker", "engine", "notebook", "other"};
static const char *const level_words[] = {"info", "warning", "critical"};
static const char *const confidence_words[] = {"low", "medium", "high"};
static const char *const phase_words[] = {"began", "updated", "ended"};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *word_of(const char *const *table, size_t count, size_t i) {
    return i < count ? table[i] : "?";
}

static int find_word(const char *const *table, size_t count, const char *word) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i], word) == 0)
            return (int)i;
    return -1;
}

const char *al_status_word(uint32_t s) {
    return word_of(status_words, COUNT(status_words), s);
}
const char *al_status_smi(uint32_t s) {
    return word_of(status_smi, COUNT(status_smi), s);
}
const char *al_status_text(uint32_t s) {
    return word_of(status_texts, COUNT(status_texts), s);
}
int al_status_from_word(const char *word) {
    return find_word(status_words, COUNT(status_words), word);
}
const char *al_role_word(uint32_t role) {
    return word_of(role_words, COUNT(role_words), role);
}
int al_role_from_word(const char *word) {
    return find_word(role_words, COUNT(role_words), word);
}
const char *al_proc_type_word(uint32_t type) {
    static const char *const words[] = {"?", "C", "G", "C+G", "M", "M+C", "M+G", "M+C+G"};
    return words[type & 7];
}
const char *al_level_word(enum al_level level) {
    return word_of(level_words, COUNT(level_words), level);
}
int al_level_from_word(const char *word) {
    return find_word(level_words, COUNT(level_words), word);
}
const char *al_confidence_word(enum al_confidence c) {
    return word_of(confidence_words, COUNT(confidence_words), c);
}
const char *al_phase_word(enum al_phase p) {
    return word_of(phase_words, COUNT(phase_words), p);
}

const struct al_attr_info al_attrs[AL_ATTR_COUNT] = {
#define X(id, name, type, help) {name, #type[0], help},
    AL_ATTRS(X)
#undef X
};

int al_attr_find(const char *name) {
    for (int i = 0; i < AL_ATTR_COUNT; i++)
        if (strcmp(al_attrs[i].name, name) == 0)
            return i;
    return -1;
}
const char *al_rank_phase_word(uint32_t phase) {
    return phase < COUNT(part_words) ? part_words[phase] : NULL;
}
const char *al_look_kind_word(uint32_t kind) {
    return word_of(look_words, COUNT(look_words), kind);
}
const char *al_look_kind_does(uint32_t kind) {
    return word_of(look_does, COUNT(look_does), kind);
}
int al_rank_phase_from_word(const char *word) {
    return find_word(part_words, COUNT(part_words), word);
}
const char *al_rank_phase(const struct al_rank *r) {
    const struct al_value *phase = &r->m[AL_RANK_PHASE], *training = &r->m[AL_RANK_TRAINING];
    if (al_ok(*training) && training->num == 0)
        return "starting";
    return al_ok(*phase) && phase->num >= 0 && phase->num <= AL_RANK_BETWEEN ? al_rank_phase_word((uint32_t)phase->num)
                                                                              : NULL;
}
