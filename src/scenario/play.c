// SPDX-License-Identifier: Apache-2.0
// The cursor: carries the state through the events, forwards step by step, backwards by starting again.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "scenario/parts.h"

const char *al_scenario_text(const struct al_scenario *s, uint32_t offset) {
    return offset && offset < s->text_len ? s->texts + offset : "";
}

static bool whole(enum al_unit unit) {
    return unit == AL_UNIT_BYTES || unit == AL_UNIT_COUNT || unit == AL_UNIT_STATE || unit == AL_UNIT_BITS;
}

struct al_value al_track_value(const struct al_track *t, enum al_unit unit, int64_t at_ns) {
    if (t->status == AL_STATUS_STALE)
        return (struct al_value){t->a, t->from_ns, AL_STATUS_STALE};
    if (t->status != AL_STATUS_OK)
        return al_value_none(t->status);
    double v = t->a;
    if (t->ramp_ns > 0) {
        double share = (double)(at_ns - t->from_ns) / (double)t->ramp_ns;
        v = share >= 1 ? t->b : t->a + (t->b - t->a) * share;
        if (whole(unit))
            v = floor(v);
    }
    return al_value_ok(v, at_ns);
}

static void set_track(struct al_track *t, const struct al_change *e, enum al_unit unit) {
    if (e->status == AL_STATUS_STALE) {
        double last = e->b != 0 ? e->a : al_track_value(t, unit, e->at_ns).num;
        *t = (struct al_track){.a = last, .from_ns = e->at_ns, .status = AL_STATUS_STALE, .set = true};
        return;
    }
    *t = (struct al_track){e->a, e->b, e->at_ns, e->ramp_ns, e->status, true};
}

void al_scenario_rewind(struct al_scenario *s) {
    s->now_ns = -1;
    s->next_sample_ns = 0;
    s->next_event = 0;
    s->hung_call = NULL;
    memset(s->gpus, 0, s->gpu_count * sizeof *s->gpus);
    memset(s->node_m, 0, sizeof s->node_m);
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        struct al_gpu_state *gpu = &s->gpus[g];
        s->order[g] = g;
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            gpu->m[m].status = AL_STATUS_UNSUPPORTED;
        for (int a = 0; a < AL_ATTR_COUNT; a++)
            gpu->attr[a].status = AL_STATUS_UNSUPPORTED;
        gpu->status = gpu->process_status = gpu->procutil_status = AL_STATUS_OK;
    }
    for (size_t i = 0; i < s->proc_count; i++)
        s->procs[i].present = false;
    for (size_t i = 0; i < s->row_count; i++)
        s->rows[i].present = false;
    for (size_t i = 0; i < s->rank_count; i++)
        s->ranks[i].present = false;
    for (size_t i = 0; i < s->look_count; i++)
        s->looks[i].present = false;
    for (size_t i = 0; i < s->fault_count; i++)
        s->faults[i].calls_left = s->faults[i].calls;
}

static void add_xid(struct al_gpu_state *g, uint32_t code, uint32_t count, int64_t at_ns) {
    g->xid_total += count;
    uint32_t i = 0;
    while (i < g->xid_count && g->xid[i].code != code)
        i++;
    if (i == AL_XID_CODES)
        return;
    if (i == g->xid_count)
        g->xid[g->xid_count++] = (struct al_xid){code, 0, 0};
    g->xid[i].count += count;
    g->xid[i].last_ns = at_ns;
}

// A board returns at another index: it takes that place and the others close up, as the driver numbers by PCI address.
static void move_board(struct al_scenario *s, uint32_t gpu, uint32_t to) {
    uint32_t from = 0;
    while (from < s->board_count && s->order[from] != gpu)
        from++;
    for (; from < to && from + 1 < s->board_count; from++)
        s->order[from] = s->order[from + 1];
    for (; from > to; from--)
        s->order[from] = s->order[from - 1];
    s->order[to] = gpu;
}

