// SPDX-License-Identifier: Apache-2.0
// threading._active: {ident: Thread}. The list is read when a thread is new.
#include <stdlib.h>

#include "stack/core/dict.h"
#include "stack/parts.h"

static bool take(void *user, uint64_t key, uint64_t value) {
    struct al_stack *s = user;
    uint64_t ident;
    if (!al_int_read(&s->memory, &s->found.layout, key, &ident))
        return false;
    if (s->active_count == s->active_cap) {
        size_t cap = s->active_cap ? 2 * s->active_cap : 64;
        struct al_active *more = realloc(s->active, cap * sizeof *more);
        if (!more)
            return true;
        s->active = more;
        s->active_cap = cap;
    }
    s->active[s->active_count++] = (struct al_active){ident, value};
    return s->active_count >= AL_THREADS_MOST;
}

static int by_ident(const void *a, const void *b) {
    const struct al_active *x = a, *y = b;
    return (x->ident > y->ident) - (x->ident < y->ident);
}

// sys.modules["threading"]._active; the dict stays the same one as long as the interpreter lives.
static uint64_t find_active(struct al_stack *s, const struct al_interp *interp) {
    const struct al_layout *l = &s->found.layout;
    uint64_t modules, dict;
    size_t free_one = KEPT_ACTIVE;
    for (size_t i = KEPT_ACTIVE; i-- > 0;) {
        if (s->kept_active[i].interp == interp->address)
            return s->kept_active[i].dict;
        if (!s->kept_active[i].dict)
            free_one = i;
    }
    if (!al_memory_u64(&s->memory, interp->address + l->interp_modules, &modules))
        return 0;
    uint64_t module = al_dict_get(&s->memory, l, modules, "threading");
    // A module's dict stands right behind its head.
    if (!module || !al_memory_u64(&s->memory, module + l->object_type + 8, &dict))
        return 0;
    uint64_t active = al_dict_get(&s->memory, l, dict, "_active");
    if (active && free_one < KEPT_ACTIVE)
        s->kept_active[free_one] = (struct al_kept_active){interp->address, active};
    return active;
}

static void read_active(struct al_stack *s) {
    s->active_count = 0;
    s->active_number = s->number;
    for (size_t i = 0; i < s->interps_count; i++) {
        uint64_t active = find_active(s, &s->interps[i]);
        if (active)
            (void)al_dict_walk(&s->memory, &s->found.layout, active, take, s);
    }
    if (!s->active_count) // other interpreters now, or another program
        memset(s->kept_active, 0, sizeof s->kept_active);
    if (s->active_count)
        qsort(s->active, s->active_count, sizeof *s->active, by_ident);
}

static const struct al_active *look_up(const struct al_stack *s, uint64_t ident) {
    struct al_active key = {ident, 0};
    return s->active_count ? bsearch(&key, s->active, s->active_count, sizeof key, by_ident) : NULL;
}

bool al_name_of(struct al_stack *s, struct al_slot *slot) {
    // Idents come back for later threads: only a list that is younger than the thread is believed.
    if (s->active_number < slot->first_seen || (!look_up(s, slot->id) && s->active_number < s->number))
        read_active(s);
    const struct al_active *a = look_up(s, slot->id);
    if (!a)
        return false;
    uint64_t text = al_attribute(&s->memory, &s->found.layout, a->thread, "_name");
    char name[sizeof slot->name];
    if (!text || !al_text_read(&s->memory, &s->found.layout, text, name, sizeof name) || !name[0])
        return false;
    memcpy(slot->name, name, sizeof name);
    return true;
}
