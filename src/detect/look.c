// SPDX-License-Identifier: Apache-2.0
#include "detect/look.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

// ---- counting ----

void al_look_tally_done(struct al_look_tally *t) {
    free(t->places);
    *t = (struct al_look_tally){0};
}

static bool same_function(const struct al_look_line *a, const struct al_look_line *b) {
    return strcmp(a->function, b->function) == 0 && strcmp(a->file, b->file) == 0;
}

static int place_add(struct al_look_tally *t, const struct al_look_place *place) {
    if (t->count == AL_LOOK_PLACES)
        return 0;
    if (t->count == t->cap) {
        uint32_t cap = t->cap ? 2 * t->cap : 16;
        struct al_look_place *wider = realloc(t->places, cap * sizeof *wider);
        if (!wider)
            return AL_E_NOMEM;
        t->places = wider;
        t->cap = cap;
    }
    t->places[t->count++] = *place;
    return 0;
}

int al_look_tally_add(struct al_look_tally *t, const struct al_frame *frames, uint32_t count, bool whole, bool idle) {
    struct al_frames f;
    struct al_look_place place = {.samples = 1};
    al_frames_judge(frames, count, &f);
    t->samples++;
    t->idle += idle;
    t->waits += f.waits;
    t->kinds[f.kind]++;
    if (f.line < 0 || f.waits || (!whole && f.leaf)) // of a stack that moved, the innermost frames are missing
        return 0;
    place.kind = f.kind;
    place.leaf = f.leaf;
    place.at.line = frames[f.line].line;
    (void)al_str_copy(place.at.function, sizeof place.at.function, frames[f.name].name);
    (void)al_str_copy(place.at.file, sizeof place.at.file, frames[f.line].file);
    if (f.call >= 0)
        (void)al_str_copy(place.at.call, sizeof place.at.call, frames[f.call].name);
    for (uint32_t i = 0; i < t->count; i++) {
        struct al_look_place *p = &t->places[i];
        if (p->at.line == place.at.line && p->kind == place.kind && p->leaf == place.leaf && same_function(&p->at, &place.at) &&
            strcmp(p->at.call, place.at.call) == 0) {
            p->samples++;
            return 0;
        }
    }
    return place_add(t, &place);
}

static uint32_t samples_of(const struct al_look_tally *t, const struct al_look_place *place, bool line) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct al_look_place *p = &t->places[i];
        if (same_function(&p->at, &place->at) && (!line || p->at.line == place->at.line))
            sum += p->samples;
    }
    return sum;
}

struct al_look_place *al_look_tally_top(const struct al_look_tally *t, uint32_t *ret_function) {
    struct al_look_place *top = NULL;
    uint32_t most = 0, line = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        struct al_look_place *p = &t->places[i];
        uint32_t function = samples_of(t, p, false), here = samples_of(t, p, true);
        bool more = function > most || (function == most && here > line) ||
                    (function == most && here == line && top && p->samples > top->samples);
        if (more) {
            top = p;
            most = function;
            line = here;
        }
    }
    *ret_function = most;
    return top;
}

void al_look_tally_source(struct al_look_tally *t, struct al_look_place *place, const char *source, bool ranks) {
    enum al_look_kind kind;
    const char *call = place->leaf ? al_frames_native_call(source, &kind) : NULL;
    if (!call)
        return;
    (void)al_str_copy(place->at.call, sizeof place->at.call, call);
    if (kind == AL_LOOK_KIND_COLLECTIVE && !ranks) // much else has a wait()
        return;
    if (kind == AL_LOOK_KIND_OTHER || (place->kind != AL_LOOK_KIND_OTHER && place->kind != AL_LOOK_KIND_FORWARD))
        return;
    t->kinds[place->kind] -= place->samples;
    t->kinds[kind] += place->samples;
    place->kind = kind;
}

static struct al_value ratio(uint32_t part, uint32_t whole, int64_t at_ns) {
    return whole ? al_value_ok((double)part / whole, at_ns) : al_value_none(AL_STATUS_UNREAD);
}

static void fill_line(const struct al_look_tally *t, struct al_look_line *ret, struct al_value *line, struct al_value *function,
                      int64_t at_ns) {
    uint32_t in_function;
    const struct al_look_place *top = al_look_tally_top(t, &in_function);
    *line = *function = al_value_none(AL_STATUS_UNREAD);
    if (!top)
        return;
    uint32_t here = samples_of(t, top, true);
    *ret = top->at;
    if (2 * top->samples < here) // it calls now this, now that
        ret->call[0] = '\0';
    *line = ratio(here, t->samples, at_ns);
    *function = ratio(in_function, t->samples, at_ns);
}

void al_look_fill(struct al_look *look, const struct al_look_tally *own, const struct al_look_tally *theirs, uint32_t workers,
                  double seconds, int64_t at_ns) {
    struct al_value *m = look->m;
    m[AL_LOOK_SAMPLES] = al_value_ok(own->samples, at_ns);
    m[AL_LOOK_SECONDS] = al_value_ok(seconds, at_ns);
    m[AL_LOOK_IDLE] = ratio(own->idle, own->samples, at_ns);
    for (int k = 0; k < AL_LOOK_KIND_COUNT; k++)
        m[AL_LOOK_OTHER + k] = ratio(own->kinds[k], own->samples, at_ns);
    fill_line(own, &look->line, &m[AL_LOOK_LINE], &m[AL_LOOK_FUNCTION], at_ns);
    m[AL_LOOK_WORKERS] = al_value_ok(workers, at_ns);
    m[AL_LOOK_WORKER_SAMPLES] = al_value_ok(theirs->samples, at_ns);
    m[AL_LOOK_WORKER_WAITS] = ratio(theirs->waits, theirs->samples, at_ns);
    fill_line(theirs, &look->worker, &m[AL_LOOK_WORKER_LINE], &m[AL_LOOK_WORKER_FUNCTION], at_ns);
}