static void apply_to_gpu(struct al_scenario *s, uint32_t gpu, const struct al_change *e) {
    struct al_gpu_state *g = &s->gpus[gpu];
    switch (e->kind) {
    case AL_CHANGE_GPU:
        set_track(&g->m[e->field], e, al_gpu_metrics[e->field].unit);
        break;
    case AL_CHANGE_GPU_LISTS:
        *(e->field ? &g->procutil_status : &g->process_status) = e->status;
        break;
    case AL_CHANGE_GPU_STATE:
        g->status = e->status;
        g->gone = false;
        break;
    case AL_CHANGE_GPU_GONE:
        g->status = AL_STATUS_LOST;
        g->gone = true;
        break;
    case AL_CHANGE_GPU_INDEX:
        move_board(s, gpu, (uint32_t)e->a);
        break;
    case AL_CHANGE_ATTR:
        g->attr[e->field] = (struct al_attr_track){e->a, e->text, e->status, true};
        break;
    default:
        add_xid(g, (uint32_t)e->a, (uint32_t)e->b, e->ramp_ns >= 0 ? e->ramp_ns : e->at_ns);
    }
}

static void begin_proc(struct al_scenario *s, struct al_proc_state *p) {
    if (p->present)
        return;
    pid_t pid = p->p.pid;
    memset(&p->p, 0, sizeof p->p);
    memset(p->m, 0, sizeof p->m);
    p->present = true;
    p->p.pid = pid;
    p->p.pid_ns = s->node.pid_ns;
    p->p.alive = true;
    p->p.rank = p->p.local_rank = p->p.world_size = p->p.node_rank = -1;
}

static void begin_rank(struct al_rank_state *r) {
    if (r->present)
        return;
    *r = (struct al_rank_state){.r = {.pid = r->r.pid, .rank = -1, .local_rank = -1, .world = -1, .device = -1},
                                .present = true};
}

static void set_field(struct al_scenario *s, void *thing, const struct al_proc_field *f, const struct al_change *e) {
    char *at = (char *)thing + f->offset;
    uint64_t u64 = (uint64_t)e->a;
    uint32_t u32 = (uint32_t)u64; // pids, ranks and roles: within int32
    switch (f->type) {
    case 't':
        al_str_copy(at, f->size, al_scenario_text(s, e->text));
        break;
    case 'u':
        memcpy(at, &u64, sizeof u64);
        break;
    case 'd':
        memcpy(at, &e->ramp_ns, sizeof e->ramp_ns);
        break;
    case 'b':
    case 'c':
        *at = (char)e->a;
        break;
    default:
        memcpy(at, &u32, sizeof u32);
    }
}

static void apply_look(struct al_scenario *s, const struct al_change *e, struct al_look_state *l) {
    if (e->kind == AL_CHANGE_LOOK && !l->present)
        *l = (struct al_look_state){.l = {.pid = l->l.pid, .rank = -1}, .present = true};
    else if (e->kind == AL_CHANGE_LOOK_FIELD)
        set_field(s, &l->l, &al_scenario_look_fields[e->field], e);
    else if (e->kind == AL_CHANGE_LOOK_METRIC)
        set_track(&l->m[e->field], e, al_look_metric_table[e->field].unit);
    else if (e->kind == AL_CHANGE_UNLOOK)
        l->present = false;
}

static void end_proc(struct al_scenario *s, struct al_proc_state *p) {
    p->present = false;
    for (uint32_t r = p->first_row; r; r = s->rows[r - 1].next)
        s->rows[r - 1].present = false;
}

static void begin_row(struct al_row_state *row) {
    if (row->present)
        return;
    memset(row->m, 0, sizeof row->m);
    row->m[AL_ROW_MEMORY].status = AL_STATUS_UNSUPPORTED;
    row->present = true;
    row->type = AL_PROC_COMPUTE;
    row->gpu_instance = row->compute_instance = UINT32_MAX;
    row->name = 0;
}

static void set_row_field(struct al_row_state *row, const struct al_change *e) {
    if (e->field < AL_ROW_FIGURES)
        set_track(&row->m[e->field], e, e->field == AL_ROW_MEMORY ? AL_UNIT_BYTES : AL_UNIT_RATIO);
    else if (e->field == AL_ROW_TYPE)
        row->type = (uint32_t)e->a;
    else if (e->field == AL_ROW_GI)
        row->gpu_instance = (uint32_t)e->a;
    else if (e->field == AL_ROW_CI)
        row->compute_instance = (uint32_t)e->a;
    else
        row->name = e->text;
}

