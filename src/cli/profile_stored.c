// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/err.h"
#include "base/str.h"
#include "export/jsonl.h"
#include "export/profile_parts.h"

#define DEPTH_MOST 100000u // of a stack: far beyond what any walk gives

int al_profile_recording(const char *path, int64_t start_realtime_ns, bool *ret_fresh, struct al_store_error *reterr) {
    const struct al_store_options o = {.path = path, .version = AL_VERSION};
    struct al_store *there = NULL;
    struct al_sink *sink = NULL;
    struct stat st;
    char start[32];
    *ret_fresh = false;
    if (lstat(path, &st) == 0) {
        int result = al_store_open(path, &there, reterr);
        al_store_free(there);
        return result;
    }
    int result = al_store_writer(&o, &sink, reterr);
    if (result)
        return result;
    *ret_fresh = true;
    (void)snprintf(start, sizeof start, "%lld", (long long)start_realtime_ns);
    result = al_store_note_meta(sink, "start_realtime_ns", start);
    int closed = al_store_close(sink, reterr);
    return result ? result : closed;
}

// --- into one ---

static void give_frame(void *user, uint32_t i, struct al_store_frame *ret) {
    const struct al_profile_frame *f = &((const struct al_profile *)user)->frames[i];
    *ret = (struct al_store_frame){f->name, f->file, f->object, f->line, f->first_line, f->kind};
}

static void give_stack(void *user, uint32_t i, struct al_store_stack *ret) {
    const struct al_profile_node *n = &((const struct al_profile *)user)->nodes[i];
    *ret = (struct al_store_stack){n->parent == AL_PROFILE_NONE ? AL_STORE_NO_STACK : n->parent, n->frame, n->count};
}

static int give_track(void *user, uint32_t i, struct al_store_track *ret, struct al_store_run **ret_free) {
    const struct al_profile_track *t = &((const struct al_profile *)user)->tracks[i];
    struct al_store_run *runs = malloc((t->count ? t->count : 1) * sizeof *runs);
    if (!runs)
        return AL_E_NOMEM;
    for (uint32_t r = 0; r < t->count; r++)
        runs[r] = (struct al_store_run){t->runs[r].node, t->runs[r].tick, t->runs[r].count, t->runs[r].state};
    *ret = (struct al_store_track){.process = t->who.process, .thread = t->who.thread, .pid = t->who.pid, .tid = t->who.tid,
                                   .rank = t->who.rank, .runs = runs, .run_count = t->count};
    *ret_free = runs;
    return 0;
}

int al_profile_store(const struct al_profile *p, const struct al_profile_about *about, const char *path, struct al_store_error *reterr) {
    const struct al_store_profile head = {
        .start_realtime_ns = about->start_ns, .seconds = about->seconds, .rate = about->rate, .pid = about->pid,
        .processes = about->processes, .samples = p->samples, .ticks = about->ticks, .late = about->late, .failed = about->failed,
        .stacks = about->stacks, .unstable = about->unstable, .unreadable = about->unreadable, .truncated = about->truncated,
        .idle = about->idle, .gil = about->gil, .by_function = about->by_function, .disordered = p->disordered,
        .name = about->name, .command = about->command, .version = AL_VERSION};
    const struct al_store_profile_parts parts = {.frames = p->frame_count, .stacks = p->node_count, .tracks = p->track_count,
                                                 .frame = give_frame, .stack = give_stack, .track = give_track, .user = (void *)p};
    int64_t id;
    return al_store_add_profile(path, &head, &parts, &id, reterr);
}

// --- out of one ---

struct load {
    struct al_profile *p;
    struct al_redact *redact;
    uint32_t *frames, *nodes; // numbers here by numbers there: what was told apart by a folder need not be any more
    uint32_t frame_count, frame_cap, node_count, node_cap;
};

static int remember(uint32_t **list, uint32_t *count, uint32_t *cap, uint32_t number) {
    if (number == AL_PROFILE_NONE)
        return AL_E_NOMEM;
    if (*count == *cap) {
        uint32_t more = *cap ? *cap * 2 : 256;
        uint32_t *larger = realloc(*list, more * sizeof *larger);
        if (!larger)
            return AL_E_NOMEM;
        *list = larger;
        *cap = more;
    }
    (*list)[(*count)++] = number;
    return 0;
}

// Texts are as long as anyone made them: what is redacted is cut to the room.
static const char *cleaned(const struct load *l, const char *text, char *room, size_t size) {
    if (!l->redact)
        return text;
    (void)al_str_copy(room, size, text);
    al_redact_text(l->redact, room, size);
    return room;
}

static int take_frame(void *user, const struct al_store_frame *f) {
    struct load *l = user;
    char name[1024], file[1024], object[1024];
    enum al_profile_kind kind = f->kind <= AL_PROFILE_MARK ? (enum al_profile_kind)f->kind : AL_PROFILE_MARK;
    uint32_t number = al_profile_frame_of(l->p, kind, cleaned(l, f->name, name, sizeof name), cleaned(l, f->file, file, sizeof file),
                                          cleaned(l, f->object, object, sizeof object), f->line);
    if (number != AL_PROFILE_NONE)
        al_profile_first_line(l->p, number, f->first_line);
    return remember(&l->frames, &l->frame_count, &l->frame_cap, number);
}

static int take_stack(void *user, const struct al_store_stack *s) {
    struct load *l = user;
    uint32_t parent = s->parent == AL_STORE_NO_STACK ? AL_PROFILE_NONE : l->nodes[s->parent];
    if (parent != AL_PROFILE_NONE && l->p->nodes[parent].depth >= DEPTH_MOST)
        return AL_E_FORMAT;
    return remember(&l->nodes, &l->node_count, &l->node_cap, al_profile_stack(l->p, parent, l->frames[s->frame]));
}

