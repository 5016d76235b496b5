// SPDX-License-Identifier: Apache-2.0
// github.com/google/pprof's proto/profile.proto. A location is a frame, a function all frames of its name and file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/gzip.h"
#include "base/pb.h"
#include "export/profile_parts.h"

enum { // fields of a Profile
    SAMPLE_TYPE = 1, SAMPLE, MAPPING, LOCATION, FUNCTION, STRINGS, TIME = 9, DURATION, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_TYPE
};
// Strings that stand first in the table, in this order.
enum {
    S_EMPTY, S_SAMPLES, S_COUNT, S_WALL, S_NANOSECONDS, S_THREAD, S_TID, S_PID, S_RANK, S_PROCESS, S_STATE, S_STATES,
    S_FIRST = S_STATES + AL_PROFILE_STATES
};
static const char *const fixed[] = {"", "samples", "count", "wall", "nanoseconds", "thread", "thread_id", "pid", "rank", "process",
                                    "state", "running", "holds the GIL", "waits for the GIL", "idle"};
_Static_assert(sizeof fixed / sizeof *fixed == S_FIRST, "a name for each");

struct pprof {
    struct al_buf out, strings;
    const struct al_profile *p;
    uint64_t string_count;
    double sample_ns;
};

static uint64_t add_string(struct pprof *w, const char *text) {
    if (*text)
        al_pb_string(&w->strings, STRINGS, text);
    else
        al_pb_close(&w->strings, al_pb_open(&w->strings, STRINGS)); // an empty one has its place too
    return w->string_count++;
}

static void put_type(struct pprof *w, uint32_t field, uint64_t type, uint64_t unit) {
    size_t at = al_pb_open(&w->out, field);
    al_pb_uint(&w->out, 1, type);
    al_pb_uint(&w->out, 2, unit);
    al_pb_close(&w->out, at);
}

static const char *file_of(const struct al_profile_frame *f) {
    return *f->file ? f->file : f->object;
}

static int by_object(const void *a, const void *b, void *arg) {
    const struct al_profile_frame *frames = arg, *x = &frames[*(const uint32_t *)a], *y = &frames[*(const uint32_t *)b];
    int order = strcmp(x->object, y->object);
    order = order ? order : strcmp(x->file, y->file);
    order = order ? order : strcmp(x->name, y->name);
    return order ? order : (x->first_line > y->first_line) - (x->first_line < y->first_line);
}

static void put_mapping(struct pprof *w, uint64_t id, uint64_t file) {
    size_t at = al_pb_open(&w->out, MAPPING);
    al_pb_uint(&w->out, 1, id);
    al_pb_uint(&w->out, 5, file);
    for (uint32_t has = 7; has <= 9; has++) // its functions, files and lines are in here: nothing is left to look up
        al_pb_uint(&w->out, has, 1);
    al_pb_close(&w->out, at);
}

static void put_location(struct pprof *w, uint32_t frame, uint64_t mapping, uint64_t function) {
    size_t at = al_pb_open(&w->out, LOCATION);
    al_pb_uint(&w->out, 1, (uint64_t)frame + 1);
    if (mapping)
        al_pb_uint(&w->out, 2, mapping);
    size_t line = al_pb_open(&w->out, 4);
    al_pb_uint(&w->out, 1, function);
    if (w->p->frames[frame].line > 0)
        al_pb_uint(&w->out, 2, (uint64_t)w->p->frames[frame].line);
    al_pb_close(&w->out, line);
    al_pb_close(&w->out, at);
}

// Sorted, so that each file, object and function is written once.
static int put_frames(struct pprof *w) {
    uint32_t count = w->p->frame_count;
    uint64_t mapping = 0, function = 0, file = 0;
    const struct al_profile_frame *frames = w->p->frames, *last = NULL;
    uint32_t *order = malloc((count + 1) * sizeof *order);
    if (!order)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, by_object, (void *)frames);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_profile_frame *f = &frames[order[i]];
        if (*f->object && (!last || strcmp(last->object, f->object) != 0))
            put_mapping(w, ++mapping, add_string(w, f->object));
        bool same_file = last && strcmp(file_of(last), file_of(f)) == 0;
        if (!same_file)
            file = *file_of(f) ? add_string(w, file_of(f)) : S_EMPTY;
        if (!same_file || strcmp(last->object, f->object) != 0 || strcmp(last->name, f->name) != 0 ||
            last->first_line != f->first_line) {
            // Without a system_name: pprof would take "<module>" for a template that it may cut.
            uint64_t name = add_string(w, *f->name ? f->name : "?");
            size_t at = al_pb_open(&w->out, FUNCTION);
            al_pb_uint(&w->out, 1, ++function);
            al_pb_uint(&w->out, 2, name);
            al_pb_uint(&w->out, 4, file);
            if (f->first_line > 0)
                al_pb_uint(&w->out, 5, (uint64_t)f->first_line);
            al_pb_close(&w->out, at);
        }
        put_location(w, order[i], *f->object ? mapping : 0, function);
        last = f;
    }
    free(order);
    return 0;
}

