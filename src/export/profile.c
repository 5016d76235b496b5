// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "export/profile_parts.h"

// Runs that are kept in their order (72 MiB); beyond, equal stacks of a thread are put together.
#define RUNS_MOST (6u << 20)
#define NODES_MOST (2u << 20)   // 80 MiB with their index, twice that when each has a rest
#define FRAMES_MOST (512u << 10) // some 100 MiB
#define INDEX_FIRST 1024u

bool al_profile_grow(void **list, uint32_t count, uint32_t *cap, size_t size) {
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

static uint64_t frame_hash(const struct al_profile_frame *f) {
    uint64_t h = text_hash(text_hash(text_hash(0xcbf29ce484222325ULL, f->name), f->file), f->object);
    return mix(mix(h, (uint32_t)f->line), f->kind);
}

static bool frame_equal(const struct al_profile_frame *a, const struct al_profile_frame *b) {
    return a->line == b->line && a->kind == b->kind && strcmp(a->name, b->name) == 0 && strcmp(a->file, b->file) == 0 &&
           strcmp(a->object, b->object) == 0;
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
    return frames ? frame_hash(&p->frames[i]) : node_hash(p->nodes[i].parent, p->nodes[i].frame);
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
    if (p) {
        p->run_most = RUNS_MOST;
        p->frame_most = FRAMES_MOST;
        p->node_most = NODES_MOST;
        p->rest = AL_PROFILE_NONE;
    }
    return p;
}

void al_profile_free(struct al_profile *p) {
    if (!p)
        return;
    for (uint32_t i = 0; i < p->frame_count; i++)
        free(p->frames[i].name);
    for (uint32_t i = 0; i < p->track_count; i++) {
        free((char *)p->tracks[i].who.process);
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
    return al_profile_frame_of(p, AL_PROFILE_PYTHON, name, file, "", line);
}

static uint32_t find_frame(struct al_profile *p, const struct al_profile_frame *wanted, uint64_t hash) {
    for (uint32_t at = slot_of(&p->by_frame, hash), i; (i = p->by_frame.slots[at]); at = (at + 1) & (p->by_frame.size - 1))
        if (frame_equal(&p->frames[i - 1], wanted))
            return i - 1;
    return AL_PROFILE_NONE;
}

static uint32_t rest_frame(struct al_profile *p) {
    if (p->rest == AL_PROFILE_NONE) {
        if (p->frame_most < UINT32_MAX)
            p->frame_most++; // it has its place in any case
        p->rest = al_profile_frame_of(p, AL_PROFILE_MARK, "[further stacks]", "", "", 0);
    }
    return p->rest;
}

uint32_t al_profile_frame_of(struct al_profile *p, enum al_profile_kind kind, const char *name, const char *file,
                             const char *object, int32_t line) {
    const struct al_profile_frame wanted = {(char *)name, (char *)file, (char *)object, line, 0, (uint8_t)kind};
    uint64_t hash = frame_hash(&wanted);
    if (!room(p, &p->by_frame))
        return AL_PROFILE_NONE;
    uint32_t known = find_frame(p, &wanted, hash);
    if (known != AL_PROFILE_NONE)
        return known;
    if (p->frame_count >= p->frame_most)
        return rest_frame(p);
    size_t name_size = strlen(name) + 1, file_size = strlen(file) + 1, object_size = strlen(object) + 1;
    char *text = malloc(name_size + file_size + object_size);
    if (!text || !al_profile_grow((void **)&p->frames, p->frame_count, &p->frame_cap, sizeof *p->frames)) {
        free(text);
        return AL_PROFILE_NONE;
    }
    struct al_profile_frame *f = &p->frames[p->frame_count];
    *f = (struct al_profile_frame){.name = text, .line = line, .kind = (uint8_t)kind};
    f->file = f->name + name_size;
    f->object = f->file + file_size;
    memcpy(f->name, name, name_size);
    memcpy(f->file, file, file_size);
    memcpy(f->object, object, object_size);
    put(&p->by_frame, hash, p->frame_count);
    return p->frame_count++;
}

void al_profile_first_line(struct al_profile *p, uint32_t frame, int32_t line) {
    if (frame != p->rest)
        p->frames[frame].first_line = line;
}

uint32_t al_profile_stack(struct al_profile *p, uint32_t parent, uint32_t frame) {
    uint64_t hash = node_hash(parent, frame);
    if (p->rest != AL_PROFILE_NONE && parent != AL_PROFILE_NONE && p->nodes[parent].frame == p->rest)
        return parent;
    if (!room(p, &p->by_node))
        return AL_PROFILE_NONE;
    for (uint32_t at = slot_of(&p->by_node, hash), i; (i = p->by_node.slots[at]); at = (at + 1) & (p->by_node.size - 1))
        if (p->nodes[i - 1].parent == parent && p->nodes[i - 1].frame == frame)
            return i - 1;
    if (p->node_count >= p->node_most && frame != rest_frame(p))
        return p->rest == AL_PROFILE_NONE ? p->rest : al_profile_stack(p, parent, p->rest);
    if (!al_profile_grow((void **)&p->nodes, p->node_count, &p->node_cap, sizeof *p->nodes))
        return AL_PROFILE_NONE;
    uint32_t depth = parent == AL_PROFILE_NONE ? 1 : p->nodes[parent].depth + 1;
    p->nodes[p->node_count] = (struct al_profile_node){parent, frame, depth, 0};
    put(&p->by_node, hash, p->node_count);
    return p->node_count++;
}

uint32_t al_profile_track(struct al_profile *p, const struct al_profile_who *who) {
    size_t process = strlen(who->process) + 1, thread = strlen(who->thread) + 1;
    char *text = malloc(process + thread);
    if (!text || !al_profile_grow((void **)&p->tracks, p->track_count, &p->track_cap, sizeof *p->tracks)) {
        free(text);
        return AL_PROFILE_NONE;
    }
    memcpy(text, who->process, process);
    memcpy(text + process, who->thread, thread);
    struct al_profile_track *t = &p->tracks[p->track_count];
    *t = (struct al_profile_track){.who = *who};
    t->who.process = text;
    t->who.thread = text + process;
    return p->track_count++;
}

int al_profile_rename(struct al_profile *p, uint32_t track, const char *thread) {
    struct al_profile_who *who = &p->tracks[track].who;
    if (strcmp(who->thread, thread) == 0)
        return 0;
    size_t process_size = strlen(who->process) + 1, size = strlen(thread) + 1;
    char *text = malloc(process_size + size);
    if (!text)
        return AL_E_NOMEM;
    memcpy(text, who->process, process_size);
    memcpy(text + process_size, thread, size);
    free((char *)who->process);
    who->process = text;
    who->thread = text + process_size;
    return 0;
}

static int by_node(const void *a, const void *b) {
    const struct al_profile_run *x = a, *y = b;
    return x->node != y->node ? (x->node < y->node ? -1 : 1) : (x->state > y->state) - (x->state < y->state);
}

// Sorts and joins; how many are left.
static uint32_t join(struct al_profile_run *runs, uint32_t count) {
    uint32_t kept = 0;
    if (count)
        qsort(runs, count, sizeof *runs, by_node);
    for (uint32_t i = 0; i < count; i++) {
        struct al_profile_run *last = kept ? &runs[kept - 1] : NULL, run = runs[i];
        run.tick = 0;
        if (last && by_node(last, &run) == 0 && run.count <= AL_PROFILE_RUN_MOST - last->count)
            last->count = (last->count + run.count) & AL_PROFILE_RUN_MOST;
        else
            runs[kept++] = run;
    }
    return kept;
}

// The order of time is given up for memory.
static void put_together(struct al_profile *p) {
    p->run_total = 0;
    p->disordered = true;
    for (uint32_t t = 0; t < p->track_count; t++) {
        p->tracks[t].count = join(p->tracks[t].runs, p->tracks[t].count);
        p->run_total += p->tracks[t].count;
    }
    if (p->run_total > p->run_most / 2) // they differ: order costs no more than they do
        p->run_most *= 2;
}

int al_profile_add_run(struct al_profile *p, uint32_t track, uint32_t stack, uint32_t tick, uint32_t count, enum al_profile_state state) {
    struct al_profile_track *t = &p->tracks[track];
    if (t->count && tick < t->runs[t->count - 1].tick)
        p->disordered = true;
    for (uint32_t done = 0, part; done < count; done += part) {
        part = count - done < AL_PROFILE_RUN_MOST ? count - done : AL_PROFILE_RUN_MOST;
        if (p->run_total >= p->run_most)
            put_together(p);
        if (!al_profile_grow((void **)&t->runs, t->count, &t->cap, sizeof *t->runs) || !t->runs)
            return AL_E_NOMEM;
        t->runs[t->count++] = (struct al_profile_run){stack, tick + done, part & AL_PROFILE_RUN_MOST, (uint32_t)state & 7};
        p->run_total++;
    }
    p->nodes[stack].count += count;
    p->samples += count;
    return 0;
}

int al_profile_add(struct al_profile *p, uint32_t track, uint32_t stack, uint32_t tick, enum al_profile_state state) {
    struct al_profile_track *t = &p->tracks[track];
    struct al_profile_run *last = t->count ? &t->runs[t->count - 1] : NULL;
    if (last && last->node == stack && last->state == state && last->count < AL_PROFILE_RUN_MOST &&
        (p->disordered || last->tick + last->count == tick)) {
        last->count = (last->count + 1) & AL_PROFILE_RUN_MOST;
    } else {
        if (p->run_total >= p->run_most)
            put_together(p);
        if (!al_profile_grow((void **)&t->runs, t->count, &t->cap, sizeof *t->runs) || !t->runs)
            return AL_E_NOMEM;
        t->runs[t->count++] = (struct al_profile_run){stack, tick, 1, (uint32_t)state & 7};
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

uint64_t al_profile_further(const struct al_profile *p) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->node_count && p->rest != AL_PROFILE_NONE; i++)
        sum += p->nodes[i].frame == p->rest ? p->nodes[i].count : 0;
    return sum;
}

double al_profile_sample_seconds(const struct al_profile_about *about) {
    return about->ticks && about->seconds > 0 ? about->seconds / (double)about->ticks : 1 / about->rate;
}

int al_profile_sums(const struct al_profile_track *t, struct al_profile_run **ret, uint32_t *ret_count) {
    struct al_profile_run *runs = malloc((t->count + 1) * sizeof *runs);
    if (!runs)
        return AL_E_NOMEM;
    if (t->count)
        memcpy(runs, t->runs, t->count * sizeof *runs);
    *ret = runs;
    *ret_count = join(runs, t->count);
    return 0;
}

void al_profile_put_who(struct al_buf *b, const struct al_profile_who *who) {
    al_buf_str(b, who->process);
    al_buf_printf(b, "%sthread %d %s", *who->process ? ", " : "", (int)who->tid, who->thread);
}

int al_profile_path(const struct al_profile *p, uint32_t **ret_path, uint32_t *ret_depth) {
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        deepest = p->nodes[i].depth > deepest ? p->nodes[i].depth : deepest;
    *ret_path = malloc((deepest + 1) * sizeof **ret_path);
    *ret_depth = deepest;
    return *ret_path ? 0 : AL_E_NOMEM;
}

uint32_t al_profile_walk(const struct al_profile *p, uint32_t node, uint32_t *path) {
    uint32_t depth = p->nodes[node].depth;
    for (uint32_t at = node, d = depth; d > 0; at = p->nodes[at].parent)
        path[--d] = at;
    return depth;
}

bool al_profile_thin(const struct al_profile_track *t, uint32_t every, struct al_profile_thinned *i) {
    while (i->at < t->count) {
        struct al_profile_run run = t->runs[i->at++];
        uint64_t first = ((uint64_t)run.tick + every - 1) / every;
        uint64_t end = ((uint64_t)run.tick + run.count + every - 1) / every;
        if (end == first)
            continue;
        run.tick = (uint32_t)first;
        run.count = (uint32_t)(end - first) & AL_PROFILE_RUN_MOST;
        i->run = run;
        return true;
    }
    return false;
}

uint32_t al_profile_thin_to(const struct al_profile *p, uint64_t most) {
    uint32_t every = 1;
    for (uint64_t left = p->run_total; left > most && every < 1u << 30;) {
        every *= 2;
        left = 0;
        for (uint32_t t = 0; t < p->track_count; t++) {
            struct al_profile_thinned i = {0};
            while (al_profile_thin(&p->tracks[t], every, &i))
                left++;
        }
    }
    return every;
}
