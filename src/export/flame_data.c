// SPDX-License-Identifier: Apache-2.0
// What a flame graph's page holds as JSON; flame.js reads it.
#include "export/flame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

static bool unwanted(const unsigned char *t, size_t len) {
    unsigned c = t[0];
    if (len == 1)
        return c < 0x20 || c == 0x7f;
    if (len == 2)
        return (c == 0xc2 && t[1] < 0xa0) || (c == 0xd8 && t[1] == 0x9c); // C1; U+061C
    if (len != 3)
        return false;
    unsigned tail = (unsigned)t[1] << 8 | t[2];
    // U+200E, 200F, 2028 to 202E, 2066 to 2069: lines and directions; U+FEFF, FFFE, FFFF: no text.
    return (c == 0xe2 && (tail == 0x808e || tail == 0x808f || (tail >= 0x80a8 && tail <= 0x80ae) || (tail >= 0x81a6 && tail <= 0x81a9))) ||
           (c == 0xef && (tail == 0xbbbf || tail >= 0xbfbe));
}

void al_flame_text(char *out, size_t size, const char *text) {
    static const char cut[] = "\xe2\x80\xa6"; // ...
    size_t left = strlen(text), at = 0;
    const unsigned char *t = (const unsigned char *)text;
    for (size_t n; left; t += n, left -= n) {
        size_t len = al_utf8_len(t, left);
        n = len ? len : 1;
        if (at + n + sizeof cut > size) {
            memcpy(out + at, cut, sizeof cut - 1);
            at += sizeof cut - 1;
            break;
        }
        if (!len || unwanted(t, len)) {
            out[at++] = '?';
            continue;
        }
        memcpy(out + at, t, n);
        at += n;
    }
    out[at] = '\0';
}

static void put_text(struct al_buf *b, const char *text) {
    char clean[AL_FLAME_TEXT];
    al_flame_text(clean, sizeof clean, text);
    al_json_string(b, clean);
}

uint64_t *al_flame_totals(const struct al_profile *p) {
    uint64_t *totals = calloc(p->node_count + 1u, sizeof *totals);
    for (uint32_t i = p->node_count; totals && i-- > 0;) { // children lie behind their parents
        totals[i] += p->nodes[i].count;
        if (p->nodes[i].parent != AL_PROFILE_NONE)
            totals[p->nodes[i].parent] += totals[i];
    }
    return totals;
}

struct data {
    struct al_buf *b;
    const struct al_profile *p;
    uint32_t *node; // of the profile: its number in the file
    uint64_t rare;  // samples whose stacks are not shown in full
    uint32_t every; // what the page shows over time is every so manieth sample
    bool sums;      // shares come from sums beside the runs
};

