// SPDX-License-Identifier: Apache-2.0
// Field values, read in one call a group, and NVLink, whose counters come link by link on newer drivers.
#include <string.h>

#include "base/clock.h"
#include "device/nvml_backend.h"

#define QUIET_NS (60 * AL_NS_PER_S)
// The energy counter costs 3 to 5 ms of CPU a reading, more than all the rest: it is read this seldom.
#define ENERGY_NS (5 * AL_NS_PER_S)
#define ALL_LINKS 0xffffffffU
#define SCOPE_MODULE 1
#define NANO 1e-9
#define MILLI 1e-3

struct field {
    uint16_t metric;
    uint16_t id;
    uint32_t scope;
    uint32_t group;
    double scale;
};

#define ROW(group, metric, id, scope, scale) {AL_GPU_##metric, AL_NVML_FI_##id, scope, AL_GROUP_##group, scale}

// Two rows of one metric are summed. Energy costs 2.5 to 4.5 ms (H200, 580.159), the rest about 1 us each.
static const struct field fields[] = {
    ROW(SLOW, TEMP_MEM, MEMORY_TEMP, 0, 1),
    ROW(SLOW, ENERGY, TOTAL_ENERGY, 0, MILLI),
    ROW(SLOW, POWER_AVG, POWER_AVERAGE, 0, MILLI),
    ROW(SLOW, POWER_INST, POWER_INSTANT, 0, MILLI),
    ROW(SLOW, MODULE_POWER_AVG, POWER_AVERAGE, SCOPE_MODULE, MILLI),
    ROW(SLOW, MODULE_POWER_INST, POWER_INSTANT, SCOPE_MODULE, MILLI),
    ROW(SLOW, VIOL_POWER, PERF_POLICY_POWER, 0, NANO),
    ROW(SLOW, VIOL_THERMAL, PERF_POLICY_THERMAL, 0, NANO),
    ROW(SLOW, VIOL_SYNC_BOOST, PERF_POLICY_SYNC_BOOST, 0, NANO),
    ROW(SLOW, VIOL_BOARD_LIMIT, PERF_POLICY_BOARD_LIMIT, 0, NANO),
    ROW(SLOW, VIOL_LOW_UTIL, PERF_POLICY_LOW_UTILIZATION, 0, NANO),
    ROW(SLOW, VIOL_RELIABILITY, PERF_POLICY_RELIABILITY, 0, NANO),
    ROW(SLOW, VIOL_TOTAL_APP, PERF_POLICY_TOTAL_APP_CLOCKS, 0, NANO),
    ROW(SLOW, VIOL_TOTAL_BASE, PERF_POLICY_TOTAL_BASE_CLOCKS, 0, NANO),
    ROW(SLOW, EVENT_SW_THERMAL, EVENT_SW_THERM_SLOWDOWN, 0, NANO),
    ROW(SLOW, EVENT_HW_THERMAL, EVENT_HW_THERM_SLOWDOWN, 0, NANO),
    ROW(SLOW, EVENT_HW_BRAKE, EVENT_HW_POWER_BRAKE, 0, NANO),
    ROW(LINK, NVLINK_TX, NVLINK_DATA_TX, ALL_LINKS, 1024),
    ROW(LINK, NVLINK_RX, NVLINK_DATA_RX, ALL_LINKS, 1024),
    ROW(LINK, NVLINK_CRC, NVLINK_CRC_FLIT_TOTAL, 0, 1),
    ROW(LINK, NVLINK_CRC, NVLINK_CRC_DATA_TOTAL, 0, 1),
    ROW(LINK, NVLINK_REPLAY, NVLINK_REPLAY_TOTAL, 0, 1),
    ROW(LINK, NVLINK_RECOVERY, NVLINK_RECOVERY_TOTAL, 0, 1),
};
#define FIELDS (sizeof fields / sizeof *fields)
_Static_assert(FIELDS <= AL_NVML_ROWS_MAX, "al_nvml_gpu.fields is too short");

