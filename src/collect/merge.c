// SPDX-License-Identifier: Apache-2.0
#include "collect/merge.h"

#include <string.h>

static void merge_gpu(struct al_gpu *to, const struct al_gpu *from, uint32_t groups) {
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if ((al_gpu_metrics[m].group & groups) && to->m[m].status == AL_STATUS_UNREAD)
            to->m[m] = from->m[m];
    if (groups & AL_GROUP_XID) {
        memcpy(to->xid, from->xid, sizeof to->xid);
        to->xid_count = from->xid_count;
    }
    if (groups & AL_GROUP_PROCUTIL)
        to->procutil_status = from->procutil_status;
}

static const struct al_proc_gpu *find_row(const struct al_snapshot *s, const char *uuid, const struct al_proc_gpu *row) {
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *r = &s->rows[i];
        if (r->pid == row->pid && r->gpu_instance == row->gpu_instance && r->gpu < s->gpu_count &&
            strcmp(s->gpus[r->gpu].info.uuid, uuid) == 0)
            return r;
    }
    return NULL;
}

static void merge_rows(struct al_snapshot *s, const struct al_snapshot *slow) {
    for (uint32_t i = 0; i < s->row_count; i++) {
        struct al_proc_gpu *to = &s->rows[i];
        const struct al_proc_gpu *from = to->gpu < s->gpu_count ? find_row(slow, s->gpus[to->gpu].info.uuid, to) : NULL;
        if (!from)
            continue;
        to->sm_ratio = from->sm_ratio;
        to->memory_ratio = from->memory_ratio;
        to->encoder_ratio = from->encoder_ratio;
        to->decoder_ratio = from->decoder_ratio;
        to->jpeg_ratio = from->jpeg_ratio;
        to->ofa_ratio = from->ofa_ratio;
    }
}

void al_merge_slow(struct al_snapshot *s, const struct al_snapshot *slow) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_gpu *to = &s->gpus[i];
        // The order rarely changes between the halves: look at the same place first.
        const struct al_gpu *from = NULL;
        if (i < slow->gpu_count && strcmp(slow->gpus[i].info.uuid, to->info.uuid) == 0)
            from = &slow->gpus[i];
        else
            from = al_snapshot_gpu(slow, to->info.uuid);
        if (from)
            merge_gpu(to, from, slow->groups);
    }
    if (slow->groups & AL_GROUP_PROCUTIL)
        merge_rows(s, slow);
}

void al_merge_mark_stale(struct al_snapshot *s, uint32_t groups) {
    for (uint32_t i = 0; i < s->gpu_count; i++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if ((al_gpu_metrics[m].group & groups) && s->gpus[i].m[m].status == AL_STATUS_OK)
                s->gpus[i].m[m].status = AL_STATUS_STALE;
}