static int falling(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

// Those with the largest totals, at most `most`; of equal ones those that were met first. A caller of one that is kept is kept,
// since it has at least its total and lies before it. false: no memory.
static bool choose_kept(const struct al_profile *p, const uint64_t *totals, uint32_t most, bool *kept) {
    uint32_t equal = p->node_count; // of those with just `least`, how many find room
    uint64_t *sorted = malloc((p->node_count + 1u) * sizeof *sorted), least = 0;
    if (!sorted)
        return false;
    memcpy(sorted, totals, p->node_count * sizeof *sorted);
    if (p->node_count > most) {
        qsort(sorted, p->node_count, sizeof *sorted, falling);
        least = sorted[most];
        for (equal = most; equal && sorted[most - equal] > least;)
            equal--;
    }
    for (uint32_t i = 0; i < p->node_count; i++) {
        uint32_t parent = p->nodes[i].parent;
        kept[i] = totals[i] > least || (totals[i] == least && equal && (parent == AL_PROFILE_NONE || kept[parent]));
        equal -= kept[i] && totals[i] == least;
    }
    free(sorted);
    return true;
}

// Pairs of parent + 1 and frame. What is too rare becomes one "[rarer stacks]" a caller, whose frame is the last one.
static int put_nodes(struct data *d, uint32_t most) {
    const struct al_profile *p = d->p;
    uint64_t *totals = al_flame_totals(p);
    bool *kept = calloc(p->node_count + 1u, sizeof *kept), ok = totals && kept && choose_kept(p, totals, most, kept);
    uint32_t *rare = calloc(p->node_count + 1u, sizeof *rare), written = 0; // [parent + 1]: its rare child's number + 1
    for (uint32_t i = 0; i < p->node_count && ok && rare; i++) {
        const struct al_profile_node *n = &p->nodes[i];
        uint32_t above = n->parent == AL_PROFILE_NONE ? 0 : n->parent + 1, parent = above ? d->node[n->parent] + 1 : 0;
        if (kept[i]) {
            d->node[i] = written++;
            al_buf_printf(d->b, "%s%u,%u", i ? "," : "", (unsigned)parent, (unsigned)n->frame);
            continue;
        }
        d->rare += n->count;
        if (above && !kept[n->parent]) { // its caller is rare already
            d->node[i] = d->node[n->parent];
            continue;
        }
        if (!rare[above]) {
            rare[above] = ++written;
            al_buf_printf(d->b, "%s%u,%u", i ? "," : "", (unsigned)parent, (unsigned)p->frame_count);
        }
        d->node[i] = rare[above] - 1;
    }
    ok = ok && rare;
    free(totals);
    free(kept);
    free(rare);
    return ok ? 0 : AL_E_NOMEM;
}

static int by_file(const void *a, const void *b, void *arg) {
    const struct al_profile_frame *frames = arg;
    return strcmp(frames[*(const uint32_t *)a].file, frames[*(const uint32_t *)b].file);
}

// Files by number, since many frames share one.
static int put_frames(struct data *d) {
    const struct al_profile *p = d->p;
    uint32_t *order = malloc((p->frame_count + 1u) * sizeof *order), *file = malloc((p->frame_count + 1u) * sizeof *file), files = 0;
    for (uint32_t i = 0; order && i < p->frame_count; i++)
        order[i] = i;
    if (order && file)
        qsort_r(order, p->frame_count, sizeof *order, by_file, p->frames);
    al_buf_str(d->b, ",\n\"files\":[\"\"");
    for (uint32_t i = 0; order && file && i < p->frame_count; i++) {
        const char *name = p->frames[order[i]].file;
        if (*name && (!i || strcmp(name, p->frames[order[i - 1]].file) != 0)) {
            files++;
            al_buf_char(d->b, ',');
            put_text(d->b, name);
        }
        file[order[i]] = *name ? files : 0;
    }
    al_buf_str(d->b, "],\n\"frames\":["); // name, file, line, the function's first line, kind, object
    for (uint32_t i = 0; order && file && i < p->frame_count; i++) {
        const struct al_profile_frame *f = &p->frames[i];
        al_buf_str(d->b, "[");
        put_text(d->b, *f->name ? f->name : "?");
        al_buf_printf(d->b, ",%u,%d,%d,%u,", (unsigned)file[i], (int)f->line, (int)f->first_line, (unsigned)f->kind);
        put_text(d->b, f->object);
        al_buf_str(d->b, "],\n");
    }
    al_buf_printf(d->b, "[\"[rarer stacks]\",0,0,0,%d,\"\"]]", AL_PROFILE_MARK);
    bool failed = !order || !file;
    free(order);
    free(file);
    return failed ? AL_E_NOMEM : 0;
}

static void put_run(struct data *d, bool first, const struct al_profile_run *r) {
    al_buf_printf(d->b, "%s%u,%u,%u,%u", first ? "" : ",", (unsigned)d->node[r->node], (unsigned)r->tick, (unsigned)r->count,
                  (unsigned)r->state);
}

// node, tick, count, state of each run.
static int put_track(struct data *d, const struct al_profile_track *t) {
    struct al_profile_thinned i = {0};
    al_buf_printf(d->b, "{\"pid\":%d,\"tid\":%d,\"rank\":%d,\"process\":", (int)t->who.pid, (int)t->who.tid, (int)t->who.rank);
    put_text(d->b, t->who.process);
    al_buf_str(d->b, ",\"thread\":");
    put_text(d->b, t->who.thread);
    al_buf_str(d->b, ",\"runs\":[");
    if (!d->p->disordered)
        for (bool first = true; al_profile_thin(t, d->every, &i); first = false)
            put_run(d, first, &i.run);
    al_buf_char(d->b, ']');
    if (d->sums) {
        struct al_profile_run *sums;
        uint32_t count;
        if (al_profile_sums(t, &sums, &count))
            return AL_E_NOMEM;
        al_buf_str(d->b, ",\"sums\":[");
        for (uint32_t s = 0; s < count; s++)
            put_run(d, !s, &sums[s]);
        al_buf_char(d->b, ']');
        free(sums);
    }
    al_buf_char(d->b, '}');
    return 0;
}

static void put_number(struct al_buf *b, const char *name, double value) {
    al_buf_printf(b, ",\"%s\":", name);
    al_buf_number(b, value);
}

static void put_about(struct data *d, const struct al_profile_about *about) {
    struct al_buf *b = d->b;
    const struct {
        const char *name, *text;
    } texts[] = {{"name", about->name}, {"command", about->command}, {"exporter", about->exporter}};
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"rate", about->rate},
        {"sample_seconds", al_profile_sample_seconds(about)},
        {"seconds", about->seconds},
        {"start_ms", floor((double)about->start_ns / 1e6)},
        {"processes", about->processes},
        {"ticks", (double)about->ticks},
        {"late", (double)about->late},
        {"stacks", (double)about->stacks},
        {"unstable", (double)about->unstable},
        {"unreadable", (double)about->unreadable},
        {"truncated", (double)about->truncated},
        {"idle", about->idle},
        {"gil", about->gil},
        {"every", d->every},
        {"disordered", d->p->disordered},
        {"rare", (double)d->rare},
    };
    al_buf_printf(b, ",\n\"about\":{\"pid\":%d", (int)about->pid);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        al_buf_printf(b, ",\"%s\":", texts[i].name);
        put_text(b, texts[i].text);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_number(b, numbers[i].name, numbers[i].value);
    al_buf_char(b, '}');
}

