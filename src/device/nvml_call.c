// SPDX-License-Identifier: Apache-2.0
// What surrounds every driver call: watch, cost, result codes, plausibility.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "device/nvml_backend.h"

const char *al_nvml_function_name(enum al_nvml_fn fn) {
    static const char *const names[] = {
#define X(name, params) #name,
        AL_NVML_FUNCTIONS(X)
#undef X
    };
    return fn < NVML_FN_COUNT ? names[fn] : "?";
}

void al_nvml_begin(struct al_nvml *n, enum al_nvml_fn fn) {
    n->call_start_ns = n->monotonic();
    atomic_store_explicit(&n->base.watch.since_ns, n->call_start_ns, memory_order_relaxed);
    atomic_store_explicit(&n->base.watch.name, al_nvml_function_name(fn), memory_order_release);
}

// One thread writes, so load and store need no read-modify-write.
static void add(_Atomic int64_t *to, int64_t ns) {
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + ns, memory_order_relaxed);
}

static void count(_Atomic uint64_t *to) {
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + 1, memory_order_relaxed);
}

int al_nvml_end(struct al_nvml *n, enum al_nvml_fn fn, int result) {
    struct al_nvml_cost *c = &n->cost[fn];
    n->call_end_ns = n->monotonic();
    int64_t ns = n->call_end_ns - n->call_start_ns;
    atomic_store_explicit(&n->base.watch.name, NULL, memory_order_release);
    if (atomic_load_explicit(&c->calls, memory_order_relaxed) == 0 ||
        ns < atomic_load_explicit(&c->min_ns, memory_order_relaxed))
        atomic_store_explicit(&c->min_ns, ns, memory_order_relaxed);
    if (ns > atomic_load_explicit(&c->max_ns, memory_order_relaxed))
        atomic_store_explicit(&c->max_ns, ns, memory_order_relaxed);
    add(&c->total_ns, ns);
    count(&c->calls);
    if (result != AL_NVML_SUCCESS)
        count(&c->errors);
    n->last_result = result;
    n->answers_ok += result == AL_NVML_SUCCESS;
    n->answers_lost += result == AL_NVML_ERROR_GPU_IS_LOST;
    n->answers_reset += result == AL_NVML_ERROR_RESET_REQUIRED;
    if (result == AL_NVML_ERROR_UNINITIALIZED || result == AL_NVML_ERROR_DRIVER_NOT_LOADED)
        n->lost_driver = true;
    return result;
}

enum al_status al_nvml_status(int result) {
    switch (result) {
    case AL_NVML_SUCCESS:
        return AL_STATUS_OK;
    case AL_NVML_ERROR_NOT_SUPPORTED:
        return AL_STATUS_UNSUPPORTED;
    case AL_NVML_ERROR_NO_PERMISSION:
        return AL_STATUS_DENIED;
    case AL_NVML_ERROR_GPU_IS_LOST:
        return AL_STATUS_LOST;
    case AL_NVML_ERROR_RESET_REQUIRED:
        return AL_STATUS_RESET;
    case AL_NVML_ERROR_FUNCTION_NOT_FOUND:
        return AL_STATUS_MISSING;
    case AL_NVML_ERROR_DEPRECATED:
        return AL_STATUS_DEPRECATED;
    case AL_NVML_ERROR_TIMEOUT:
        return AL_STATUS_TIMEOUT;
    default:
        return AL_STATUS_ERROR;
    }
}

const char *al_nvml_result_text(int result) {
    static const struct {
        int result;
        const char *text;
    } names[] = {
#define X(name, value) {value, #name},
        AL_NVML_RESULTS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].result == result)
            return names[i].text;
    return "an unknown result";
}

int64_t al_nvml_now(const struct al_nvml *n) {
    return n->tick_ns + (n->call_end_ns > n->tick_mono_ns ? n->call_end_ns - n->tick_mono_ns : 0);
}

size_t al_nvml_stats(struct al_device *d, struct al_call_stat *ret, size_t max) {
    struct al_nvml *n = (struct al_nvml *)d;
    size_t rows = 0;
    for (int fn = 0; fn < NVML_FN_COUNT && rows < max; fn++) {
        struct al_nvml_cost *c = &n->cost[fn];
        uint64_t calls = atomic_load_explicit(&c->calls, memory_order_relaxed);
        if (!calls)
            continue;
        ret[rows++] = (struct al_call_stat){.name = al_nvml_function_name((enum al_nvml_fn)fn),
                                            .calls = calls,
                                            .errors = atomic_load_explicit(&c->errors, memory_order_relaxed),
                                            .total_ns = atomic_load_explicit(&c->total_ns, memory_order_relaxed),
                                            .max_ns = atomic_load_explicit(&c->max_ns, memory_order_relaxed),
                                            .min_ns = atomic_load_explicit(&c->min_ns, memory_order_relaxed)};
    }
    return rows;
}

// All ones is what the driver leaves where it has no value; 0x7ff…f0 to f3 are the blanks of the tools above it.
bool al_nvml_blank(uint64_t value, bool wide) {
    if (wide)
        return value == UINT64_MAX || (value >= 0x7ffffffffffffff0ULL && value <= 0x7ffffffffffffff3ULL);
    return value == UINT32_MAX || (value >= 0x7ffffff0U && value <= 0x7ffffff3U);
}

bool al_nvml_no_answer(uint32_t status) {
    return status == AL_STATUS_UNSUPPORTED || status == AL_STATUS_MISSING || status == AL_STATUS_DEPRECATED;
}

static bool plausible(enum al_gpu_metric metric, double num) {
    if (!isfinite(num))
        return false;
    switch (al_gpu_metrics[metric].unit) {
    case AL_UNIT_RATIO: // a fan may be driven above its rated speed
        return num >= 0 && num <= (metric == AL_GPU_FAN ? 2.0 : 1.0);
    case AL_UNIT_CELSIUS:
        return num > -274 && num < 300;
    case AL_UNIT_WATTS:
        return num >= 0 && num < 100e3;
    case AL_UNIT_HERTZ:
        return num >= 0 && num < 100e9;
    default:
        return num >= 0;
    }
}

struct al_value al_nvml_value(const struct al_nvml *n, enum al_gpu_metric metric, int result, double num) {
    if (result != AL_NVML_SUCCESS)
        return al_value_none(al_nvml_status(result));
    return plausible(metric, num) ? al_value_ok(num, al_nvml_now(n)) : al_value_none(AL_STATUS_ERROR);
}

int al_nvml_grow(void **array, uint32_t *cap, uint32_t want, size_t element) {
    if (want <= *cap)
        return 0;
    if (want > 1U << 24)
        return AL_E_TOOBIG;
    void *bigger = realloc(*array, (size_t)want * element);
    if (!bigger)
        return AL_E_NOMEM;
    memset((char *)bigger + (size_t)*cap * element, 0, (size_t)(want - *cap) * element);
    *array = bigger;
    *cap = want;
    return 0;
}
