// SPDX-License-Identifier: Apache-2.0
#include "export/hot.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "export/hot_parts.h"

#define CELLS_MOST (1u << 20)  // 48 MiB
#define NODES_MOST (4u << 20)  // of the profile
#define THREADS_MOST 50000u
#define INDEX_FIRST 1024u
#define PROCESSES_MOST 4096u

struct al_hot *al_hot_new(int64_t window_ns) {
    struct al_hot *h = calloc(1, sizeof *h);
    if (h)
        h->slice_ns = window_ns / AL_HOT_SLICES > 0 ? window_ns / AL_HOT_SLICES : 1;
    return h;
}

void al_hot_reset(struct al_hot *h, bool forget_threads) {
    h->cell_count = 0;
    if (h->by_cell.slots)
        memset(h->by_cell.slots, 0, h->by_cell.size * sizeof *h->by_cell.slots);
    h->by_cell.used = 0;
    for (uint32_t i = 0; i < AL_HOT_SLICES; i++) {
        h->slices[i].count = 0;
        h->slices[i].ticks = 0;
        h->slices[i].began_ns = 0;
    }
    h->ticks = h->window_ticks = 0;
    h->began_ns = h->last_ns = 0;
    if (!forget_threads)
        return;
    for (uint32_t i = 0; i < h->thread_count; i++)
        free(h->threads[i].name);
    for (uint32_t i = 0; i < h->process_count; i++)
        free(h->processes[i].name);
    h->thread_count = h->process_count = h->function_count = 0;
    if (h->by_function.slots)
        memset(h->by_function.slots, 0, h->by_function.size * sizeof *h->by_function.slots);
    h->by_function.used = 0;
}

void al_hot_free(struct al_hot *h) {
    if (!h)
        return;
    al_hot_reset(h, true);
    for (uint32_t i = 0; i < AL_HOT_SLICES; i++)
        free(h->slices[i].entries);
    free(h->cells);
    free(h->by_cell.slots);
    free(h->threads);
    free(h->processes);
    free(h->function_of);
    free(h->by_function.slots);
    free(h);
}

uint32_t al_hot_process(struct al_hot *h, const char *name, int32_t rank) {
    char *copy = h->process_count < PROCESSES_MOST ? strdup(name) : NULL;
    if (!copy || !al_profile_grow((void **)&h->processes, h->process_count, &h->process_cap, sizeof *h->processes)) {
        free(copy);
        return AL_PROFILE_NONE;
    }
    h->processes[h->process_count] = (struct al_hot_process){copy, rank};
    return h->process_count++;
}

int al_hot_thread(struct al_hot *h, uint32_t track, uint32_t process, const char *name) {
    while (h->thread_count <= track) {
        if (!al_profile_grow((void **)&h->threads, h->thread_count, &h->thread_cap, sizeof *h->threads))
            return AL_E_NOMEM;
        h->threads[h->thread_count++] = (struct al_hot_thread){NULL, AL_PROFILE_NONE};
    }
    char *copy = strdup(name);
    if (!copy)
        return AL_E_NOMEM;
    free(h->threads[track].name);
    h->threads[track] = (struct al_hot_thread){copy, process};
    return 0;
}

bool al_hot_knows(const struct al_hot *h, uint32_t track) {
    return track < h->thread_count && h->threads[track].name;
}

static void drop_slice(struct al_hot *h, struct al_hot_slice *s) {
    for (uint32_t i = 0; i < s->count; i++)
        h->cells[s->entries[i].cell].window -= s->entries[i].count;
    h->window_ticks -= s->ticks;
    s->count = 0;
    s->ticks = 0;
    s->began_ns = 0;
}

static void next_slice(struct al_hot *h, int64_t began_ns) {
    struct al_hot_slice *now = &h->slices[h->newest];
    for (uint32_t i = 0; i < now->count; i++)
        h->cells[now->entries[i].cell].entry = 0;
    h->newest = (h->newest + 1) % AL_HOT_SLICES;
    drop_slice(h, &h->slices[h->newest]);
    h->slices[h->newest].began_ns = began_ns;
}