double al_nvml_union_number(const union nvml_value *v, int type, bool *ret_valid) {
    *ret_valid = true;
    switch (type) {
    case AL_NVML_VALUE_DOUBLE:
        *ret_valid = v->dVal < 140737488355328.0 || v->dVal > 140737488355331.0; // blanks of the tools above NVML
        return v->dVal;
    case AL_NVML_VALUE_UNSIGNED_INT: // only its 4 bytes are the driver's; the rest of the union is left as it was
        *ret_valid = !al_nvml_blank(v->uiVal, false);
        return v->uiVal;
    case AL_NVML_VALUE_UNSIGNED_LONG:
        *ret_valid = !al_nvml_blank(v->ulVal, sizeof v->ulVal == 8);
        return (double)v->ulVal;
    case AL_NVML_VALUE_UNSIGNED_LONG_LONG:
        *ret_valid = !al_nvml_blank(v->ullVal, true);
        return (double)v->ullVal;
    case AL_NVML_VALUE_SIGNED_LONG_LONG:
        *ret_valid = v->sllVal < 0 || !al_nvml_blank(v->ullVal, true);
        return (double)v->sllVal;
    case AL_NVML_VALUE_SIGNED_INT:
        *ret_valid = v->siVal < 0 || !al_nvml_blank(v->uiVal, false);
        return v->siVal;
    case AL_NVML_VALUE_UNSIGNED_SHORT:
        return v->usVal;
    default:
        *ret_valid = false;
        return 0;
    }
}

// 580.159 leaves entries of ids that it does not know as they were, and adds some counters to what it finds: start from
// zero, with a result that it never gives.
static void prepare(struct nvml_field_value *f, unsigned id, unsigned scope) {
    memset(f, 0, sizeof *f);
    f->fieldId = id;
    f->scopeId = scope;
    f->valueType = -1;
    f->nvmlReturn = AL_NVML_ERROR_UNKNOWN;
}

static struct al_value field_number(const struct al_nvml *n, uint16_t metric, int result,
                                    const struct nvml_field_value *f, double scale) {
    bool valid;
    if (result != AL_NVML_SUCCESS)
        return al_value_none(al_nvml_status(result));
    double num = al_nvml_union_number(&f->value, f->valueType, &valid);
    bool untouched = f->nvmlReturn == AL_NVML_ERROR_UNKNOWN && f->valueType == -1;
    if (f->nvmlReturn == AL_NVML_ERROR_INVALID_ARGUMENT || untouched) // an id that this driver does not know
        return al_value_none(AL_STATUS_UNSUPPORTED);
    if (f->nvmlReturn == AL_NVML_SUCCESS && !valid)
        return al_value_none(AL_STATUS_UNSUPPORTED);
    return al_nvml_value(n, (enum al_gpu_metric)metric, f->nvmlReturn, al_nvml_scaled(num, scale));
}

static struct al_value kept(const struct al_nvml_kept *k) {
    if (k->status == AL_STATUS_OK)
        return al_value_ok(k->num, k->until_ns - ENERGY_NS);
    return al_value_none((enum al_status)k->status);
}

static void keep(const struct al_nvml *n, struct al_nvml_kept *k, uint16_t metric, struct al_value v) {
    if (al_nvml_no_answer(v.status))
        *k = (struct al_nvml_kept){0, n->tick_ns + QUIET_NS, v.status};
    else if (metric == AL_GPU_ENERGY && v.status == AL_STATUS_OK)
        *k = (struct al_nvml_kept){v.num, n->tick_ns + ENERGY_NS, AL_STATUS_OK};
}

static void put(struct al_gpu *out, const struct field *row, const struct field *before, struct al_value v) {
    struct al_value *to = &out->m[row->metric];
    if (!before || before->metric != row->metric)
        *to = v;
    else if (to->status == AL_STATUS_OK && v.status == AL_STATUS_OK)
        to->num += v.num;
    else if (to->status == AL_STATUS_OK)
        *to = v; // a sum with a part missing is no sum
}

