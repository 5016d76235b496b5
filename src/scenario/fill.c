// SPDX-License-Identifier: Apache-2.0
// The state under the cursor as a snapshot, or value by value.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/parts.h"

int64_t al_scenario_duration(const struct al_scenario *s) {
    return s->duration_ns;
}

uint32_t al_scenario_gpu_count(const struct al_scenario *s) {
    return s->gpu_count;
}

const struct al_node *al_scenario_node(const struct al_scenario *s) {
    return &s->node;
}

const struct al_gpu_info *al_scenario_gpu_info(const struct al_scenario *s, uint32_t gpu) {
    return gpu < s->gpu_count ? &s->info[gpu] : NULL;
}

uint32_t al_scenario_gpu_at(struct al_scenario *s, uint32_t position, int64_t at_ns) {
    al_scenario_advance(s, at_ns);
    return position < s->gpu_count ? s->order[position] : UINT32_MAX;
}

static uint32_t status_of(const struct al_scenario *s, uint32_t gpu) {
    const struct al_gpu_info *i = &s->info[gpu];
    uint32_t own = s->gpus[gpu].status;
    return own == AL_STATUS_OK && i->parent >= 0 ? s->gpus[i->parent].status : own;
}

uint32_t al_scenario_gpu_status(struct al_scenario *s, uint32_t gpu, int64_t at_ns, bool *ret_gone) {
    al_scenario_advance(s, at_ns);
    if (gpu >= s->gpu_count)
        return AL_STATUS_MISSING;
    uint32_t board = s->info[gpu].parent >= 0 ? (uint32_t)s->info[gpu].parent : gpu;
    if (ret_gone)
        *ret_gone = s->gpus[board].gone;
    return status_of(s, gpu);
}

void al_scenario_list_status(struct al_scenario *s, uint32_t gpu, int64_t at_ns, uint32_t *ret_processes,
                             uint32_t *ret_utilization) {
    al_scenario_advance(s, at_ns);
    *ret_processes = s->gpus[gpu].process_status;
    *ret_utilization = s->gpus[gpu].procutil_status;
}

// The oldest sample later than after_ns in a list that rises in time.
static size_t first_after(const struct al_fresh *list, size_t count, int64_t after_ns) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list[middle].at_ns > after_ns)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t al_scenario_samples(struct al_scenario *s, uint32_t gpu, int64_t after_ns, int64_t at_ns, struct al_fresh *ret,
                           size_t max) {
    al_scenario_advance(s, at_ns);
    size_t count = 0;
    if (gpu >= s->gpu_count)
        return 0;
    if (s->recorded_samples[gpu]) {
        const struct al_sample_list *list = &s->samples[gpu];
        size_t first = first_after(list->item, list->count, after_ns),
               end = first_after(list->item, list->count, at_ns);
        if (end - first > max)
            first = end - max; // the newest are kept, as in the driver's buffer
        for (; first < end; first++)
            ret[count++] = list->item[first];
        return count;
    }
    const struct al_gpu_state *g = &s->gpus[gpu];
    uint64_t i = g->ring_count > AL_SCENARIO_RING ? g->ring_count - AL_SCENARIO_RING : 0;
    if (g->ring_count - i > max)
        i = g->ring_count - max;
    for (; i < g->ring_count; i++) {
        const struct al_fresh *f = &g->ring[i % AL_SCENARIO_RING];
        if (f->at_ns > after_ns && f->at_ns <= at_ns)
            ret[count++] = *f;
    }
    return count;
}

// The hang of known length that is under way, or NULL.
static const struct al_fault_line *hang_at(const struct al_scenario *s, int64_t at_ns) {
    for (size_t i = 0; i < s->fault_count; i++) {
        const struct al_fault_line *f = &s->faults[i];
        if (f->hang && f->at_ns <= at_ns && at_ns < f->until_ns)
            return f;
    }
    return NULL;
}

static struct al_value mean_of_samples(const struct al_gpu *g, const struct al_scenario *s, uint32_t gpu) {
    double sum = 0;
    for (uint32_t i = 0; i < g->fresh_count; i++)
        sum += g->fresh[i].ratio;
    if (g->fresh_count)
        return al_value_ok(sum / g->fresh_count, g->fresh[g->fresh_count - 1].at_ns);
    const struct al_gpu_state *state = &s->gpus[gpu];
    if (s->recorded_samples[gpu] || state->ring_count == 0)
        return al_value_none(state->m[AL_GPU_UTIL].status == AL_STATUS_OK ? AL_STATUS_UNREAD : AL_STATUS_UNSUPPORTED);
    const struct al_fresh *last = &state->ring[(state->ring_count - 1) % AL_SCENARIO_RING];
    return (struct al_value){last->ratio, last->at_ns, AL_STATUS_STALE};
}

