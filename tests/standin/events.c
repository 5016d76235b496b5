// SPDX-License-Identifier: Apache-2.0
// Event sets: Xid events of the scenario, for the devices and from the moment that they are registered for.
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define SUPPORTED 0xff9fULL // 580.159 on an H200
#define KNOWN 0xffffULL
#define BATCH 64

struct nvml_event_set {
    int64_t from_ns[AL_GPU_MAX]; // registered since; -1: not
    int64_t seen_ns;             // events up to here were handed out or queued
    struct al_scenario_xid queue[BATCH];
    size_t next, count;
};

int nvmlDeviceGetSupportedEventTypes(struct nvml_device *d, unsigned long long *out) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (out)
        *out = SUPPORTED;
    return standin_end(out ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlEventSetCreate(struct nvml_event_set **out) {
    struct call c;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    if (!out)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    *out = calloc(1, sizeof **out);
    for (int i = 0; *out && i < AL_GPU_MAX; i++)
        (*out)->from_ns[i] = -1;
    if (*out)
        (*out)->seen_ns = c.at_ns;
    return standin_end(*out ? OK : AL_NVML_ERROR_MEMORY);
}

int nvmlEventSetFree(struct nvml_event_set *set) {
    struct call c;
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    free(set);
    return standin_end(set ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}

int nvmlDeviceRegisterEvents(struct nvml_device *d, unsigned long long types, struct nvml_event_set *set) {
    struct call c;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!set || (types & ~KNOWN))
        return standin_end(set ? AL_NVML_ERROR_NOT_SUPPORTED : AL_NVML_ERROR_INVALID_ARGUMENT);
    if ((types & AL_NVML_EVENT_XID) && set->from_ns[c.gpu] < 0)
        set->from_ns[c.gpu] = c.at_ns;
    return standin_end(OK);
}

// The next event of the set up to now; false when there is none.
static bool next_event(struct call *c, struct nvml_event_set *set, struct nvml_event_data *out) {
    for (;;) {
        if (set->next == set->count) {
            if (set->seen_ns >= c->at_ns)
                return false;
            set->next = 0;
            set->count = al_scenario_xids(c->s, set->seen_ns, c->at_ns, set->queue, BATCH);
            // A full batch may end in the middle of a moment; what else that moment holds is lost, as in a full buffer.
            set->seen_ns = set->count == BATCH ? set->queue[BATCH - 1].at_ns : c->at_ns;
            if (!set->count)
                return false;
        }
        const struct al_scenario_xid *x = &set->queue[set->next++];
        if (set->from_ns[x->gpu] < 0 || x->at_ns < set->from_ns[x->gpu])
            continue;
        *out = (struct nvml_event_data){standin_handle(x->gpu), AL_NVML_EVENT_XID, x->code, AL_NVML_NO_INSTANCE,
                                        AL_NVML_NO_INSTANCE};
        return true;
    }
}

static int wait_event(const char *function, struct nvml_event_set *set, struct nvml_event_data *out,
                      unsigned timeout_ms) {
    struct call c;
    int64_t end_ns = al_monotonic_ns() + (int64_t)timeout_ms * AL_NS_PER_MS;
    for (;;) {
        int result = standin_begin_system(&c, function);
        if (result)
            return result;
        if (!set || !out)
            return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
        if (next_event(&c, set, out))
            return standin_end(OK);
        standin_end(OK);
        int64_t left = end_ns - al_monotonic_ns();
        if (left <= 0)
            return AL_NVML_ERROR_TIMEOUT;
        struct timespec t = {0, left < 2 * AL_NS_PER_MS ? left : 2 * AL_NS_PER_MS};
        nanosleep(&t, NULL);
    }
}

int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event_data *out, unsigned timeout_ms) {
    return wait_event(__func__, set, out, timeout_ms);
}

int nvmlEventSetWait(struct nvml_event_set *set, struct nvml_event_data *out, unsigned timeout_ms) {
    return wait_event(__func__, set, out, timeout_ms);
}
