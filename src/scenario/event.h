// SPDX-License-Identifier: Apache-2.0
// What one word of a scenario's text does to the state, and when.
#ifndef AL_SCENARIO_EVENT_H
#define AL_SCENARIO_EVENT_H

#include "model/gpu.h"

// Which GPUs a line speaks of.
struct al_gpu_mask {
    uint64_t word[AL_GPU_MAX / 64];
};
static inline bool al_gpu_mask_has(const struct al_gpu_mask *m, uint32_t gpu) {
    return (m->word[gpu / 64] >> (gpu % 64)) & 1;
}
static inline void al_gpu_mask_add(struct al_gpu_mask *m, uint32_t gpu) {
    m->word[gpu / 64] |= UINT64_C(1) << (gpu % 64);
}

enum al_event_kind {
    AL_EVENT_GPU,        // target mask, field metric
    AL_EVENT_GPU_LISTS,  // target mask, field 0 processes, 1 process_utilization; status
    AL_EVENT_GPU_STATE,  // target mask, status
    AL_EVENT_GPU_GONE,   // target mask
    AL_EVENT_GPU_INDEX,  // target mask, a: new index
    AL_EVENT_ATTR,       // target mask, field attribute, status, a or text
    AL_EVENT_XID,        // target mask, a code, b count, ramp_ns the time to report (-1: the event's)
    AL_EVENT_NODE,       // field metric
    AL_EVENT_PROC,       // target process: it exists from here on
    AL_EVENT_PROC_FIELD, // target process, field of al_scenario_proc_fields, a or text
    AL_EVENT_PROC_METRIC,
    AL_EVENT_EXIT, // target process
    AL_EVENT_ROW,  // target row: it exists from here on
    AL_EVENT_ROW_FIELD,
    AL_EVENT_UNROW,
    AL_EVENT_HANG,   // text function, ramp_ns since when: an open-ended one, as recorded
    AL_EVENT_FREEZE, // a hang of known length begins: what the device said last stays on
    AL_EVENT_RESUME
};

struct al_event {
    int64_t at_ns;
    int64_t ramp_ns; // 0: constant
    double a, b;
    uint32_t target; // mask, process or row
    uint32_t text;   // offset into the scenario's texts, 0 none
    uint16_t field;
    uint8_t kind, status;
};

#endif