// Figures that nobody wants to write by hand follow from others.
static struct al_value derived(const struct al_scenario *s, uint32_t gpu, int metric, int64_t at_ns) {
    const struct al_gpu_state *g = &s->gpus[gpu];
    struct al_value v = al_track_value(&g->m[metric], al_gpu_metrics[metric].unit, at_ns);
    if (g->m[metric].set)
        return v;
    if (metric == AL_GPU_XID_ERRORS)
        return al_value_ok((double)g->xid_total, at_ns);
    if (metric == AL_GPU_MEM_FREE) {
        struct al_value total = al_track_value(&g->m[AL_GPU_MEM_TOTAL], AL_UNIT_BYTES, at_ns);
        struct al_value used = al_track_value(&g->m[AL_GPU_MEM_USED], AL_UNIT_BYTES, at_ns);
        struct al_value reserved = al_track_value(&g->m[AL_GPU_MEM_RESERVED], AL_UNIT_BYTES, at_ns);
        double left = total.num - used.num - (al_ok(reserved) ? reserved.num : 0);
        if (al_ok(total) && al_ok(used))
            return al_value_ok(left > 0 ? left : 0, at_ns);
    }
    return v;
}

struct al_value al_scenario_value(struct al_scenario *s, uint32_t gpu, enum al_gpu_metric metric, int64_t at_ns) {
    al_scenario_advance(s, at_ns);
    if (gpu >= s->gpu_count)
        return al_value_none(AL_STATUS_UNSUPPORTED);
    uint32_t status = status_of(s, gpu);
    return status == AL_STATUS_OK ? derived(s, gpu, (int)metric, at_ns) : al_value_none(status);
}

static void fill_gpu(struct al_scenario *s, uint32_t gpu, uint32_t position, int64_t after_ns, int64_t at_ns,
                     struct al_gpu *ret) {
    const struct al_gpu_state *g = &s->gpus[gpu];
    const struct al_fault_line *hang = hang_at(s, at_ns);
    uint32_t status = status_of(s, gpu);
    ret->info = s->info[gpu];
    ret->info.status = status;
    if (!ret->info.is_mig)
        ret->info.index = position;
    for (uint32_t p = 0; ret->info.parent >= 0 && p < s->board_count; p++)
        if (s->order[p] == (uint32_t)s->info[gpu].parent)
            ret->info.parent = (int32_t)p;
    memcpy(ret->xid, g->xid, sizeof ret->xid);
    ret->xid_count = g->xid_count;
    ret->process_status = status == AL_STATUS_OK ? g->process_status : status;
    ret->procutil_status = status == AL_STATUS_OK ? g->procutil_status : status;
    if (status == AL_STATUS_OK && !hang)
        ret->fresh_count = (uint32_t)al_scenario_samples(s, gpu, after_ns, at_ns, ret->fresh, AL_FRESH_MAX);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        if (status != AL_STATUS_OK) {
            ret->m[m] = al_value_none(status);
        } else if (hang) {
            ret->m[m] = s->frozen[gpu][m];
            if (al_ok(ret->m[m]))
                ret->m[m].status = AL_STATUS_STALE;
        } else {
            ret->m[m] = derived(s, gpu, m, at_ns);
        }
    }
    if (status == AL_STATUS_OK && !hang && !g->m[AL_GPU_UTIL_MEAN].set)
        ret->m[AL_GPU_UTIL_MEAN] = mean_of_samples(ret, s, gpu);
}

static void fill_row(const struct al_scenario *s, const struct al_row_state *row, uint32_t position, int64_t at_ns,
                     struct al_proc_gpu *ret) {
    struct al_value *const figures[] = {&ret->memory_bytes,  &ret->sm_ratio,   &ret->memory_ratio, &ret->encoder_ratio,
                                        &ret->decoder_ratio, &ret->jpeg_ratio, &ret->ofa_ratio};
    ret->pid = row->pid;
    ret->gpu = position;
    ret->type = row->type;
    ret->gpu_instance = row->gpu_instance;
    ret->compute_instance = row->compute_instance;
    for (int i = 0; i < AL_ROW_FIGURES; i++)
        *figures[i] = al_track_value(&row->m[i], i == AL_ROW_MEMORY ? AL_UNIT_BYTES : AL_UNIT_RATIO, at_ns);
    al_str_copy(ret->driver_name, sizeof ret->driver_name, al_scenario_text(s, row->name));
}

