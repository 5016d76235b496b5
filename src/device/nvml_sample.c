// SPDX-License-Identifier: Apache-2.0
// One sample of all GPUs: which groups are read in which order, and the readings that one call a number gives.
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "device/nvml_backend.h"

#define MHZ 1e6
#define PERCENT 0.01
#define MILLI 1e-3
// "Not supported" is asked again this much later: only a reset, a MIG change or a new driver can change it.
#define QUIET_NS (60 * AL_NS_PER_S)
#define SELDOM_NS (30 * AL_NS_PER_S)
#define NO_FN NVML_FN_COUNT

enum shape {
    U32,      // (device, unsigned *)
    U32_ARG,  // (device, arg, unsigned *)
    U32_1ST,  // (device, unsigned *, unsigned *): the first
    U32_2ND,  // ... and the second
    CELSIUS,  // U32_ARG, or the versioned struct where that is gone
    U64,      // (device, unsigned long long *)
    ECC,      // (device, error type, counter type, unsigned long long *): arg is type * 2 + counter
    ECC_AT,   // ... with a location: arg is (type * 2 + counter) * 8 + location
    PAGES,    // (device, cause, unsigned *count, NULL)
    VIOLATION // (device, policy, struct nvml_violation_time *)
};

// ONCE: constant. FALLBACK: only when the field values had no answer. SELDOM: settings that cost 0.8 ms to read.
enum { ONCE = 1, FALLBACK = 2, SELDOM = 4 };

struct reading {
    uint16_t metric, fn, older; // older: asked when fn is missing
    uint8_t shape, arg, flags;
    uint32_t group;
    double scale;
};