static void freeze(struct al_scenario *s, int64_t at_ns) {
    for (uint32_t g = 0; g < s->gpu_count; g++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            s->frozen[g][m] = al_track_value(&s->gpus[g].m[m], al_gpu_metrics[m].unit, at_ns);
}

static void apply(struct al_scenario *s, const struct al_change *e) {
    switch (e->kind) {
    case AL_CHANGE_NODE:
        set_track(&s->node_m[e->field], e, al_node_metric_table[e->field].unit);
        break;
    case AL_CHANGE_PROC:
        begin_proc(s, &s->procs[e->target]);
        break;
    case AL_CHANGE_PROC_FIELD:
        set_field(s, &s->procs[e->target].p, &al_scenario_proc_fields[e->field], e);
        break;
    case AL_CHANGE_PROC_METRIC:
        set_track(&s->procs[e->target].m[e->field], e, al_proc_metric_table[e->field].unit);
        break;
    case AL_CHANGE_EXIT:
        end_proc(s, &s->procs[e->target]);
        break;
    case AL_CHANGE_ROW:
        begin_row(&s->rows[e->target]);
        break;
    case AL_CHANGE_ROW_FIELD:
        set_row_field(&s->rows[e->target], e);
        break;
    case AL_CHANGE_UNROW:
        s->rows[e->target].present = false;
        break;
    case AL_CHANGE_RANK:
        begin_rank(&s->ranks[e->target]);
        break;
    case AL_CHANGE_RANK_FIELD:
        set_field(s, &s->ranks[e->target].r, &al_scenario_rank_fields[e->field], e);
        break;
    case AL_CHANGE_RANK_METRIC:
        set_track(&s->ranks[e->target].m[e->field], e, al_rank_metric_table[e->field].unit);
        break;
    case AL_CHANGE_UNRANK:
        s->ranks[e->target].present = false;
        break;
    case AL_CHANGE_LOOK:
    case AL_CHANGE_LOOK_FIELD:
    case AL_CHANGE_LOOK_METRIC:
    case AL_CHANGE_UNLOOK:
        apply_look(s, e, &s->looks[e->target]);
        break;
    case AL_CHANGE_HANG:
        s->hung_call = al_scenario_text(s, e->text);
        s->hung_since_ns = e->ramp_ns;
        break;
    case AL_CHANGE_FREEZE:
        freeze(s, e->at_ns);
        break;
    case AL_CHANGE_RESUME:
        s->hung_call = NULL;
        break;
    default:
        for (uint32_t g = 0; g < s->gpu_count; g++)
            if (al_gpu_mask_has(&s->masks[e->target], g))
                apply_to_gpu(s, g, e);
    }
}

// What the driver would put into its own buffer now.
static void take_samples(struct al_scenario *s, int64_t at_ns) {
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        struct al_gpu_state *gpu = &s->gpus[g];
        if (s->recorded_samples[g] || gpu->status != AL_STATUS_OK)
            continue;
        struct al_value v = al_track_value(&gpu->m[AL_GPU_UTIL], AL_UNIT_RATIO, at_ns);
        if (al_ok(v))
            gpu->ring[gpu->ring_count++ % AL_SCENARIO_RING] = (struct al_fresh){at_ns, v.num};
    }
}

static void apply_until(struct al_scenario *s, int64_t at_ns) {
    while (s->next_event < s->event_count && s->events[s->next_event].at_ns <= at_ns)
        apply(s, &s->events[s->next_event++]);
    s->now_ns = at_ns;
}

void al_scenario_advance(struct al_scenario *s, int64_t at_ns) {
    if (at_ns == s->now_ns)
        return;
    if (at_ns < s->now_ns)
        al_scenario_rewind(s);
    const int64_t step = AL_SCENARIO_SAMPLE_NS;
    int64_t oldest = at_ns / step * step - AL_SCENARIO_RING * step; // older ones would be overwritten anyway
    if (s->next_sample_ns < oldest)
        s->next_sample_ns = oldest;
    for (; s->next_sample_ns <= at_ns; s->next_sample_ns += step) {
        apply_until(s, s->next_sample_ns);
        take_samples(s, s->next_sample_ns);
    }
    apply_until(s, at_ns);
}
