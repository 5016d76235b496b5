// SPDX-License-Identifier: Apache-2.0
#include "stack/core/runtime.h"

#define INTERPS_MOST 10000u

int al_runtime_check(const struct al_memory *m, const struct al_layout *l, uint64_t runtime) {
    uint64_t interp, thread, back, id = 0;
    if (!al_memory_u64(m, runtime + l->runtime_interpreters, &interp))
        return 0;
    if (!interp)
        return -1;
    if (!al_address_ok(interp, 8) || !al_memory_u64(m, interp + l->interp_threads, &thread))
        return 0;
    if (!thread)
        return -1;
    if (!al_address_ok(thread, 8) || !al_memory_u64(m, thread + l->thread_interp, &back) || back != interp)
        return 0;
    // The list ends with the main interpreter, number 0.
    for (unsigned n = 0; n < INTERPS_MOST && al_address_ok(interp, 8); n++) {
        if (!al_memory_u64(m, interp + l->interp_id, &id) || id >= 1u << 31 ||
            !al_memory_u64(m, interp + l->interp_next, &interp))
            return 0;
    }
    return interp == 0 && id == 0;
}
