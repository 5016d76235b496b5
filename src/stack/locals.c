// SPDX-License-Identifier: Apache-2.0
#include "stack/locals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "stack/parts.h"

#define HEAD_MOST 512u
#define SLOTS_MOST 4096u // of one frame: more is damage
#define CELL_KINDS 0xc0u // CO_FAST_CELL, CO_FAST_FREE
#define TAGS 3u          // of a reference, 3.13 on
#define TAGGED_INT 3u    // 3.14 on

struct names { // of a code object's variables, in the order of the slots
    uint64_t list[AL_LOCALS_MOST];
    uint8_t kinds[AL_LOCALS_MOST];
    uint32_t count, left_out;
};

// --- which variables there are ---

static void add_tuple(const struct al_stack *s, uint64_t tuple, uint8_t kind, struct names *n) {
    const struct al_layout *l = &s->found.layout;
    uint64_t size;
    if (!al_address_ok(tuple, 8) || !al_memory_u64(&s->memory, tuple + l->tuple_size, &size) || size > SLOTS_MOST)
        return;
    uint32_t room = AL_LOCALS_MOST - n->count, take = size < room ? (uint32_t)size : room;
    if (take && !al_memory_get(&s->memory, tuple + l->tuple_items, &n->list[n->count], take * 8))
        return;
    memset(&n->kinds[n->count], kind, take);
    n->count += take;
    n->left_out += (uint32_t)size - take;
}

static uint64_t field(const struct al_stack *s, uint64_t code, uint32_t at) {
    uint64_t value;
    return at != AL_LAYOUT_NONE && al_memory_u64(&s->memory, code + at, &value) ? value : 0;
}

static void read_names(const struct al_stack *s, uint64_t code, struct names *n) {
    const struct al_layout *l = &s->found.layout;
    uint64_t data, size;
    n->count = n->left_out = 0;
    if (l->code_locals_names == AL_LAYOUT_NONE) {
        add_tuple(s, field(s, code, l->code_varnames), 0, n);
        add_tuple(s, field(s, code, l->code_cellvars), CELL_KINDS, n);
        add_tuple(s, field(s, code, l->code_freevars), CELL_KINDS, n);
        return;
    }
    add_tuple(s, field(s, code, l->code_locals_names), 0, n);
    if (!al_bytes_head(&s->memory, l, field(s, code, l->code_locals_kinds), SLOTS_MOST, &data, &size) || size < n->count ||
        !al_memory_get(&s->memory, data, n->kinds, n->count))
        n->count = 0;
}

// --- the frame ---

static bool plain_frame(const struct al_stack_frame *f) {
    return f->kind == AL_STACK_PYTHON && f->code != AL_STACK_NO_CODE && !f->degraded;
}

// The frame's code object, if it still runs what the sample says.
static uint64_t code_of(struct al_stack *s, const struct al_stack_frame *f) {
    unsigned char raw[HEAD_MOST];
    const struct al_layout *l = &s->found.layout;
    if (l->frame_size > sizeof raw || !al_memory_get(&s->memory, f->address, raw, l->frame_size))
        return 0;
    uint64_t address = al_u64(raw + l->frame_code) & ~(uint64_t)(l->version >= 0x030d ? TAGS : 0);
    const struct al_code *code = al_codes_get(&s->codes, address, s->sample.at_ns);
    return code && code->id == f->code ? address : 0;
}

static bool slots_of(const struct al_stack *s, const struct al_stack_frame *f, uint32_t count, uint64_t *slots) {
    return !count || al_memory_get(&s->memory, f->address + s->found.layout.frame_locals, slots, count * 8);
}

// What the variable is bound to: cells are looked through. 0: to nothing.
static uint64_t object_of(const struct al_stack *s, struct al_values *v, uint64_t bits, uint8_t kind) {
    uint64_t object = bits & ~(uint64_t)(s->found.layout.version >= 0x030d ? TAGS : 0), inside;
    if (!object || !(kind & CELL_KINDS))
        return object;
    const struct al_value_type *t = al_value_type(v, object);
    if (!t || strcmp(t->name, "cell") != 0)
        return object;
    return al_memory_u64(&s->memory, object + s->found.layout.object_type + 8, &inside) ? inside : 0;
}

static bool secret_value(const struct al_stack_local *local, const struct al_stack_locals_options *o) {
    return o->secret && *local->value && strcmp(local->value, "None") != 0 && strcmp(local->type, "bool") != 0 &&
           o->secret(local->name);
}

static bool read_local(const struct al_stack *s, struct al_values *v, uint32_t slot, uint64_t bits, uint8_t kind,
                       const struct al_stack_locals_options *o, struct al_stack_local *to) {
    bool tagged = s->found.layout.version >= 0x030e && (bits & TAGS) == TAGGED_INT;
    uint64_t object = tagged ? 0 : object_of(s, v, bits, kind);
    if (!object && !tagged)
        return false;
    to->bits = bits;
    to->slot = slot;
    if (tagged) {
        (void)snprintf(to->type, sizeof to->type, "int");
        al_value_tagged(bits, to->value);
    } else if (al_value_text(v, object, to->value)) {
        const struct al_value_type *t = al_value_type(v, object);
        (void)snprintf(to->type, sizeof to->type, "%s", t ? t->name : "");
    }
    if (secret_value(to, o))
        (void)snprintf(to->value, sizeof to->value, "***");
    return true;
}

