// SPDX-License-Identifier: Apache-2.0
// The device half of a source, played on the caller's clock.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "device/device.h"
#include "model/select.h"

struct replay {
    struct al_device base;
    struct al_source *source; // not owned
    char *filter;
    int64_t start_ns;
    int64_t played_ns; // source time up to which samples were handed out; -1: nothing yet
    int64_t at_ns;     // source time of the last sample
    struct al_snapshot *all; // what the source says, before the filter
    uint32_t shown[AL_GPU_MAX], shown_count;
};

static void shift(struct al_value *v, int64_t by_ns) {
    if (v->status != AL_STATUS_UNREAD)
        v->at_ns += by_ns;
}

static uint32_t needs(int metric) {
    // The mean comes from the driver's samples, or stands in for them when only the fast group is read.
    return metric == AL_GPU_UTIL_MEAN ? (uint32_t)(AL_GROUP_FAST | AL_GROUP_SAMPLES) : al_gpu_metrics[metric].group;
}

static void copy_gpu(struct al_gpu *to, const struct al_gpu *from, uint32_t groups, int64_t by_ns) {
    *to = *from;
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        if (needs(m) & groups)
            shift(&to->m[m], by_ns);
        else
            to->m[m] = al_value_none(AL_STATUS_UNREAD);
    }
    for (uint32_t i = 0; i < to->fresh_count; i++)
        to->fresh[i].at_ns += by_ns;
    for (uint32_t i = 0; i < to->xid_count; i++)
        to->xid[i].last_ns += by_ns;
    if (!(groups & AL_GROUP_SAMPLES))
        to->fresh_count = 0;
    if (!(groups & AL_GROUP_XID))
        to->xid_count = 0;
    if (!(groups & (AL_GROUP_PROCESS | AL_GROUP_PROCUTIL)))
        to->process_status = AL_STATUS_UNREAD;
    if (!(groups & AL_GROUP_PROCUTIL))
        to->procutil_status = AL_STATUS_UNREAD;
}

static void copy_row(struct al_proc_gpu *to, const struct al_proc_gpu *from, uint32_t position, bool utilisation,
                     int64_t by_ns) {
    *to = *from;
    to->gpu = position;
    shift(&to->memory_bytes, by_ns);
    struct al_value *const six[] = {&to->sm_ratio,      &to->memory_ratio, &to->encoder_ratio,
                                    &to->decoder_ratio, &to->jpeg_ratio,   &to->ofa_ratio};
    for (size_t i = 0; i < sizeof six / sizeof *six; i++) {
        if (utilisation)
            shift(six[i], by_ns);
        else
            *six[i] = al_value_none(AL_STATUS_UNREAD);
    }
}

static int copy_gpus(struct replay *r, struct al_snapshot *s, uint32_t groups, int32_t *ret_position) {
    r->shown_count = 0;
    for (uint32_t i = 0; i < r->all->gpu_count; i++) {
        ret_position[i] = -1;
        if (!al_gpu_selected(r->filter, &r->all->gpus[i].info))
            continue;
        struct al_gpu *to = al_snapshot_add_gpu(s);
        if (!to)
            return AL_E_NOMEM;
        copy_gpu(to, &r->all->gpus[i], groups, r->start_ns);
        int32_t parent = r->all->gpus[i].info.parent; // comes before its MIG devices
        to->info.parent = parent >= 0 && (uint32_t)parent < i ? ret_position[parent] : -1;
        ret_position[i] = (int32_t)r->shown_count;
        r->shown[r->shown_count++] = i;
    }
    return 0;
}

static int copy_rows(struct replay *r, struct al_snapshot *s, uint32_t groups, const int32_t *position) {
    for (uint32_t i = 0; i < r->all->row_count; i++) {
        const struct al_proc_gpu *from = &r->all->rows[i];
        if (from->gpu >= r->all->gpu_count || position[from->gpu] < 0)
            continue;
        struct al_proc_gpu *to = al_snapshot_add_row(s);
        if (!to)
            return AL_E_NOMEM;
        copy_row(to, from, (uint32_t)position[from->gpu], groups & AL_GROUP_PROCUTIL, r->start_ns);
    }
    return 0;
}

static int replay_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    struct replay *r = (struct replay *)d;
    int32_t position[AL_GPU_MAX];
    int64_t at_ns = now_ns - r->start_ns;
    al_snapshot_clear(r->all);
    int result = r->source->ops->at(r->source, r->played_ns, at_ns, r->all);
    if (result)
        return result;
    r->at_ns = at_ns;
    if (groups & AL_GROUP_SAMPLES)
        r->played_ns = at_ns;
    memcpy(s->node.driver_version, r->all->node.driver_version, sizeof s->node.driver_version);
    memcpy(s->node.nvml_version, r->all->node.nvml_version, sizeof s->node.nvml_version);
    memcpy(s->node.cuda_version, r->all->node.cuda_version, sizeof s->node.cuda_version);
    memcpy(s->hung_call, r->all->hung_call, sizeof s->hung_call);
    s->hung_since_ns = *s->hung_call ? r->all->hung_since_ns + r->start_ns : 0;
    s->gpu_count = s->row_count = 0;
    result = copy_gpus(r, s, groups, position);
    if (!result && (groups & (AL_GROUP_PROCESS | AL_GROUP_PROCUTIL)))
        result = copy_rows(r, s, groups, position);
    return result;
}

static int replay_attr(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct replay *r = (struct replay *)d;
    memset(ret, 0, sizeof *ret);
    if (gpu >= r->shown_count)
        return AL_E_NOENT;
    return r->source->ops->attr(r->source, r->shown[gpu], attr, r->at_ns, ret);
}

static size_t replay_stats(struct al_device *d, struct al_call_stat *ret, size_t max) {
    (void)d, (void)ret, (void)max;
    return 0; // no driver is called
}

static void replay_free(struct al_device *d) {
    struct replay *r = (struct replay *)d;
    al_snapshot_free(r->all);
    free(r->filter);
    free(r);
}

static const struct al_device_ops replay_ops = {
    .name = "replay", .sample = replay_sample, .attr = replay_attr, .stats = replay_stats, .free = replay_free};

int al_replay_device(struct al_source *source, const char *gpus, int64_t start_ns, struct al_device **ret) {
    struct replay *r = calloc(1, sizeof *r);
    if (!r)
        return AL_E_NOMEM;
    r->base.ops = &replay_ops;
    r->source = source;
    r->start_ns = start_ns;
    r->played_ns = -1;
    r->all = al_snapshot_new();
    if (gpus && *gpus)
        r->filter = strdup(gpus);
    if (!r->all || (gpus && *gpus && !r->filter)) {
        replay_free(&r->base);
        return AL_E_NOMEM;
    }
    *ret = &r->base;
    return 0;
}
