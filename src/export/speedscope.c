// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "export/profile_parts.h"

static void put_frames(struct al_buf *b, const struct al_profile *p) {
    for (uint32_t i = 0; i < p->frame_count; i++) {
        const struct al_profile_frame *f = &p->frames[i];
        al_buf_str(b, i ? ",\n{\"name\":" : "\n{\"name\":");
        al_json_string(b, *f->name ? f->name : "?");
        if (*f->file || *f->object) {
            al_buf_str(b, ",\"file\":");
            al_json_string(b, *f->file ? f->file : f->object);
        }
        if (f->line > 0)
            al_buf_printf(b, ",\"line\":%d", (int)f->line);
        al_buf_char(b, '}');
    }
}

// Frames from the root on; written from the leaf's end, since a node knows its parent alone.
static void put_stack(struct al_buf *b, const struct al_profile *p, uint32_t node, uint32_t *path) {
    uint32_t depth = al_profile_walk(p, node, path);
    al_buf_char(b, '[');
    for (uint32_t d = 0; d < depth; d++)
        al_buf_printf(b, d ? ",%u" : "%u", (unsigned)p->nodes[path[d]].frame);
    al_buf_char(b, ']');
}

// Runs from i on that have the same stack: here neither gaps between them nor states are told. The first one behind them.
static uint32_t same_stack(const struct al_profile_track *t, uint32_t i, uint64_t *ret_count) {
    uint32_t node = t->runs[i].node;
    for (*ret_count = 0; i < t->count && t->runs[i].node == node; i++)
        *ret_count += t->runs[i].count;
    return i;
}

static void put_track(struct al_buf *b, const struct al_profile *p, const struct al_profile_track *t, double seconds,
                      uint32_t *path) {
    struct al_buf name = AL_BUF_INIT;
    uint64_t total = 0, count;
    for (uint32_t i = 0; i < t->count; i++)
        total += t->runs[i].count;
    al_buf_str(b, "{\"type\":\"sampled\",\"name\":");
    al_profile_put_who(&name, &t->who);
    al_json_string(b, name.data ? name.data : "");
    b->failed |= name.failed;
    al_buf_free(&name);
    al_buf_str(b, ",\"unit\":\"seconds\",\"startValue\":0,\"endValue\":");
    al_buf_number(b, (double)total * seconds);
    al_buf_str(b, ",\"samples\":[");
    for (uint32_t i = 0; i < t->count; i = same_stack(t, i, &count)) {
        al_buf_str(b, i ? ",\n" : "\n");
        put_stack(b, p, t->runs[i].node, path);
    }
    al_buf_str(b, "],\"weights\":[");
    for (uint32_t i = 0; i < t->count;) {
        al_buf_str(b, i ? "," : "");
        i = same_stack(t, i, &count);
        al_buf_number(b, (double)count * seconds);
    }
    al_buf_str(b, "]}");
}

// What a viewer shows first: the thread that was seen working most often; its place among those that are written.
static uint32_t busiest(const struct al_profile *p) {
    uint64_t most = 0;
    uint32_t found = 0;
    for (uint32_t i = 0, written = 0; i < p->track_count; i++) {
        uint64_t busy = 0;
        for (uint32_t r = 0; r < p->tracks[i].count; r++)
            busy += p->tracks[i].runs[r].state == AL_PROFILE_IDLE ? 0 : p->tracks[i].runs[r].count;
        if (busy > most) {
            most = busy;
            found = written;
        }
        written += p->tracks[i].count > 0;
    }
    return found;
}

int al_speedscope(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    uint32_t *path, deepest, written = 0;
    if (al_profile_path(p, &path, &deepest))
        return AL_E_NOMEM;
    al_buf_str(b, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":");
    al_json_string(b, about->name);
    al_buf_str(b, ",\"exporter\":");
    al_json_string(b, about->exporter);
    al_buf_printf(b, ",\"activeProfileIndex\":%u,\"shared\":{\"frames\":[", (unsigned)busiest(p));
    put_frames(b, p);
    al_buf_str(b, "]},\"profiles\":[");
    for (uint32_t i = 0; i < p->track_count; i++) {
        if (!p->tracks[i].count)
            continue;
        al_buf_str(b, written++ ? ",\n" : "\n");
        put_track(b, p, &p->tracks[i], al_profile_sample_seconds(about), path);
    }
    al_buf_str(b, "]}\n");
    free(path);
    return b->failed ? AL_E_NOMEM : 0;
}