size_t al_scenario_rows(struct al_scenario *s, uint32_t gpu, int64_t at_ns, struct al_proc_gpu *ret, size_t max) {
    al_scenario_advance(s, at_ns);
    size_t low = 0, high = s->row_count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->rows[s->row_order[middle]].gpu >= gpu)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < s->row_count && s->rows[s->row_order[low]].gpu == gpu; low++) {
        const struct al_row_state *row = &s->rows[s->row_order[low]];
        if (!row->present)
            continue;
        if (count < max)
            fill_row(s, row, gpu, at_ns, &ret[count]);
        count++;
    }
    return count;
}

const struct al_proc *al_scenario_proc(struct al_scenario *s, pid_t pid, int64_t at_ns) {
    al_scenario_advance(s, at_ns);
    size_t low = 0, high = s->proc_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct al_proc_state *p = &s->procs[s->proc_order[middle]];
        if (p->p.pid == pid)
            return p->present ? &p->p : NULL;
        if (p->p.pid > pid)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static int fill_rows(struct al_scenario *s, uint32_t position, int64_t at_ns, struct al_snapshot *ret) {
    uint32_t gpu = s->order[position];
    if (status_of(s, gpu) != AL_STATUS_OK || s->gpus[gpu].process_status != AL_STATUS_OK)
        return 0;
    size_t count = al_scenario_rows(s, gpu, at_ns, NULL, 0);
    if (!count)
        return 0;
    uint32_t first = ret->row_count;
    for (size_t i = 0; i < count; i++)
        if (!al_snapshot_add_row(ret))
            return AL_E_NOMEM;
    al_scenario_rows(s, gpu, at_ns, ret->rows + first, count);
    for (size_t i = 0; i < count; i++)
        ret->rows[first + i].gpu = position;
    return 0;
}

static int fill_procs(struct al_scenario *s, int64_t at_ns, struct al_snapshot *ret) {
    for (size_t i = 0; i < s->proc_count; i++) {
        const struct al_proc_state *p = &s->procs[s->proc_order[i]];
        if (!p->present)
            continue;
        struct al_proc *out = al_snapshot_add_proc(ret);
        if (!out)
            return AL_E_NOMEM;
        *out = p->p;
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            out->m[m] = al_track_value(&p->m[m], al_proc_metric_table[m].unit, at_ns);
        for (uint32_t r = p->first_row; r && !out->holds_context; r = s->rows[r - 1].next)
            out->holds_context = s->rows[r - 1].present;
    }
    return 0;
}

static int fill_ranks(struct al_scenario *s, int64_t at_ns, struct al_snapshot *ret) {
    for (size_t i = 0; i < s->rank_count; i++) {
        const struct al_rank_state *r = &s->ranks[i];
        if (!r->present)
            continue;
        struct al_rank *out = al_snapshot_add_rank(ret);
        if (!out)
            return AL_E_NOMEM;
        *out = r->r;
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
            out->m[m] = al_track_value(&r->m[m], al_rank_metric_table[m].unit, at_ns);
    }
    return 0;
}

static int fill_looks(struct al_scenario *s, int64_t at_ns, struct al_snapshot *ret) {
    for (size_t i = 0; i < s->look_count; i++) {
        const struct al_look_state *l = &s->looks[i];
        if (!l->present)
            continue;
        struct al_look *out = al_snapshot_add_look(ret);
        if (!out)
            return AL_E_NOMEM;
        *out = l->l;
        for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
            out->m[m] = al_track_value(&l->m[m], al_look_metric_table[m].unit, at_ns);
    }
    return 0;
}

int al_scenario_at(struct al_scenario *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    al_scenario_advance(s, at_ns);
    al_snapshot_clear(ret);
    ret->node = s->node;
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        ret->node.m[m] = al_track_value(&s->node_m[m], al_node_metric_table[m].unit, at_ns);
    const struct al_fault_line *hang = hang_at(s, at_ns);
    const char *call = hang ? hang->function : s->hung_call ? s->hung_call : "";
    al_str_copy(ret->hung_call, sizeof ret->hung_call, call);
    ret->hung_since_ns = hang ? hang->at_ns : s->hung_call ? s->hung_since_ns : 0;
    int error = 0;
    for (uint32_t p = 0; p < s->gpu_count && !error; p++) {
        struct al_gpu *gpu = al_snapshot_add_gpu(ret);
        if (!gpu)
            return AL_E_NOMEM;
        fill_gpu(s, s->order[p], p, after_ns, at_ns, gpu);
        error = fill_rows(s, p, at_ns, ret);
    }
    if (!error)
        error = fill_ranks(s, at_ns, ret);
    if (!error)
        error = fill_looks(s, at_ns, ret);
    return error ? error : fill_procs(s, at_ns, ret);
}
