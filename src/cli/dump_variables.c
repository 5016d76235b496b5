// SPDX-License-Identifier: Apache-2.0
// Variables that differ from rank to rank, in the functions that all are in: which step each is at.
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/dump_differ.h"

#define TOLD_MOST 12u   // variables
#define VALUES_MOST 4u  // values of one that are told in words

struct variable {
    const char *name;
    const struct al_differ_frame *frame;
    const char **values; // of each rank
    uint32_t *groups;    // of each rank: the first rank with the same value
    uint32_t count, kinds;
};

// The frame of a rank that is the nth from the root.
static const struct al_stack_locals *locals_at(const struct al_dump_member *m, uint32_t nth) {
    return m->locals && nth < m->frame_count ? &m->locals[m->frame_count - 1 - nth] : NULL;
}

static bool same_function(const struct al_dump_differ *a, uint32_t nth) {
    const struct al_differ_frame *first = NULL;
    for (uint32_t i = 0; i < a->main.count; i++) {
        const struct al_differ_rank *r = &a->main.ranks[i];
        if (!r->has || nth >= r->stack.count || !r->member->locals)
            return false;
        const struct al_differ_frame *f = &r->stack.frames[nth];
        if (first && (strcmp(f->file, first->file) != 0 || strcmp(f->function, first->function) != 0))
            return false;
        first = first ? first : f;
    }
    return first != NULL;
}

static const char *value_in(const struct al_stack_locals *l, const char *name) {
    for (uint32_t i = 0; l && i < l->count; i++)
        if (strcmp(l->list[i].name, name) == 0)
            return l->list[i].changed || !*l->list[i].value || strcmp(l->list[i].value, "***") == 0 ? NULL : l->list[i].value;
    return NULL;
}

// How far a loop is may differ everywhere; what else is different in each rank says who it is.
static bool counts(const char *name) {
    static const char *const words[] = {"step", "epoch", "iter", "batch", "idx", "index", "count"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i]))
            return true;
    return strcmp(name, "i") == 0 || strcmp(name, "n") == 0 || strcmp(name, "it") == 0;
}

// False: not all have it, all have the same, or it is one of those that say who a rank is.
static bool fill(struct variable *v, const struct al_dump_differ *a, const char *name, uint32_t nth) {
    v->name = name;
    v->frame = &a->main.ranks[0].stack.frames[nth];
    v->count = a->main.count;
    v->kinds = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        v->values[i] = value_in(locals_at(a->main.ranks[i].member, nth), name);
        if (!v->values[i])
            return false;
        v->groups[i] = i;
        for (uint32_t k = 0; k < i && v->groups[i] == i; k++)
            if (strcmp(v->values[k], v->values[i]) == 0)
                v->groups[i] = v->groups[k];
        v->kinds += v->groups[i] == i;
    }
    return v->kinds > 1 && (counts(name) || (v->kinds < v->count && !strcasestr(name, "rank")));
}

static void ranks_with(struct al_buf *b, const struct al_dump_differ *a, const struct variable *v, uint32_t first) {
    for (uint32_t i = first, n = 0; i < v->count; i++) {
        const struct al_stacks_process *p = a->main.ranks[i].member->dump.process;
        if (v->groups[i] == first)
            al_buf_printf(b, "%s%d", n++ ? ", " : "", p->rank >= 0 ? (int)p->rank : (int)p->pid);
    }
}

static void in_words(struct al_buf *b, const struct al_dump_differ *a, const struct variable *v) {
    const char *file;
    uint32_t told = 0;
    (void)al_differ_file(v->frame->file, &file);
    al_buf_str(b, "variable ");
    al_term_string(b, v->name);
    al_buf_str(b, " of ");
    al_term_string(b, v->frame->function);
    al_buf_str(b, " (");
    al_term_string(b, file);
    al_buf_str(b, "): ");
    for (uint32_t i = 0; i < v->count && told < VALUES_MOST; i++) {
        if (v->groups[i] != i)
            continue;
        al_buf_str(b, told++ ? "; " : "");
        al_term_string(b, v->values[i]);
        al_buf_str(b, " in ");
        ranks_with(b, a, v, i);
    }
    al_buf_str(b, v->kinds > VALUES_MOST ? "; others\n" : "\n");
}

static void as_json(struct al_buf *b, const struct al_dump_differ *a, const struct variable *v) {
    al_buf_str(b, "{\"name\": ");
    al_json_string(b, v->name);
    al_buf_str(b, ", \"in\": ");
    al_dump_frame_json(b, v->frame);
    al_buf_str(b, ", \"values\": [");
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->groups[i] != i)
            continue;
        al_buf_str(b, i ? ", {\"value\": " : "{\"value\": ");
        al_json_string(b, v->values[i]);
        al_buf_str(b, ", \"ranks\": [");
        ranks_with(b, a, v, i);
        al_buf_str(b, "]}");
    }
    al_buf_str(b, "]}");
}

int al_dump_variables(struct al_buf *b, const struct al_dump_differ *a, bool json) {
    struct variable v = {.values = calloc(a->count + 1, sizeof *v.values), .groups = calloc(a->count + 1, sizeof *v.groups)};
    uint32_t told = 0;
    int result = v.values && v.groups ? 0 : AL_E_NOMEM;
    for (uint32_t nth = 0; !result && a->count > 1 && same_function(a, nth); nth++) {
        const struct al_stack_locals *l = locals_at(a->main.ranks[0].member, nth);
        for (uint32_t i = 0; l && i < l->count && told < TOLD_MOST; i++) {
            if (!fill(&v, a, l->list[i].name, nth))
                continue;
            al_buf_str(b, json && told ? ", " : "");
            told++;
            if (json)
                as_json(b, a, &v);
            else
                in_words(b, a, &v);
        }
    }
    free(v.values);
    free(v.groups);
    return result;
}