static void put_label(struct al_buf *b, uint64_t key, uint64_t text) {
    size_t at = al_pb_open(b, 3);
    al_pb_uint(b, 1, key);
    al_pb_uint(b, 2, text);
    al_pb_close(b, at);
}

// Labels are texts: readers take a number 0 for none, and write units behind others.
static uint64_t add_number(struct pprof *w, int32_t number) {
    char text[16];
    (void)snprintf(text, sizeof text, "%d", (int)number);
    return add_string(w, text);
}

static void put_sample(struct pprof *w, const struct al_profile_run *run, const uint64_t labels[5]) {
    size_t at = al_pb_open(&w->out, SAMPLE);
    for (uint32_t node = run->node; node != AL_PROFILE_NONE; node = w->p->nodes[node].parent)
        al_pb_uint(&w->out, 1, (uint64_t)w->p->nodes[node].frame + 1); // the leaf comes first
    al_pb_uint(&w->out, 2, run->count);
    al_pb_uint(&w->out, 2, (uint64_t)(run->count * w->sample_ns + 0.5));
    for (uint64_t i = 0; i < 5; i++)
        if (labels[i])
            put_label(&w->out, S_THREAD + i, labels[i]);
    put_label(&w->out, S_STATE, S_STATES + run->state);
    al_pb_close(&w->out, at);
}

static int put_track(struct pprof *w, const struct al_profile_track *t) {
    struct al_profile_run *runs;
    uint32_t count;
    if (al_profile_sums(t, &runs, &count))
        return AL_E_NOMEM;
    // In the order of S_THREAD and on.
    const uint64_t labels[5] = {add_string(w, t->who.thread), add_number(w, t->who.tid), add_number(w, t->who.pid),
                                t->who.rank >= 0 ? add_number(w, t->who.rank) : 0, add_string(w, t->who.process)};
    for (uint32_t i = 0; i < count; i++)
        put_sample(w, &runs[i], labels);
    free(runs);
    return 0;
}

static void put_about(struct pprof *w, const struct al_profile_about *about) {
    struct al_buf *b = &w->out;
    if (about->start_ns > 0)
        al_pb_uint(b, TIME, (uint64_t)about->start_ns);
    al_pb_uint(b, DURATION, (uint64_t)(about->seconds * 1e9));
    put_type(w, PERIOD_TYPE, S_WALL, S_NANOSECONDS);
    al_pb_uint(b, PERIOD, (uint64_t)(1e9 / about->rate + 0.5));
    if (*about->exporter)
        al_pb_uint(b, COMMENT, add_string(w, about->exporter));
    if (*about->command)
        al_pb_uint(b, COMMENT, add_string(w, about->command));
    al_pb_uint(b, DEFAULT_TYPE, S_WALL);
}

int al_pprof(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    struct pprof w = {.p = p, .sample_ns = 1e9 * al_profile_sample_seconds(about)};
    for (uint32_t i = 0; i < S_FIRST; i++)
        (void)add_string(&w, fixed[i]);
    put_type(&w, SAMPLE_TYPE, S_SAMPLES, S_COUNT);
    put_type(&w, SAMPLE_TYPE, S_WALL, S_NANOSECONDS);
    int result = put_frames(&w);
    for (uint32_t i = 0; i < p->track_count && !result; i++)
        if (p->tracks[i].count)
            result = put_track(&w, &p->tracks[i]);
    put_about(&w, about);
    al_buf_add(&w.out, w.strings.data ? w.strings.data : "", w.strings.len);
    w.out.failed |= w.strings.failed;
    (void)al_gzip(&w.out); // without zlib as it is: readers take both
    if (!w.out.failed && !result)
        al_buf_add(b, w.out.data, w.out.len);
    result = result ? result : w.out.failed || b->failed ? AL_E_NOMEM : 0;
    al_buf_free(&w.out);
    al_buf_free(&w.strings);
    return result;
}
