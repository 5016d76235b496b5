// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "export/profile_parts.h"

// Runs that are kept in their order (64 MiB); beyond, equal stacks of a thread are put together.
#define RUNS_MOST (8u << 20)
#define INDEX_FIRST 1024u

static bool grow(void **list, uint32_t count, uint32_t *cap, size_t size) {
    if (count < *cap)
        return true;
    if (*cap > UINT32_MAX / 4)
        return false;
    uint32_t more = *cap ? *cap * 2 : 16;
    void *larger = realloc(*list, more * size);
    if (!larger)
        return false;
    *list = larger;
    *cap = more;
    return true;
}

static uint64_t mix(uint64_t h, uint64_t v) { // FNV-1a's step on words
    return (h ^ v) * 0x100000001b3ULL;
}

static uint64_t text_hash(uint64_t h, const char *text) {
    for (; *text; text++)
        h = mix(h, (unsigned char)*text);
    return mix(h, 0xff);
}

static uint64_t frame_hash(const char *name, const char *file, int32_t line) {
    return mix(text_hash(text_hash(0xcbf29ce484222325ULL, name), file), (uint32_t)line);
}

static uint64_t node_hash(uint32_t parent, uint32_t frame) {
    return mix(mix(0xcbf29ce484222325ULL, parent), frame);
}

static uint32_t slot_of(const struct al_profile_index *x, uint64_t hash) {
    return (uint32_t)(hash ^ hash >> 32 ^ hash >> 17) & (x->size - 1);
}

static void put(struct al_profile_index *x, uint64_t hash, uint32_t number) {
    uint32_t at = slot_of(x, hash);
    while (x->slots[at])
        at = (at + 1) & (x->size - 1);
    x->slots[at] = number + 1;
    x->used++;
}

static uint64_t hash_of(const struct al_profile *p, bool frames, uint32_t i) {
    return frames ? frame_hash(p->frames[i].name, p->frames[i].file, p->frames[i].line)
                  : node_hash(p->nodes[i].parent, p->nodes[i].frame);
}

// Room for one more, at most half full.
static bool room(struct al_profile *p, struct al_profile_index *x) {
    if (x->size && x->used < x->size / 2)
        return true;
    struct al_profile_index larger = {.size = x->size ? x->size * 2 : INDEX_FIRST};
    larger.slots = calloc(larger.size, sizeof *larger.slots);
    if (!larger.slots)
        return false;
    for (uint32_t i = 0; i < x->used; i++)
        put(&larger, hash_of(p, x == &p->by_frame, i), i);
    free(x->slots);
    *x = larger;
    return true;
}

struct al_profile *al_profile_new(void) {
    struct al_profile *p = calloc(1, sizeof *p);
    if (p)
        p->run_most = RUNS_MOST;
    return p;
}

void al_profile_free(struct al_profile *p) {
    if (!p)
        return;
    for (uint32_t i = 0; i < p->frame_count; i++)
        free(p->frames[i].name);
    for (uint32_t i = 0; i < p->track_count; i++) {
        free(p->tracks[i].name);
        free(p->tracks[i].runs);
    }
    free(p->frames);
    free(p->nodes);
    free(p->tracks);
    free(p->by_frame.slots);
    free(p->by_node.slots);
    free(p);
}

uint32_t al_profile_frame(struct al_profile *p, const char *name, const char *file, int32_t line) {
    uint64_t hash = frame_hash(name, file, line);
    if (!room(p, &p->by_frame))
        return AL_PROFILE_NONE;
    for (uint32_t at = slot_of(&p->by_frame, hash), i; (i = p->by_frame.slots[at]); at = (at + 1) & (p->by_frame.size - 1)) {
        const struct al_profile_frame *f = &p->frames[i - 1];
        if (f->line == line && strcmp(f->name, name) == 0 && strcmp(f->file, file) == 0)
            return i - 1;
    }
    size_t name_size = strlen(name) + 1, file_size = strlen(file) + 1;
    char *text = malloc(name_size + file_size);
    if (!text || !grow((void **)&p->frames, p->frame_count, &p->frame_cap, sizeof *p->frames)) {
        free(text);
        return AL_PROFILE_NONE;
    }
    memcpy(text, name, name_size);
    memcpy(text + name_size, file, file_size);
    p->frames[p->frame_count] = (struct al_profile_frame){text, text + name_size, line, 0};
    put(&p->by_frame, hash, p->frame_count);
    return p->frame_count++;
}

void al_profile_first_line(struct al_profile *p, uint32_t frame, int32_t line) {
    p->frames[frame].first_line = line;
}

uint32_t al_profile_stack(struct al_profile *p, uint32_t parent, uint32_t frame) {
    uint64_t hash = node_hash(parent, frame);
    if (!room(p, &p->by_node))
        return AL_PROFILE_NONE;
    for (uint32_t at = slot_of(&p->by_node, hash), i; (i = p->by_node.slots[at]); at = (at + 1) & (p->by_node.size - 1))
        if (p->nodes[i - 1].parent == parent && p->nodes[i - 1].frame == frame)
            return i - 1;
    if (!grow((void **)&p->nodes, p->node_count, &p->node_cap, sizeof *p->nodes))
        return AL_PROFILE_NONE;
    uint32_t depth = parent == AL_PROFILE_NONE ? 1 : p->nodes[parent].depth + 1;
    p->nodes[p->node_count] = (struct al_profile_node){parent, frame, depth, 0};
    put(&p->by_node, hash, p->node_count);
    return p->node_count++;
}

uint32_t al_profile_track(struct al_profile *p, const char *name) {
    char *copy = strdup(name);
    if (!copy || !grow((void **)&p->tracks, p->track_count, &p->track_cap, sizeof *p->tracks)) {
        free(copy);
        return AL_PROFILE_NONE;
    }
    p->tracks[p->track_count] = (struct al_profile_track){.name = copy};
    return p->track_count++;
}

static int by_node(const void *a, const void *b) {
    const struct al_profile_run *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

// The order of time is given up for memory.
static void put_together(struct al_profile *p) {
    p->run_total = 0;
    for (uint32_t t = 0; t < p->track_count; t++) {
        struct al_profile_track *track = &p->tracks[t];
        uint32_t kept = 0;
        if (track->count)
            qsort(track->runs, track->count, sizeof *track->runs, by_node);
        for (uint32_t i = 0; i < track->count; i++)
            if (kept && track->runs[kept - 1].node == track->runs[i].node)
                track->runs[kept - 1].count += track->runs[i].count;
            else
                track->runs[kept++] = track->runs[i];
        track->count = kept;
        p->run_total += kept;
    }
    if (p->run_total > p->run_most / 2) // they differ: order costs no more than they do
        p->run_most *= 2;
}

int al_profile_add(struct al_profile *p, uint32_t track, uint32_t stack) {
    struct al_profile_track *t = &p->tracks[track];
    if (t->count && t->runs[t->count - 1].node == stack && t->runs[t->count - 1].count < UINT32_MAX) {
        t->runs[t->count - 1].count++;
    } else {
        if (p->run_total >= p->run_most)
            put_together(p);
        if (!grow((void **)&t->runs, t->count, &t->cap, sizeof *t->runs))
            return AL_E_NOMEM;
        t->runs[t->count++] = (struct al_profile_run){stack, 1};
        p->run_total++;
    }
    p->nodes[stack].count++;
    p->samples++;
    return 0;
}

uint64_t al_profile_samples(const struct al_profile *p) {
    return p->samples;
}

uint32_t al_profile_tracks(const struct al_profile *p) {
    return p->track_count;
}
