// SPDX-License-Identifier: Apache-2.0
#include "series/set.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct entry {
    uint64_t entity;
    uint32_t metric;
    struct al_window *window; // NULL in a free place
};

// Open addressing with linear probing; at most half full, so probes stay short.
struct al_series_set {
    int64_t span_ns;
    uint32_t max, count, places; // places is a power of two
    uint64_t refused;
    size_t bytes; // of the windows and their rings
    struct entry *table;
};

#define PLACES_FIRST 64

static uint64_t mix(uint64_t x)
{
    // The finaliser of MurmurHash3 (public domain, A. Appleby).
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

uint64_t al_series_entity(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ULL;
    return hash;
}

uint64_t al_series_entity_process(uint64_t pid_ns, int64_t pid, uint64_t start_ticks)
{
    return mix(mix(mix(pid_ns) ^ (uint64_t)pid) ^ start_ticks);
}

static uint32_t home_of(const struct al_series_set *set, uint64_t entity, uint32_t metric)
{
    return (uint32_t)mix(entity ^ mix(metric)) & (set->places - 1);
}

// The entry's place, or the free one where it would go.
static uint32_t find(const struct al_series_set *set, uint64_t entity, uint32_t metric)
{
    uint32_t i = home_of(set, entity, metric);
    while (set->table[i].window && (set->table[i].entity != entity || set->table[i].metric != metric))
        i = (i + 1) & (set->places - 1);
    return i;
}

int al_series_set_new(int64_t span_ns, uint32_t max_windows, struct al_series_set **ret)
{
    if (span_ns <= 0 || max_windows == 0 || max_windows > 1U << 24)
        return AL_E_INVALID;
    struct al_series_set *set = calloc(1, sizeof *set);
    if (!set)
        return AL_E_NOMEM;
    set->span_ns = span_ns;
    set->max = max_windows;
    set->places = PLACES_FIRST;
    set->table = calloc(set->places, sizeof *set->table);
    if (!set->table) {
        free(set);
        return AL_E_NOMEM;
    }
    *ret = set;
    return 0;
}

static void window_free(struct al_window *w)
{
    if (w)
        al_window_done(w);
    free(w);
}

struct al_series_set *al_series_set_free(struct al_series_set *set)
{
    if (set) {
        for (uint32_t i = 0; i < set->places; i++)
            window_free(set->table[i].window);
        free(set->table);
        free(set);
    }
    return NULL;
}

static int grow(struct al_series_set *set)
{
    struct al_series_set wider = *set;
    wider.places *= 2;
    wider.table = calloc(wider.places, sizeof *wider.table);
    if (!wider.table)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < set->places; i++)
        if (set->table[i].window)
            wider.table[find(&wider, set->table[i].entity, set->table[i].metric)] = set->table[i];
    free(set->table);
    *set = wider;
    return 0;
}

static size_t window_bytes(const struct al_window *w)
{
    return sizeof *w + (size_t)w->cap * (sizeof *w->ring + 2 * sizeof(uint32_t));
}

static int make(struct al_series_set *set, uint64_t entity, uint32_t metric, int64_t period_ns, uint32_t *ret_place)
{
    if (set->count == set->max)
        return AL_E_TOOBIG;
    if (2 * (set->count + 1) > set->places) {
        int result = grow(set);
        if (result < 0)
            return result;
    }
    struct al_window *w = malloc(sizeof *w);
    if (!w)
        return AL_E_NOMEM;
    int result = al_window_init(w, set->span_ns, al_window_capacity(set->span_ns, period_ns));
    if (result < 0) {
        free(w);
        return result;
    }
    *ret_place = find(set, entity, metric);
    set->table[*ret_place] = (struct entry){entity, metric, w};
    set->count++;
    set->bytes += window_bytes(w);
    return 0;
}

int al_series_set_push(struct al_series_set *set, uint64_t entity, uint32_t metric, int64_t period_ns, int64_t at_ns,
                       double value)
{
    uint32_t i = find(set, entity, metric);
    if (!set->table[i].window) {
        if (value - value != 0) // NaN or infinite: makes no window
            return AL_E_INVALID;
        int result = make(set, entity, metric, period_ns, &i);
        if (result < 0) {
            set->refused++;
            return result;
        }
    }
    return al_window_push(set->table[i].window, at_ns, value);
}

const struct al_window *al_series_set_get(const struct al_series_set *set, uint64_t entity, uint32_t metric)
{
    return set->table[find(set, entity, metric)].window;
}

// Frees a place and closes the hole behind it (deletion without tombstones: whoever would no longer be found moves up).
static void remove_at(struct al_series_set *set, uint32_t hole)
{
    uint32_t mask = set->places - 1;
    set->bytes -= window_bytes(set->table[hole].window);
    window_free(set->table[hole].window);
    memset(&set->table[hole], 0, sizeof set->table[hole]);
    set->count--;
    for (uint32_t i = (hole + 1) & mask; set->table[i].window; i = (i + 1) & mask) {
        uint32_t home = home_of(set, set->table[i].entity, set->table[i].metric);
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        set->table[hole] = set->table[i];
        memset(&set->table[i], 0, sizeof set->table[i]);
        hole = i;
    }
}

void al_series_set_expire(struct al_series_set *set, int64_t now_ns)
{
    for (uint32_t i = 0; i < set->places;) {
        struct al_window *w = set->table[i].window;
        if (w)
            al_window_expire(w, now_ns);
        if (w && w->count == 0)
            remove_at(set, i); // and look at the same place again: another entry may have moved in
        else
            i++;
    }
}

void al_series_set_forget(struct al_series_set *set, uint64_t entity)
{
    for (uint32_t i = 0; i < set->places;)
        if (set->table[i].window && set->table[i].entity == entity)
            remove_at(set, i);
        else
            i++;
}

uint32_t al_series_set_count(const struct al_series_set *set)
{
    return set->count;
}

size_t al_series_set_bytes(const struct al_series_set *set)
{
    return sizeof *set + set->places * sizeof *set->table + set->bytes;
}

uint64_t al_series_set_refused(const struct al_series_set *set)
{
    return set->refused;
}