// In JSON these stand in strings only, and may be written by their numbers there.
static void put_safe(struct al_buf *b, const struct al_buf *json) {
    size_t from = 0;
    for (size_t i = 0; i < json->len; i++) {
        char c = json->data[i];
        if (c != '<' && c != '>' && c != '&')
            continue;
        al_buf_add(b, json->data + from, i - from);
        al_buf_str(b, c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026");
        from = i + 1;
    }
    al_buf_add(b, json->data + from, json->len - from);
}

int al_flame_data(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about, uint32_t nodes_most,
                  uint32_t runs_most) {
    struct al_buf json = AL_BUF_INIT;
    struct data d = {.b = &json, .p = p, .node = malloc((p->node_count + 1u) * sizeof *d.node), .every = al_profile_thin_to(p, runs_most)};
    d.sums = d.every > 1 || p->disordered;
    al_buf_str(&json, "{\"nodes\":[");
    int result = d.node ? put_nodes(&d, nodes_most) : AL_E_NOMEM;
    al_buf_char(&json, ']');
    result = result ? result : put_frames(&d);
    al_buf_str(&json, ",\n\"tracks\":[");
    for (uint32_t i = 0, written = 0; i < p->track_count && !result; i++) {
        if (!p->tracks[i].count)
            continue;
        al_buf_str(&json, written++ ? ",\n" : "\n");
        result = put_track(&d, &p->tracks[i]);
    }
    al_buf_char(&json, ']');
    put_about(&d, about);
    al_buf_str(&json, "}\n");
    if (!result && !json.failed)
        put_safe(b, &json);
    result = result ? result : json.failed || b->failed ? AL_E_NOMEM : 0;
    al_buf_free(&json);
    free(d.node);
    return result;
}
