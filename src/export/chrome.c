// SPDX-License-Identifier: Apache-2.0
// The trace event format of Chromium's "Trace Event Format" document: what a thread ran, as nested spans.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/profile_parts.h"

#define RUNS_MOST (1u << 18)  // viewers hold all events in memory
#define BYTES_MOST (256u << 20)

struct spans {
    struct al_buf *b;
    const struct al_profile *p;
    const struct al_profile_track *track;
    double us; // of a tick
    uint32_t *open, *next, depth;
};

static void event(const struct spans *s, char kind, double ts) {
    al_buf_printf(s->b, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"ts\":", kind, (int)s->track->who.pid, (int)s->track->who.tid);
    al_buf_number(s->b, ts);
}

static void begin(const struct spans *s, const struct al_profile_frame *f, double ts) {
    static const char *const kinds[] = {"python", "native", "mark"};
    event(s, 'B', ts);
    al_buf_printf(s->b, ",\"cat\":\"%s\",\"name\":", kinds[f->kind]);
    al_json_string(s->b, *f->name ? f->name : "?");
    if (*f->file || *f->object) {
        al_buf_str(s->b, ",\"args\":{\"file\":");
        al_json_string(s->b, *f->file ? f->file : f->object);
        if (f->line > 0)
            al_buf_printf(s->b, ",\"line\":%d", (int)f->line);
        al_buf_char(s->b, '}');
    }
    al_buf_char(s->b, '}');
}

// Closes what is open deeper than `keep`. A nanosecond early, since readers differ in what comes first at the same time; and
// by name, which speedscope asks for.
static void end(struct spans *s, uint32_t keep, double ts) {
    for (; s->depth > keep; s->depth--) {
        const struct al_profile_frame *f = &s->p->frames[s->p->nodes[s->open[s->depth - 1]].frame];
        event(s, 'E', ts - 0.001);
        al_buf_str(s->b, ",\"name\":");
        al_json_string(s->b, *f->name ? f->name : "?");
        al_buf_char(s->b, '}');
    }
}

// Frames that two samples after one another share go on: sampling does not tell whether they returned between.
static void put_track(struct spans *s, uint32_t every) {
    struct al_profile_thinned i = {0};
    uint64_t at = 0, until = 0;
    while (al_profile_thin(s->track, every, &i) && !s->b->failed) {
        at = s->p->disordered ? until : i.run.tick;
        if (at != until)
            end(s, 0, (double)until * s->us);
        uint32_t depth = al_profile_walk(s->p, i.run.node, s->next), same = 0;
        while (same < depth && same < s->depth && s->next[same] == s->open[same])
            same++;
        end(s, same, (double)at * s->us);
        for (; s->depth < depth; s->depth++)
            begin(s, &s->p->frames[s->p->nodes[s->next[s->depth]].frame], (double)at * s->us);
        uint32_t *swap = s->open;
        s->open = s->next;
        s->next = swap;
        until = at + i.run.count;
    }
    end(s, 0, (double)until * s->us);
}

static void put_name(struct al_buf *b, const char *what, const struct al_profile_who *who, const char *name, bool thread) {
    const char *comma = b->failed || b->data[b->len - 1] == '[' ? "" : ",";
    al_buf_printf(b, "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", comma, what,
                  (int)who->pid, thread ? (int)who->tid : 0);
    al_json_string(b, name);
    al_buf_str(b, "}}");
}

static void put_names(struct al_buf *b, const struct al_profile *p) {
    int32_t pid = -1;
    for (uint32_t i = 0; i < p->track_count; i++) {
        const struct al_profile_who *who = &p->tracks[i].who;
        if (who->pid != pid)
            put_name(b, "process_name", who, who->process, false);
        if (who->pid != pid && who->rank >= 0)
            al_buf_printf(b, ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}",
                          (int)who->pid, (int)who->rank);
        pid = who->pid;
        put_name(b, "thread_name", who, who->thread, true);
    }
}

static void put_about(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about, uint32_t every) {
    al_buf_str(b, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":{\"exporter\":");
    al_json_string(b, about->exporter);
    al_buf_str(b, ",\"command\":");
    al_json_string(b, about->command);
    al_buf_str(b, ",\"samples_a_second\":");
    al_buf_number(b, about->rate);
    if (every > 1) // a bound of the file's size
        al_buf_printf(b, ",\"kept\":\"every %u. sample\"", (unsigned)every);
    if (p->disordered)
        al_buf_str(b, ",\"order\":\"given up for memory: lengths are true, places in time are not\"");
    al_buf_str(b, "}}\n");
}

int al_chrome(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    uint32_t deepest, every = al_profile_thin_to(p, RUNS_MOST);
    struct spans s = {.b = b, .p = p};
    size_t start = b->len;
    if (al_profile_path(p, &s.open, &deepest))
        return AL_E_NOMEM;
    s.next = calloc(deepest + 1, sizeof *s.next);
    for (bool fits = false; !fits && s.next && !b->failed; every *= fits ? 1 : 2) {
        b->len = start;
        s.us = 1e6 * every * (p->disordered ? al_profile_sample_seconds(about) : 1 / about->rate);
        al_buf_str(b, "{\"traceEvents\":[");
        put_names(b, p);
        fits = true;
        for (uint32_t i = 0; i < p->track_count && fits; i++) {
            s.track = &p->tracks[i];
            put_track(&s, every);
            fits = b->len - start <= BYTES_MOST || every >= 1u << 20;
        }
        if (fits)
            put_about(b, p, about, every);
    }
    bool failed = !s.next || b->failed;
    free(s.open);
    free(s.next);
    return failed ? AL_E_NOMEM : 0;
}