// Names with a dot are the compiler's own.
static uint32_t read_all(const struct al_stack *s, struct al_values *v, const struct names *n, const uint64_t *slots,
                         const struct al_stack_locals_options *o, struct al_stack_local *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        struct al_stack_local *local = &list[count];
        memset(local, 0, sizeof *local);
        if (al_text_read(&s->memory, &s->found.layout, n->list[i], local->name, sizeof local->name) && *local->name != '.' &&
            read_local(s, v, i, slots[i], n->kinds[i], o, local))
            count++;
    }
    return count;
}

// Twice: an object that is told differently the second time was changed, or ended and its memory is another's.
static void compare(struct al_stack_locals *to, const struct al_stack_local *again, uint32_t count) {
    for (uint32_t i = 0, k = 0; i < to->count; i++) {
        struct al_stack_local *local = &to->list[i];
        while (k < count && again[k].slot < local->slot)
            k++;
        local->changed = k == count || again[k].slot != local->slot || again[k].bits != local->bits ||
                         strcmp(again[k].type, local->type) != 0 || strcmp(again[k].value, local->value) != 0;
    }
}

static int read_frame(struct al_stack *s, struct al_values *v, const struct al_stack_frame *f,
                      const struct al_stack_locals_options *o, struct al_stack_locals *to) {
    struct names n;
    uint64_t slots[AL_LOCALS_MOST], code = code_of(s, f);
    to->moved = !code;
    if (!code)
        return 0;
    read_names(s, code, &n);
    if (!n.count)
        return 0;
    struct al_stack_local *again = calloc(n.count, sizeof *again);
    to->list = calloc(n.count, sizeof *to->list);
    if (to->list && again && slots_of(s, f, n.count, slots)) {
        to->left_out = n.left_out;
        to->slots = n.count;
        to->count = read_all(s, v, &n, slots, o, to->list);
        compare(to, again, read_all(s, v, &n, slots, o, again));
    } else {
        to->moved = true;
    }
    int result = to->list && again ? 0 : AL_E_NOMEM;
    free(again);
    return result;
}

// --- once more ---

static struct al_slot *slot_of(const struct al_stack *s, uint64_t tstate) {
    for (size_t i = 0; i < s->slots_cap; i++)
        if (s->slots[i] && s->slots[i]->tstate == tstate)
            return s->slots[i];
    return NULL;
}

static void forget(struct al_stack_locals *to) {
    free(to->list);
    *to = (struct al_stack_locals){.moved = true};
}

// Variables that are bound to something else by now.
static void check_slots(const struct al_stack *s, const struct al_stack_frame *f, struct al_stack_locals *to) {
    uint64_t slots[AL_LOCALS_MOST];
    if (!slots_of(s, f, to->slots, slots)) {
        forget(to);
        return;
    }
    for (uint32_t i = 0; i < to->count; i++) {
        struct al_stack_local *local = &to->list[i];
        local->changed |= slots[local->slot] != local->bits;
        if (local->changed)
            local->type[0] = local->value[0] = '\0';
    }
}

static bool stands(struct al_stack *s, const struct al_stack_frame *f) {
    for (uint32_t i = 0; i < s->walk.count; i++) {
        const struct al_raw_frame *raw = &s->walk.frames[i];
        struct al_position p = {0, 0, -1, -1};
        if (raw->address != f->address)
            continue;
        struct al_code *code = al_codes_get(&s->codes, raw->code, s->sample.at_ns);
        if (!code || code->id != f->code)
            return false;
        if (code->lines)
            (void)al_codes_position(&s->codes, code, raw->instr, raw->tlbc, &p);
        return p.line == f->line;
    }
    return false;
}

// A frame that ended leaves its memory as it was: whether it is still one is told by the thread's chain alone.
static void check(struct al_stack *s, const struct al_stack_thread *t, struct al_stack_locals *list) {
    struct al_slot *slot = slot_of(s, t->tstate);
    if (!slot)
        s->walk.count = 0;
    else if (al_walk_thread(&s->walk, &slot->plan, slot->tstate) == AL_WALK_UNREADABLE)
        s->walk.count = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (!list[i].count)
            continue;
        if (stands(s, &t->frames[i]))
            check_slots(s, &t->frames[i], &list[i]);
        else
            forget(&list[i]);
    }
}

int al_stack_locals(struct al_stack *s, const struct al_stack_thread *t, const struct al_stack_locals_options *o,
                    struct al_stack_locals **ret) {
    struct al_values *v = calloc(1, sizeof *v);
    struct al_stack_locals *list = calloc(t->count + 1, sizeof *list);
    int result = v && list ? 0 : AL_E_NOMEM;
    s->remote.spent = 0;
    if (!result)
        *v = (struct al_values){.memory = &s->memory, .layout = &s->found.layout, .secret = o->secret, .mask = o->mask};
    for (uint32_t i = 0; i < t->count && !result; i++)
        if (plain_frame(&t->frames[i]))
            result = read_frame(s, v, &t->frames[i], o, &list[i]);
    if (!result)
        check(s, t, list);
    free(v);
    if (result) {
        al_stack_locals_free(list, t->count);
        list = NULL;
    }
    *ret = list;
    return result;
}

void al_stack_locals_free(struct al_stack_locals *list, uint32_t count) {
    for (uint32_t i = 0; list && i < count; i++)
        free(list[i].list);
    free(list);
}
