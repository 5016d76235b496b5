// SPDX-License-Identifier: Apache-2.0
// What one word of a scenario's text does to the state, and when.
#ifndef AL_SCENARIO_CHANGE_H
#define AL_SCENARIO_CHANGE_H

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

enum al_change_kind {
    AL_CHANGE_GPU,        // target mask, field metric
    AL_CHANGE_GPU_LISTS,  // target mask, field 0 processes, 1 process_utilization; status
    AL_CHANGE_GPU_STATE,  // target mask, status
    AL_CHANGE_GPU_GONE,   // target mask
    AL_CHANGE_GPU_INDEX,  // target mask, a: new index
    AL_CHANGE_ATTR,       // target mask, field attribute, status, a or text
    AL_CHANGE_XID,        // target mask, a code, b count, ramp_ns the time to report (-1: the event's)
    AL_CHANGE_NODE,       // field metric
    AL_CHANGE_PROC,       // target process: it exists from here on
    AL_CHANGE_PROC_FIELD, // target process, field of al_scenario_proc_fields, a or text
    AL_CHANGE_PROC_METRIC,
    AL_CHANGE_EXIT, // target process
    AL_CHANGE_ROW,  // target row: it exists from here on
    AL_CHANGE_ROW_FIELD,
    AL_CHANGE_UNROW,
    AL_CHANGE_RANK, // target rank: it tells of itself from here on
    AL_CHANGE_RANK_FIELD, // target rank, field of al_scenario_rank_fields, a or text
    AL_CHANGE_RANK_METRIC,
    AL_CHANGE_UNRANK,
    AL_CHANGE_LOOK, // target look: it was seen from here on
    AL_CHANGE_LOOK_FIELD, // target look, field of al_scenario_look_fields, a or text
    AL_CHANGE_LOOK_METRIC,
    AL_CHANGE_UNLOOK,
    AL_CHANGE_HANG,   // text function, ramp_ns since when: an open-ended one, as recorded
    AL_CHANGE_FREEZE, // a hang of known length begins: what the device said last stays on
    AL_CHANGE_RESUME
};

struct al_change {
    int64_t at_ns;
    int64_t ramp_ns; // 0: constant
    double a, b;
    uint32_t target; // mask, process or row
    uint32_t text;   // offset into the scenario's texts, 0 none
    uint16_t field;
    uint8_t kind, status;
};

#endif