#define ROW(group, metric, shape, fn, arg, scale, flags)                                                               \
    {AL_GPU_##metric, NVML_FN_##fn, NO_FN, shape, arg, flags, AL_GROUP_##group, scale}
#define ECC_ROWS(kind, type, counter)                                                                                  \
    ROW(ECC, ECC_##kind##_TOTAL, ECC, nvmlDeviceGetTotalEccErrors, (type)*2 + (counter), 1, 0),                        \
        ECC_ROW(kind, L1_CACHE, type, counter, AL_NVML_LOCATION_L1_CACHE),                                             \
        ECC_ROW(kind, L2_CACHE, type, counter, AL_NVML_LOCATION_L2_CACHE),                                             \
        ECC_ROW(kind, DRAM, type, counter, AL_NVML_LOCATION_DRAM),                                                     \
        ECC_ROW(kind, REGISTER_FILE, type, counter, AL_NVML_LOCATION_REGISTER_FILE),                                   \
        ECC_ROW(kind, TEXTURE_MEMORY, type, counter, AL_NVML_LOCATION_TEXTURE_MEMORY),                                 \
        ECC_ROW(kind, CBU, type, counter, AL_NVML_LOCATION_CBU),                                                       \
        ECC_ROW(kind, SRAM, type, counter, AL_NVML_LOCATION_SRAM)
#define ECC_ROW(kind, where, type, counter, location)                                                                  \
    ROW(ECC, ECC_##kind##_##where, ECC_AT, nvmlDeviceGetMemoryErrorCounter, ((type)*2 + (counter)) * 8 + (location),   \
        1, 0)

// The costs that put a row in its group were measured on an H200 with driver 580.159.
static const struct reading readings[] = {
    ROW(FAST, POWER, U32, nvmlDeviceGetPowerUsage, 0, MILLI, 0),
    {AL_GPU_TEMP, NVML_FN_nvmlDeviceGetTemperature, NVML_FN_nvmlDeviceGetTemperatureV, CELSIUS, AL_NVML_TEMPERATURE_GPU,
     0, AL_GROUP_FAST, 1},
    ROW(FAST, CLOCK_GR, U32_ARG, nvmlDeviceGetClockInfo, AL_NVML_CLOCK_GRAPHICS, MHZ, 0),
    ROW(FAST, CLOCK_SM, U32_ARG, nvmlDeviceGetClockInfo, AL_NVML_CLOCK_SM, MHZ, 0),
    ROW(FAST, CLOCK_MEM, U32_ARG, nvmlDeviceGetClockInfo, AL_NVML_CLOCK_MEM, MHZ, 0),
    ROW(FAST, CLOCK_VIDEO, U32_ARG, nvmlDeviceGetClockInfo, AL_NVML_CLOCK_VIDEO, MHZ, 0),
    ROW(FAST, PSTATE, U32, nvmlDeviceGetPerformanceState, 0, 1, 0),
    {AL_GPU_THROTTLE, NVML_FN_nvmlDeviceGetCurrentClocksEventReasons,
     NVML_FN_nvmlDeviceGetCurrentClocksThrottleReasons, U64, 0, 0, AL_GROUP_FAST, 1},
    ROW(SLOW, ENC_UTIL, U32_1ST, nvmlDeviceGetEncoderUtilization, 0, PERCENT, 0),
    ROW(SLOW, DEC_UTIL, U32_1ST, nvmlDeviceGetDecoderUtilization, 0, PERCENT, 0),
    ROW(SLOW, JPG_UTIL, U32_1ST, nvmlDeviceGetJpgUtilization, 0, PERCENT, 0),
    ROW(SLOW, OFA_UTIL, U32_1ST, nvmlDeviceGetOfaUtilization, 0, PERCENT, 0),
    ROW(SLOW, FAN, U32, nvmlDeviceGetFanSpeed, 0, PERCENT, 0),
    ROW(SLOW, TEMP_SHUTDOWN, U32_ARG, nvmlDeviceGetTemperatureThreshold, AL_NVML_THRESHOLD_SHUTDOWN, 1, ONCE),
    ROW(SLOW, TEMP_SLOWDOWN, U32_ARG, nvmlDeviceGetTemperatureThreshold, AL_NVML_THRESHOLD_SLOWDOWN, 1, ONCE),
    ROW(SLOW, TEMP_MEM_MAX, U32_ARG, nvmlDeviceGetTemperatureThreshold, AL_NVML_THRESHOLD_MEM_MAX, 1, ONCE),
    ROW(SLOW, TEMP_GPU_MAX, U32_ARG, nvmlDeviceGetTemperatureThreshold, AL_NVML_THRESHOLD_GPU_MAX, 1, ONCE),
    ROW(SLOW, POWER_LIMIT, U32, nvmlDeviceGetPowerManagementLimit, 0, MILLI, 0),
    ROW(SLOW, POWER_ENFORCED, U32, nvmlDeviceGetEnforcedPowerLimit, 0, MILLI, 0),
    ROW(SLOW, POWER_DEFAULT, U32, nvmlDeviceGetPowerManagementDefaultLimit, 0, MILLI, ONCE),
    ROW(SLOW, POWER_MIN, U32_1ST, nvmlDeviceGetPowerManagementLimitConstraints, 0, MILLI, ONCE),
    ROW(SLOW, POWER_MAX, U32_2ND, nvmlDeviceGetPowerManagementLimitConstraints, 0, MILLI, ONCE),
    ROW(SLOW, CLOCK_GR_MAX, U32_ARG, nvmlDeviceGetMaxClockInfo, AL_NVML_CLOCK_GRAPHICS, MHZ, ONCE), // 1.3 ms each
    ROW(SLOW, CLOCK_SM_MAX, U32_ARG, nvmlDeviceGetMaxClockInfo, AL_NVML_CLOCK_SM, MHZ, ONCE),
    ROW(SLOW, CLOCK_MEM_MAX, U32_ARG, nvmlDeviceGetMaxClockInfo, AL_NVML_CLOCK_MEM, MHZ, ONCE),
    ROW(SLOW, CLOCK_VIDEO_MAX, U32_ARG, nvmlDeviceGetMaxClockInfo, AL_NVML_CLOCK_VIDEO, MHZ, ONCE),
    ROW(SLOW, CLOCK_APP_GR, U32_ARG, nvmlDeviceGetApplicationsClock, AL_NVML_CLOCK_GRAPHICS, MHZ, SELDOM),
    ROW(SLOW, CLOCK_APP_MEM, U32_ARG, nvmlDeviceGetApplicationsClock, AL_NVML_CLOCK_MEM, MHZ, SELDOM),
    ROW(SLOW, CLOCK_DEFAPP_GR, U32_ARG, nvmlDeviceGetDefaultApplicationsClock, AL_NVML_CLOCK_GRAPHICS, MHZ, ONCE),
    ROW(SLOW, CLOCK_DEFAPP_MEM, U32_ARG, nvmlDeviceGetDefaultApplicationsClock, AL_NVML_CLOCK_MEM, MHZ, ONCE),
    // What field values tell for 1 us costs 0.6 ms a call here, so these are for drivers without the fields.
    ROW(SLOW, ENERGY, U64, nvmlDeviceGetTotalEnergyConsumption, 0, MILLI, FALLBACK),
    ROW(SLOW, VIOL_POWER, VIOLATION, nvmlDeviceGetViolationStatus, AL_NVML_POLICY_POWER, 1e-9, FALLBACK),
    ROW(SLOW, VIOL_THERMAL, VIOLATION, nvmlDeviceGetViolationStatus, AL_NVML_POLICY_THERMAL, 1e-9, FALLBACK),
    ROW(LINK, PCIE_GEN, U32, nvmlDeviceGetCurrPcieLinkGeneration, 0, 1, 0),
    ROW(LINK, PCIE_GEN_MAX, U32, nvmlDeviceGetMaxPcieLinkGeneration, 0, 1, ONCE),
    ROW(LINK, PCIE_GEN_GPU_MAX, U32, nvmlDeviceGetGpuMaxPcieLinkGeneration, 0, 1, ONCE),
    ROW(LINK, PCIE_WIDTH, U32, nvmlDeviceGetCurrPcieLinkWidth, 0, 1, 0),
    ROW(LINK, PCIE_WIDTH_MAX, U32, nvmlDeviceGetMaxPcieLinkWidth, 0, 1, ONCE),
    ROW(LINK, PCIE_REPLAY, U32, nvmlDeviceGetPcieReplayCounter, 0, 1, 0),
    // NVML calls it KB/s and counts over 20 ms; the call blocks that long.
    ROW(PCIE, PCIE_TX, U32_ARG, nvmlDeviceGetPcieThroughput, AL_NVML_PCIE_UTIL_TX_BYTES, 1e3, 0),
    ROW(PCIE, PCIE_RX, U32_ARG, nvmlDeviceGetPcieThroughput, AL_NVML_PCIE_UTIL_RX_BYTES, 1e3, 0),
    ECC_ROWS(COR_VOL, AL_NVML_ERROR_CORRECTED, AL_NVML_VOLATILE_ECC),
    ECC_ROWS(COR_AGG, AL_NVML_ERROR_CORRECTED, AL_NVML_AGGREGATE_ECC),
    ECC_ROWS(UNC_VOL, AL_NVML_ERROR_UNCORRECTED, AL_NVML_VOLATILE_ECC),
    ECC_ROWS(UNC_AGG, AL_NVML_ERROR_UNCORRECTED, AL_NVML_AGGREGATE_ECC),
    ROW(ECC, RETIRED_SBE, PAGES, nvmlDeviceGetRetiredPages, AL_NVML_RETIREMENT_SBE, 1, 0),
    ROW(ECC, RETIRED_DBE, PAGES, nvmlDeviceGetRetiredPages, AL_NVML_RETIREMENT_DBE, 1, 0),
    ROW(ECC, RETIRED_PENDING, U32, nvmlDeviceGetRetiredPagesPendingStatus, 0, 1, 0),
};
#define READINGS (sizeof readings / sizeof *readings)
_Static_assert(READINGS <= AL_NVML_ROWS_MAX, "al_nvml_gpu.readings is too short");

union answer {
    unsigned u[2];
    unsigned long long wide;
    struct nvml_violation_time violation;
};

typedef int u32_fn(struct nvml_device *, unsigned *);
typedef int u32_arg_fn(struct nvml_device *, unsigned, unsigned *);
typedef int u32_pair_fn(struct nvml_device *, unsigned *, unsigned *);
typedef int u64_fn(struct nvml_device *, unsigned long long *);

// `fn` is not absent.
static int ask(struct al_nvml *n, struct nvml_device *d, const struct reading *r, uint16_t fn, union answer *a) {
    void (*f)(void) = n->api.by_number[fn];
    unsigned arg = r->arg;
    switch ((enum shape)r->shape) {
    case U32:
        return ((u32_fn *)f)(d, &a->u[0]);
    case U32_ARG:
        return ((u32_arg_fn *)f)(d, arg, &a->u[0]);
    case U32_1ST:
        return ((u32_pair_fn *)f)(d, &a->u[0], &a->u[1]);
    case U32_2ND:
        return ((u32_pair_fn *)f)(d, &a->u[1], &a->u[0]);
    case CELSIUS: {
        struct nvml_temperature t = {NVML_WORD(struct nvml_temperature, 1), arg, 0};
        if (fn == NVML_FN_nvmlDeviceGetTemperature)
            return ((u32_arg_fn *)f)(d, arg, &a->u[0]);
        int result = n->api.nvmlDeviceGetTemperatureV(d, &t);
        a->u[0] = (unsigned)t.temperature;
        return result;
    }
    case U64:
        return ((u64_fn *)f)(d, &a->wide);
    case ECC:
        return n->api.nvmlDeviceGetTotalEccErrors(d, arg / 2, arg % 2, &a->wide);
    case ECC_AT:
        return n->api.nvmlDeviceGetMemoryErrorCounter(d, arg / 16, arg / 8 % 2, arg % 8, &a->wide);
    case PAGES: { // asked for their number only: "insufficient size" is the answer when there are some
        int result = n->api.nvmlDeviceGetRetiredPages(d, arg, &a->u[0], NULL);
        return result == AL_NVML_ERROR_INSUFFICIENT_SIZE ? AL_NVML_SUCCESS : result;
    }
    case VIOLATION:
        return n->api.nvmlDeviceGetViolationStatus(d, arg, &a->violation);
    }
    return AL_NVML_ERROR_UNKNOWN;
}

static int call(struct al_nvml *n, struct nvml_device *d, const struct reading *r, union answer *a) {
    uint16_t fn = n->api.by_number[r->fn] || r->older == NO_FN ? r->fn : r->older;
    memset(a, 0, sizeof *a);
    if (!n->api.by_number[fn])
        return AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    al_nvml_begin(n, (enum al_nvml_fn)fn);
    return al_nvml_end(n, (enum al_nvml_fn)fn, ask(n, d, r, fn, a));
}

// A MIG device answers "invalid argument" to much of what only the whole GPU has.
static int for_mig(const struct al_nvml_gpu *g, int result) {
    return g->info.is_mig && result == AL_NVML_ERROR_INVALID_ARGUMENT ? AL_NVML_ERROR_NOT_SUPPORTED : result;
}

static struct al_value number(const struct al_nvml *n, const struct reading *r, int result, const union answer *a) {
    bool wide = r->shape == U64 || r->shape == ECC || r->shape == ECC_AT || r->shape == VIOLATION;
    uint64_t raw = r->shape == VIOLATION ? a->violation.violationTime : wide ? a->wide : a->u[0];
    double num = r->shape == CELSIUS ? (int)a->u[0] : (double)raw;
    if (result == AL_NVML_SUCCESS && al_nvml_blank(raw, wide))
        return al_value_none(AL_STATUS_UNSUPPORTED);
    if (result == AL_NVML_SUCCESS && r->metric == AL_GPU_PSTATE && raw == AL_NVML_PSTATE_UNKNOWN)
        return al_value_none(AL_STATUS_UNSUPPORTED);
    return al_nvml_value(n, (enum al_gpu_metric)r->metric, result, al_nvml_scaled(num, r->scale));
}

static void keep(struct al_nvml *n, struct al_nvml_kept *k, struct al_value v, int flags) {
    if (v.status == AL_STATUS_OK && (flags & (ONCE | SELDOM)))
        *k = (struct al_nvml_kept){v.num, flags & ONCE ? INT64_MAX : n->tick_ns + SELDOM_NS, AL_STATUS_OK};
    else if (al_nvml_no_answer(v.status))
        *k = (struct al_nvml_kept){0, n->tick_ns + QUIET_NS, v.status};
}

static void read_one(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, const struct reading *r,
                     struct al_nvml_kept *k) {
    union answer a;
    struct al_value *to = &out->m[r->metric];
    bool quiet = k->status != AL_STATUS_UNREAD && n->tick_ns < k->until_ns && r->group != AL_GROUP_FAST;
    if ((r->flags & FALLBACK) && !al_nvml_no_answer(to->status))
        return;
    if (quiet) {
        int64_t at_ns = r->flags & SELDOM ? k->until_ns - SELDOM_NS : n->tick_ns; // a constant is true now too
        *to = (struct al_value){k->num, k->status == AL_STATUS_OK ? at_ns : 0, k->status};
        return;
    }
    *to = number(n, r, for_mig(g, call(n, g->handle, r, &a)), &a);
    keep(n, k, *to, r->flags);
}

static void read_rates(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    struct nvml_utilization u = {0, 0};
    int result = for_mig(g, NVML(n, nvmlDeviceGetUtilizationRates, (g->handle, &u)));
    out->m[AL_GPU_UTIL] = al_nvml_value(n, AL_GPU_UTIL, result, al_nvml_scaled(u.gpu, PERCENT));
    out->m[AL_GPU_MEM_UTIL] = al_nvml_value(n, AL_GPU_MEM_UTIL, result, al_nvml_scaled(u.memory, PERCENT));
}

// The v2 struct with another version word than the driver knows is answered by "function not found" (580.159). v1's
// "used" holds the reserve too, of which nothing is known then.
static int ask_memory(struct al_nvml *n, struct nvml_device *d, struct nvml_memory_v2 *m, bool *ret_reserved) {
    memset(m, 0, sizeof *m);
    m->version = NVML_WORD(struct nvml_memory_v2, 2);
    int result = NVML(n, nvmlDeviceGetMemoryInfo_v2, (d, m));
    *ret_reserved = result == AL_NVML_SUCCESS;
    if (result != AL_NVML_ERROR_FUNCTION_NOT_FOUND && result != AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH &&
        result != AL_NVML_ERROR_INVALID_ARGUMENT && result != AL_NVML_ERROR_NOT_SUPPORTED)
        return result;
    struct nvml_memory old = {0, 0, 0};
    result = NVML(n, nvmlDeviceGetMemoryInfo, (d, &old));
    m->total = old.total;
    m->free = old.free;
    m->used = old.used;
    return result;
}

static void read_memory(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    struct nvml_memory_v2 m;
    bool reserved;
    int result = for_mig(g, ask_memory(n, g->handle, &m, &reserved));
    // Boards that share the host's memory answer NOT_SUPPORTED, some a total of 0: told by the answer, not the model.
    if (result == AL_NVML_SUCCESS && m.total == 0)
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    if (result == AL_NVML_SUCCESS && (m.used > m.total || m.free > m.total || m.reserved > m.total))
        result = AL_NVML_ERROR_UNKNOWN;
    if (result == AL_NVML_SUCCESS || result == AL_NVML_ERROR_NOT_SUPPORTED)
        g->info.unified_memory = result == AL_NVML_ERROR_NOT_SUPPORTED && !g->info.is_mig;
    out->m[AL_GPU_MEM_TOTAL] = al_nvml_value(n, AL_GPU_MEM_TOTAL, result, (double)m.total);
    out->m[AL_GPU_MEM_USED] = al_nvml_value(n, AL_GPU_MEM_USED, result, (double)m.used);
    out->m[AL_GPU_MEM_FREE] = al_nvml_value(n, AL_GPU_MEM_FREE, result, (double)m.free);
    out->m[AL_GPU_MEM_RESERVED] = result == AL_NVML_SUCCESS && !reserved
                                      ? al_value_none(AL_STATUS_UNSUPPORTED)
                                      : al_nvml_value(n, AL_GPU_MEM_RESERVED, result, (double)m.reserved);
}

// Structs that one call fills: metrics by offset.
struct member {
    uint16_t metric, offset;
    bool wide;
};
#define WIDE(metric, type, name) {AL_GPU_##metric, offsetof(struct type, name), true}
#define WORD(metric, type, name) {AL_GPU_##metric, offsetof(struct type, name), false}

static const struct member bar1_members[] = {WIDE(BAR1_TOTAL, nvml_bar1_memory, bar1Total),
                                             WIDE(BAR1_USED, nvml_bar1_memory, bar1Used)};
static const struct member sram_members[] = {
    WIDE(SRAM_UNC_VOL_PARITY, nvml_sram_errors, volatileUncParity),
    WIDE(SRAM_UNC_VOL_SECDED, nvml_sram_errors, volatileUncSecDed),
    WIDE(SRAM_UNC_AGG_PARITY, nvml_sram_errors, aggregateUncParity),
    WIDE(SRAM_UNC_AGG_SECDED, nvml_sram_errors, aggregateUncSecDed),
    WIDE(SRAM_UNC_AGG_L2, nvml_sram_errors, aggregateUncBucketL2),
    WIDE(SRAM_UNC_AGG_SM, nvml_sram_errors, aggregateUncBucketSm),
    WIDE(SRAM_UNC_AGG_MCU, nvml_sram_errors, aggregateUncBucketMcu),
    WIDE(SRAM_UNC_AGG_PCIE, nvml_sram_errors, aggregateUncBucketPcie),
    WIDE(SRAM_UNC_AGG_OTHER, nvml_sram_errors, aggregateUncBucketOther),
    WORD(SRAM_THRESHOLD, nvml_sram_errors, bThresholdExceeded)};
static const struct member remap_members[] = {WORD(REMAP_COR, nvml_remapped_rows_v2, corrActiveRemaps),
                                              WORD(REMAP_UNC, nvml_remapped_rows_v2, uncActiveRemaps),
                                              WORD(REMAP_PENDING, nvml_remapped_rows_v2, bPending),
                                              WORD(REMAP_FAILED, nvml_remapped_rows_v2, bFailureOccurred)};
static const struct member histogram_members[] = {WORD(REMAP_HIST_MAX, nvml_row_remapper_histogram, max),
                                                  WORD(REMAP_HIST_HIGH, nvml_row_remapper_histogram, high),
                                                  WORD(REMAP_HIST_PARTIAL, nvml_row_remapper_histogram, partial),
                                                  WORD(REMAP_HIST_LOW, nvml_row_remapper_histogram, low),
                                                  WORD(REMAP_HIST_NONE, nvml_row_remapper_histogram, none)};

union structs {
    struct nvml_bar1_memory bar1;
    struct nvml_sram_errors sram;
    struct nvml_remapped_rows_v2 remapped;
    struct nvml_row_remapper_histogram histogram;
    struct nvml_margin_temperature margin;
};

static int ask_bar1(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetBAR1MemoryInfo, (d, &s->bar1));
}
static int ask_sram(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    s->sram.version = NVML_WORD(struct nvml_sram_errors, 1);
    return NVML(n, nvmlDeviceGetSramEccErrorStatus, (d, &s->sram));
}
static int ask_remapped(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    struct nvml_remapped_rows_v2 *r = &s->remapped;
    int result = NVML(n, nvmlDeviceGetRemappedRows_v2, (d, r));
    if (result != AL_NVML_ERROR_FUNCTION_NOT_FOUND)
        return result;
    return NVML(n, nvmlDeviceGetRemappedRows,
                (d, &r->corrActiveRemaps, &r->uncActiveRemaps, &r->bPending, &r->bFailureOccurred));
}
static int ask_histogram(struct al_nvml *n, struct nvml_device *d, union structs *s) {
    return NVML(n, nvmlDeviceGetRowRemapperHistogram, (d, &s->histogram));
}

static const struct {
    int (*ask)(struct al_nvml *n, struct nvml_device *d, union structs *s);
    const struct member *members;
    size_t count;
    uint32_t group;
} structs[] = {
    {ask_bar1, bar1_members, sizeof bar1_members / sizeof *bar1_members, AL_GROUP_SLOW},
    {ask_sram, sram_members, sizeof sram_members / sizeof *sram_members, AL_GROUP_ECC},
    {ask_remapped, remap_members, sizeof remap_members / sizeof *remap_members, AL_GROUP_ECC},
    {ask_histogram, histogram_members, sizeof histogram_members / sizeof *histogram_members, AL_GROUP_ECC},
};

static struct al_value member_value(const struct al_nvml *n, const struct member *m, int result,
                                    const union structs *s) {
    unsigned long long wide = 0;
    unsigned word = 0;
    if (m->wide)
        memcpy(&wide, (const char *)s + m->offset, sizeof wide);
    else
        memcpy(&word, (const char *)s + m->offset, sizeof word);
    uint64_t raw = m->wide ? wide : word;
    if (result == AL_NVML_SUCCESS && al_nvml_blank(raw, m->wide))
        return al_value_none(AL_STATUS_UNSUPPORTED);
    return al_nvml_value(n, (enum al_gpu_metric)m->metric, result, (double)raw);
}

static void read_structs(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, uint32_t group) {
    union structs s;
    for (size_t i = 0; i < sizeof structs / sizeof *structs; i++) {
        struct al_nvml_kept *k = &g->structs[i];
        bool quiet = k->status != AL_STATUS_UNREAD && n->tick_ns < k->until_ns;
        if (structs[i].group != group)
            continue;
        memset(&s, 0, sizeof s);
        int result = quiet ? AL_NVML_SUCCESS : for_mig(g, structs[i].ask(n, g->handle, &s));
        if (result != AL_NVML_SUCCESS)
            keep(n, k, al_value_none(al_nvml_status(result)), 0);
        for (size_t j = 0; j < structs[i].count; j++)
            out->m[structs[i].members[j].metric] =
                quiet ? al_value_none((enum al_status)k->status) : member_value(n, &structs[i].members[j], result, &s);
    }
}

static void read_margin(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    struct al_nvml_kept *k = &g->structs[15];
    if (k->status != AL_STATUS_UNREAD && n->tick_ns < k->until_ns) {
        out->m[AL_GPU_TEMP_MARGIN] = al_value_none((enum al_status)k->status);
        return;
    }
    struct nvml_margin_temperature t = {NVML_WORD(struct nvml_margin_temperature, 1), 0};
    int result = for_mig(g, NVML(n, nvmlDeviceGetMarginTemperature, (g->handle, &t)));
    out->m[AL_GPU_TEMP_MARGIN] = al_nvml_value(n, AL_GPU_TEMP_MARGIN, result, t.marginTemperature);
    keep(n, k, out->m[AL_GPU_TEMP_MARGIN], 0);
}

static void read_table(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, uint32_t group) {
    for (size_t i = 0; i < READINGS; i++)
        if (readings[i].group == group)
            read_one(n, g, out, &readings[i], &g->readings[i]);
}

static void read_ecc(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    read_table(n, g, out, AL_GROUP_ECC);
    read_structs(n, g, out, AL_GROUP_ECC);
    // One location with two names: on boards with HBM "device memory" and "DRAM" are the same counter.
    out->m[AL_GPU_ECC_COR_VOL_DEVICE_MEMORY] = out->m[AL_GPU_ECC_COR_VOL_DRAM];
    out->m[AL_GPU_ECC_COR_AGG_DEVICE_MEMORY] = out->m[AL_GPU_ECC_COR_AGG_DRAM];
    out->m[AL_GPU_ECC_UNC_VOL_DEVICE_MEMORY] = out->m[AL_GPU_ECC_UNC_VOL_DRAM];
    out->m[AL_GPU_ECC_UNC_AGG_DEVICE_MEMORY] = out->m[AL_GPU_ECC_UNC_AGG_DRAM];
}

static void read_link(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    read_table(n, g, out, AL_GROUP_LINK);
    out->m[AL_GPU_PCIE_GEN_NOW_GPU] = out->m[AL_GPU_PCIE_GEN]; // NVML reads the GPU's own register
    out->m[AL_GPU_PCIE_GEN_HOST_MAX] = al_value_none(AL_STATUS_UNSUPPORTED); // no public call
    al_nvml_read_fields(n, g, out, AL_GROUP_LINK);
    al_nvml_read_links(n, g, out);
}

static void read_slow(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    al_nvml_read_fields(n, g, out, AL_GROUP_SLOW);
    read_table(n, g, out, AL_GROUP_SLOW); // behind the fields, for which it has fallbacks
    read_structs(n, g, out, AL_GROUP_SLOW);
    read_margin(n, g, out);
}

static void read_fast(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    read_rates(n, g, out);
    read_memory(n, g, out);
    read_table(n, g, out, AL_GROUP_FAST);
    out->m[AL_GPU_UTIL_MEAN] = out->m[AL_GPU_UTIL]; // until the driver's samples say better
}

// GPU_IS_LOST from one call is that cell's answer; from three, or with no call left that answers, the GPU's.
static void judge(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    if (n->answers_lost >= 3 || (n->answers_lost && !n->answers_ok))
        al_nvml_mark_lost(n, g, AL_STATUS_LOST);
    out->info.status = g->info.status;
    if (g->info.status == AL_STATUS_OK && n->answers_reset)
        out->info.status = AL_STATUS_RESET;
}

static void all_unknown(struct al_gpu *out, uint32_t groups, uint32_t status) {
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (al_gpu_metrics[m].group & groups)
            out->m[m] = al_value_none((enum al_status)status);
    if (groups & (AL_GROUP_PROCESS | AL_GROUP_PROCUTIL))
        out->process_status = status;
    if (groups & AL_GROUP_PROCUTIL)
        out->procutil_status = status;
    out->fresh_count = 0;
}

static const struct {
    uint32_t group;
    void (*read)(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out);
} readers[] = {
    {AL_GROUP_FAST, read_fast},       {AL_GROUP_SAMPLES, al_nvml_drain}, {AL_GROUP_SLOW, read_slow},
    {AL_GROUP_LINK, read_link},       {AL_GROUP_ECC, read_ecc},          {AL_GROUP_GPM, al_nvml_read_gpm},
    {AL_GROUP_XID, al_nvml_put_xid},
};

static void sample_gpu(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t position,
                       uint32_t groups) {
    struct al_gpu *out = &s->gpus[position];
    uint32_t first_row = s->row_count;
    n->answers_ok = n->answers_lost = n->answers_reset = 0;
    for (size_t i = 0; g->handle && g->info.status == AL_STATUS_OK && i < sizeof readers / sizeof *readers; i++) {
        if (groups & readers[i].group)
            readers[i].read(n, g, out);
        if (readers[i].group == AL_GROUP_FAST)
            judge(n, g, out);
    }
    if (g->handle && g->info.status == AL_STATUS_OK && (groups & AL_GROUP_PCIE))
        read_table(n, g, out, AL_GROUP_PCIE);
    if (g->handle && g->info.status == AL_STATUS_OK && (groups & (AL_GROUP_PROCESS | AL_GROUP_PROCUTIL)))
        al_nvml_read_processes(n, g, s, position, groups & AL_GROUP_PROCUTIL);
    judge(n, g, out);
    if (g->info.status != AL_STATUS_OK) {
        s->row_count = first_row;
        all_unknown(out, groups, g->info.status);
        if (groups & AL_GROUP_XID)
            al_nvml_put_xid(n, g, out);
    }
}

static int show(struct al_nvml *n, struct al_snapshot *s) {
    n->shown_count = 0;
    for (uint32_t i = 0; i < n->order_count; i++) {
        struct al_nvml_gpu *g = n->order[i];
        if (!g->selected)
            continue;
        struct al_gpu *out = al_snapshot_add_gpu(s);
        if (!out)
            return AL_E_NOMEM;
        out->info = g->info;
        out->info.parent = -1;
        for (uint32_t p = 0; g->info.parent >= 0 && p < n->shown_count; p++)
            if (n->shown[p] == n->gpus[g->info.parent])
                out->info.parent = (int32_t)p;
        n->shown[n->shown_count++] = g;
    }
    return 0;
}

int al_nvml_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    struct al_nvml *n = (struct al_nvml *)d;
    n->tick_ns = now_ns;
    n->tick_mono_ns = n->call_end_ns = n->monotonic();
    al_nvml_maintain(n);
    (void)al_str_copy(s->node.driver_version, sizeof s->node.driver_version, n->driver_version);
    (void)al_str_copy(s->node.nvml_version, sizeof s->node.nvml_version, n->nvml_version);
    (void)al_str_copy(s->node.cuda_version, sizeof s->node.cuda_version, n->cuda_version);
    s->gpu_count = s->row_count = 0;
    int result = show(n, s);
    if (result)
        return result;
    if (groups & AL_GROUP_XID)
        al_nvml_read_xid(n);
    for (uint32_t i = 0; i < n->shown_count; i++)
        sample_gpu(n, n->shown[i], s, i, groups);
    for (uint32_t i = 0; i < n->shown_count; i++)
        s->gpus[i].info.unified_memory = n->shown[i]->info.unified_memory;
    return 0;
}