void al_nvml_read_fields(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, uint32_t group) {
    struct nvml_field_value values[FIELDS];
    int count = 0, at = 0;
    int result = AL_NVML_SUCCESS;
    for (size_t i = 0; i < FIELDS; i++)
        if (fields[i].group == group && n->tick_ns >= g->fields[i].until_ns)
            prepare(&values[count++], fields[i].id, fields[i].scope);
    if (count)
        result = NVML(n, nvmlDeviceGetFieldValues, (g->handle, count, values));
    if (g->info.is_mig && result == AL_NVML_ERROR_INVALID_ARGUMENT)
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < FIELDS; i++) {
        struct al_nvml_kept *k = &g->fields[i];
        if (fields[i].group != group)
            continue;
        bool asked = n->tick_ns >= k->until_ns;
        struct al_value v = asked ? field_number(n, fields[i].metric, result, &values[at++], fields[i].scale) : kept(k);
        if (asked)
            keep(n, k, fields[i].metric, v);
        put(out, &fields[i], i ? &fields[i - 1] : NULL, v);
    }
    if (group == AL_GROUP_SLOW) { // one counter under two names
        out->m[AL_GPU_EVENT_SW_POWER] = out->m[AL_GPU_VIOL_POWER];
        out->m[AL_GPU_EVENT_SYNC_BOOST] = out->m[AL_GPU_VIOL_SYNC_BOOST];
    }
}

static void count_links(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    uint32_t links = 0, active = 0;
    int first_error = AL_NVML_ERROR_NOT_SUPPORTED;
    uint64_t found = 0;
    for (unsigned link = 0; link < AL_NVML_LINK_MAX; link++) {
        unsigned on = 0;
        if (g->links_known && !(g->links >> link & 1))
            continue;
        int result = NVML(n, nvmlDeviceGetNvLinkState, (g->handle, link, &on));
        if (result == AL_NVML_SUCCESS) {
            found |= 1ULL << link;
            links++;
            active += on == 1;
        } else if (result != AL_NVML_ERROR_NOT_SUPPORTED && result != AL_NVML_ERROR_INVALID_ARGUMENT) {
            first_error = result;
            break;
        }
    }
    if (!g->links_known && first_error == AL_NVML_ERROR_NOT_SUPPORTED) {
        g->links = found;
        g->links_known = true;
    }
    int result = links ? AL_NVML_SUCCESS : first_error;
    out->m[AL_GPU_NVLINK_LINKS] = al_nvml_value(n, AL_GPU_NVLINK_LINKS, result, links);
    out->m[AL_GPU_NVLINK_ACTIVE] = al_nvml_value(n, AL_GPU_NVLINK_ACTIVE, result, active);
}

static const struct {
    uint16_t metric, id;
} link_errors[] = {{AL_GPU_NVLINK_CRC, AL_NVML_FI_NVLINK_DL_CRC},
                   {AL_GPU_NVLINK_REPLAY, AL_NVML_FI_NVLINK_DL_REPLAY},
                   {AL_GPU_NVLINK_RECOVERY, AL_NVML_FI_NVLINK_DL_RECOVERY}};

// Hopper's drivers answer the totals with "not supported" and want to be asked link by link.
static void sum_link_errors(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, uint16_t metric,
                            unsigned id) {
    struct nvml_field_value values[AL_NVML_LINK_MAX];
    int count = 0;
    double sum = 0;
    for (unsigned link = 0; link < AL_NVML_LINK_MAX; link++)
        if (g->links >> link & 1)
            prepare(&values[count++], id, link);
    int result = NVML(n, nvmlDeviceGetFieldValues, (g->handle, count, values));
    for (int i = 0; i < count; i++) {
        struct al_value v = field_number(n, metric, result, &values[i], 1);
        if (v.status != AL_STATUS_OK) {
            out->m[metric] = v;
            return;
        }
        sum += v.num;
    }
    out->m[metric] = al_nvml_value(n, (enum al_gpu_metric)metric, AL_NVML_SUCCESS, sum);
}

void al_nvml_read_links(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out) {
    count_links(n, g, out);
    for (size_t i = 0; g->links && i < sizeof link_errors / sizeof *link_errors; i++)
        if (al_nvml_no_answer(out->m[link_errors[i].metric].status))
            sum_link_errors(n, g, out, link_errors[i].metric, link_errors[i].id);
}