int al_hot_tick(struct al_hot *h, int64_t now_ns) {
    struct al_hot_slice *s = &h->slices[h->newest];
    if (!h->began_ns)
        h->began_ns = s->began_ns = now_ns;
    int64_t behind = (now_ns - s->began_ns) / h->slice_ns;
    if (behind > (int64_t)AL_HOT_SLICES) { // alula was stopped for a while: all of the window is old
        for (uint32_t i = 0; i < AL_HOT_SLICES; i++)
            next_slice(h, now_ns);
    } else {
        for (; behind > 0; behind--)
            next_slice(h, h->slices[h->newest].began_ns + h->slice_ns);
    }
    h->last_ns = now_ns;
    h->ticks++;
    h->window_ticks++;
    h->slices[h->newest].ticks++;
    return 0;
}

static uint32_t cell_slot(const struct al_profile_index *x, uint32_t track, uint32_t stack, unsigned state) {
    uint64_t hash = ((uint64_t)stack * 0x9e3779b97f4a7c15ULL ^ (uint64_t)(track * 8u + state)) * 0xbf58476d1ce4e5b9ULL;
    return (uint32_t)(hash >> 32) & (x->size - 1);
}

static bool cell_room(struct al_hot *h) {
    struct al_profile_index *x = &h->by_cell;
    if (x->size && x->used < x->size / 2)
        return true;
    struct al_profile_index larger = {.size = x->size ? x->size * 2 : INDEX_FIRST, .used = x->used};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint32_t i = 0; i < h->cell_count; i++) {
        uint32_t at = cell_slot(&larger, h->cells[i].track, h->cells[i].stack, h->cells[i].state);
        while (larger.slots[at])
            at = (at + 1) & (larger.size - 1);
        larger.slots[at] = i + 1;
    }
    free(x->slots);
    *x = larger;
    return true;
}

static struct al_hot_cell *cell_of(struct al_hot *h, uint32_t track, uint32_t stack, unsigned state) {
    if (!cell_room(h))
        return NULL;
    uint32_t at = cell_slot(&h->by_cell, track, stack, state);
    for (uint32_t i; (i = h->by_cell.slots[at]); at = (at + 1) & (h->by_cell.size - 1)) {
        struct al_hot_cell *c = &h->cells[i - 1];
        if (c->track == track && c->stack == stack && c->state == state)
            return c;
    }
    if (!al_profile_grow((void **)&h->cells, h->cell_count, &h->cell_cap, sizeof *h->cells))
        return NULL;
    struct al_hot_cell *c = &h->cells[h->cell_count];
    *c = (struct al_hot_cell){.track = track, .stack = stack, .state = state};
    h->by_cell.slots[at] = ++h->cell_count;
    h->by_cell.used++;
    return c;
}

int al_hot_add(struct al_hot *h, uint32_t track, uint32_t stack, unsigned state) {
    struct al_hot_slice *s = &h->slices[h->newest];
    struct al_hot_cell *c = cell_of(h, track, stack, state);
    if (!c)
        return AL_E_NOMEM;
    if (!c->entry) {
        if (!al_profile_grow((void **)&s->entries, s->count, &s->cap, sizeof *s->entries))
            return AL_E_NOMEM;
        s->entries[s->count++] = (struct al_hot_entry){(uint32_t)(c - h->cells), 0};
        c->entry = s->count;
    }
    s->entries[c->entry - 1].count++;
    c->window++;
    c->ever++;
    return 0;
}

bool al_hot_full(const struct al_hot *h, const struct al_profile *p) {
    return h->cell_count > CELLS_MOST || h->thread_count > THREADS_MOST || p->node_count > NODES_MOST;
}
