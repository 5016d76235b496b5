// SPDX-License-Identifier: Apache-2.0
// Xid events: registered once a GPU, collected without waiting, counted by code.
#include <string.h>

#include "device/nvml_backend.h"

#define EVENTS_A_TICK 256 // a bound: a storm goes on at the next tick

static void register_gpu(struct al_nvml *n, struct al_nvml_gpu *g) {
    int result = NVML(n, nvmlDeviceRegisterEvents, (g->handle, AL_NVML_EVENT_XID, n->events));
    g->xid_status = al_nvml_status(result);
}

static bool ready(struct al_nvml *n) {
    if (n->events_status == AL_STATUS_UNREAD) {
        int result = NVML(n, nvmlEventSetCreate, (&n->events));
        n->events_status = result == AL_NVML_SUCCESS && !n->events ? AL_STATUS_ERROR : al_nvml_status(result);
    }
    for (uint32_t i = 0; i < n->shown_count; i++) {
        struct al_nvml_gpu *g = n->shown[i];
        if (g->info.is_mig || !g->handle || g->xid_status != AL_STATUS_UNREAD)
            continue;
        if (n->events_status == AL_STATUS_OK)
            register_gpu(n, g);
        else
            g->xid_status = n->events_status;
    }
    return n->events_status == AL_STATUS_OK;
}

// A code beyond the table takes the place of the one that is longest ago; the total still counts it.
static struct al_xid *slot(struct al_nvml_gpu *g, uint32_t code) {
    struct al_xid *oldest = &g->xid[0];
    for (uint32_t i = 0; i < g->xid_count; i++) {
        if (g->xid[i].code == code)
            return &g->xid[i];
        if (g->xid[i].last_ns < oldest->last_ns)
            oldest = &g->xid[i];
    }
    if (g->xid_count < AL_XID_CODES)
        oldest = &g->xid[g->xid_count++];
    *oldest = (struct al_xid){.code = code};
    return oldest;
}

static void note(struct al_nvml *n, const struct nvml_event_data *e) {
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        struct al_nvml_gpu *g = n->gpus[i];
        if (g->info.is_mig || !g->handle || g->handle != e->device)
            continue;
        struct al_xid *x = slot(g, (uint32_t)e->eventData);
        x->count++;
        x->last_ns = al_nvml_now(n);
        g->xid_total++;
    }
}

static int wait_event(struct al_nvml *n, struct nvml_event_data *e) {
    memset(e, 0, sizeof *e);
    if (n->api.nvmlEventSetWait_v2)
        return NVML(n, nvmlEventSetWait_v2, (n->events, e, 0));
    return NVML(n, nvmlEventSetWait, (n->events, e, 0));
}

void al_nvml_read_xid(struct al_nvml *n) {
    struct nvml_event_data e;
    if (!ready(n))
        return;
    for (int i = 0; i < EVENTS_A_TICK && wait_event(n, &e) == AL_NVML_SUCCESS; i++)
        if (e.eventType & AL_NVML_EVENT_XID)
            note(n, &e);
}

void al_nvml_put_xid(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    if (g->info.is_mig) { // events name the whole GPU
        out->m[AL_GPU_XID_ERRORS] = al_value_none(AL_STATUS_UNSUPPORTED);
        return;
    }
    memcpy(out->xid, g->xid, sizeof out->xid);
    out->xid_count = g->xid_count;
    if (g->info.status != AL_STATUS_OK)
        out->m[AL_GPU_XID_ERRORS] = al_value_none((enum al_status)g->info.status);
    else if (g->xid_status == AL_STATUS_OK)
        out->m[AL_GPU_XID_ERRORS] = al_value_ok((double)g->xid_total, n->tick_ns);
    else
        out->m[AL_GPU_XID_ERRORS] = al_value_none((enum al_status)g->xid_status);
}