static int take_track(void *user, const struct al_store_track *t) {
    struct load *l = user;
    char process[320], thread[320];
    const struct al_profile_who who = {t->pid, t->tid, t->rank, cleaned(l, t->process, process, sizeof process),
                                       cleaned(l, t->thread, thread, sizeof thread)};
    uint32_t track = al_profile_track(l->p, &who);
    int result = track == AL_PROFILE_NONE ? AL_E_NOMEM : 0;
    for (uint32_t i = 0; i < t->run_count && !result; i++) {
        const struct al_store_run *r = &t->runs[i];
        enum al_profile_state state = r->state < AL_PROFILE_STATES ? (enum al_profile_state)r->state : AL_PROFILE_RUNNING;
        result = al_profile_add_run(l->p, track, l->nodes[r->stack], r->tick, r->count, state);
    }
    return result;
}

int al_profile_load(struct al_store *s, int64_t id, struct al_redact *redact, struct al_profile **ret, struct al_store_error *reterr) {
    struct load l = {.p = al_profile_new(), .redact = redact};
    const struct al_store_profile_reader reader = {take_frame, take_stack, take_track, &l};
    int result = l.p ? al_store_read_profile(s, id, &reader, reterr) : AL_E_NOMEM;
    free(l.frames);
    free(l.nodes);
    if (result) {
        if (!*reterr->text)
            (void)snprintf(reterr->text, sizeof reterr->text, "profile %lld: %s", (long long)id, al_error_text(result));
        al_profile_free(l.p);
        return result;
    }
    *ret = l.p;
    return 0;
}

struct al_profile_about al_profile_stored_about(const struct al_store_profile *p, char *name, size_t size) {
    (void)snprintf(name, size, "alula %s", p->version);
    return (struct al_profile_about){
        .name = p->name, .command = p->command, .exporter = name, .rate = p->rate, .seconds = p->seconds,
        .start_ns = p->start_realtime_ns > 0 ? p->start_realtime_ns : 0, .pid = p->pid, .processes = p->processes, .ticks = p->ticks,
        .late = p->late, .failed = p->failed, .stacks = p->stacks, .unstable = p->unstable, .unreadable = p->unreadable,
        .truncated = p->truncated, .idle = p->idle, .gil = p->gil, .by_function = p->by_function};
}

// --- lists and copies ---

// The frame in which most samples ended.
static void put_most(struct al_buf *b, const struct al_profile *p) {
    uint64_t *sums = calloc(p->frame_count ? p->frame_count : 1, sizeof *sums);
    uint32_t most = 0;
    for (uint32_t i = 0; sums && i < p->node_count; i++)
        sums[p->nodes[i].frame] += p->nodes[i].count;
    for (uint32_t i = 0; sums && i < p->frame_count; i++)
        most = sums[i] > sums[most] ? i : most;
    if (sums && p->samples && p->frame_count) {
        const struct al_profile_frame *f = &p->frames[most];
        al_buf_printf(b, "; most, %.0f %%, in ", 100.0 * (double)sums[most] / (double)p->samples);
        al_term_string(b, f->name);
        if (*f->file) {
            al_buf_str(b, " (");
            al_term_string(b, f->file);
            al_buf_printf(b, f->line > 0 ? ":%d)" : ")", (int)f->line);
        }
    }
    free(sums);
}

void al_profile_line(struct al_buf *b, struct al_store *s, const struct al_store_profile *p) {
    struct al_buf time = AL_BUF_INIT;
    struct al_profile *loaded = NULL;
    struct al_store_error e = {{0}};
    al_buf_printf(b, "%lld  ", (long long)p->id);
    al_jsonl_time(&time, p->start_realtime_ns);
    if (time.len > 20) // "2026-11-29T12:00:00.000Z" in quotes: the second is enough here
        al_buf_printf(b, "%.10s %.8s", time.data + 1, time.data + 12);
    al_buf_free(&time);
    al_buf_printf(b, "  %.1f s at %g/s of ", p->seconds, p->rate);
    al_term_string(b, p->name);
    if (p->processes > 1)
        al_buf_printf(b, " and its job, %u processes", (unsigned)p->processes);
    if (*p->command) {
        al_buf_str(b, " (");
        al_term_string(b, p->command);
        al_buf_char(b, ')');
    }
    al_buf_printf(b, ": %llu stacks", (unsigned long long)p->samples);
    if (al_profile_load(s, p->id, NULL, &loaded, &e) == 0)
        put_most(b, loaded);
    else
        al_buf_printf(b, "; %s", e.text);
    al_profile_free(loaded);
    al_buf_char(b, '\n');
}

struct copy {
    struct al_store *s;
    const char *path;
    int64_t from_ns, to_ns;
    struct al_redact *redact;
    struct al_store_error *e;
};

static int copy_one(void *user, const struct al_store_profile *p) {
    struct copy *c = user;
    struct al_profile *loaded = NULL;
    char exporter[64];
    if (p->start_realtime_ns < c->from_ns || p->start_realtime_ns > c->to_ns)
        return 0;
    struct al_profile_about about = al_profile_stored_about(p, exporter, sizeof exporter);
    if (c->redact)
        about.command = "";
    int result = al_profile_load(c->s, p->id, c->redact, &loaded, c->e);
    if (!result)
        result = al_profile_store(loaded, &about, c->path, c->e);
    al_profile_free(loaded);
    return result;
}

int al_profile_copy_all(struct al_store *s, const char *path, int64_t from_ns, int64_t to_ns, struct al_redact *redact,
                        struct al_store_error *reterr) {
    struct copy c = {s, path, from_ns, to_ns, redact, reterr};
    return al_store_profiles(s, copy_one, &c);
}
