// SPDX-License-Identifier: Apache-2.0
// Field numbers are those of opentelemetry/proto/{collector/metrics,metrics,common,resource}/v1.
#include "push/otlp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "base/pb.h"

enum kind { GAUGE, UPDOWN, COUNTER };
enum { CUMULATIVE = 2 }; // AggregationTemporality

// A counter of the driver began before alula did: by OTLP's rule for an unknown start, its first point's start is its
// own time, and a fall begins anew at the reading before.
struct counter {
    int64_t start_ns, last_ns; // since the epoch; 0: not seen yet
    double last;
};

struct device {
    char uuid[AL_UUID_MAX];
    struct counter counters[AL_GPU_METRIC_COUNT];
};

struct al_otlp {
    char version[32];
    int64_t start_ns; // since the epoch: when the session began
    struct device *devices;
    uint32_t device_count, device_cap;
};

// One metric on its way; its header is written with its first point, so that one without points takes no space.
struct writer {
    struct al_otlp *o;
    const struct al_snapshot *s;
    struct al_buf *b;
    const char *name, *unit, *help;
    enum kind kind;
    bool open;
    size_t metric, data, point;
};

int al_otlp_new(const char *version, struct al_otlp **ret) {
    struct al_otlp *o = calloc(1, sizeof *o);
    *ret = o;
    if (!o)
        return AL_E_NOMEM;
    (void)al_str_copy(o->version, sizeof o->version, version);
    return 0;
}

struct al_otlp *al_otlp_free(struct al_otlp *o) {
    if (o)
        free(o->devices);
    free(o);
    return NULL;
}

// --- the parts of a request ---

static void attribute(struct al_buf *b, uint32_t field, const char *key, const char *value) {
    if (!value || !*value)
        return;
    size_t pair = al_pb_open(b, field);
    al_pb_string(b, 1, key);
    size_t any = al_pb_open(b, 2);
    al_pb_string(b, 1, value);
    al_pb_close(b, any);
    al_pb_close(b, pair);
}

static void label(struct writer *w, const char *key, const char *value) {
    attribute(w->b, 7, key, value);
}

static void begin(struct writer *w, const char *name, const char *unit, const char *help, enum kind kind) {
    w->name = name;
    w->unit = unit;
    w->help = help;
    w->kind = kind;
    w->open = false;
}

static void point(struct writer *w, int64_t start_ns, int64_t at_ns, double value) {
    if (!w->open) {
        w->open = true;
        w->metric = al_pb_open(w->b, 2);
        al_pb_string(w->b, 1, w->name);
        al_pb_string(w->b, 2, w->help);
        al_pb_string(w->b, 3, w->unit);
        w->data = al_pb_open(w->b, w->kind == GAUGE ? 5 : 7);
    }
    w->point = al_pb_open(w->b, 1);
    if (w->kind != GAUGE)
        al_pb_fixed64(w->b, 2, (uint64_t)start_ns);
    al_pb_fixed64(w->b, 3, (uint64_t)at_ns);
    al_pb_double(w->b, 4, value);
}

static void point_end(struct writer *w) {
    al_pb_close(w->b, w->point);
}

static void end(struct writer *w) {
    if (!w->open)
        return;
    if (w->kind != GAUGE) {
        al_pb_uint(w->b, 2, CUMULATIVE);
        if (w->kind == COUNTER)
            al_pb_uint(w->b, 3, 1);
    }
    al_pb_close(w->b, w->data);
    al_pb_close(w->b, w->metric);
    w->open = false;
}

static int64_t realtime(const struct al_snapshot *s, int64_t monotonic_ns) {
    int64_t age = monotonic_ns > 0 && monotonic_ns < s->monotonic_ns ? s->monotonic_ns - monotonic_ns : 0;
    return s->realtime_ns - age;
}

// --- GPUs ---

static struct device *device_of(struct al_otlp *o, const char *uuid) {
    for (uint32_t i = 0; i < o->device_count; i++)
        if (strcmp(o->devices[i].uuid, uuid) == 0)
            return &o->devices[i];
    if (o->device_count == 2 * AL_GPU_MAX) // MIG devices that came and went
        o->device_count = 0;
    if (o->device_count == o->device_cap) {
        uint32_t cap = o->device_cap ? 2 * o->device_cap : 8;
        struct device *more = realloc(o->devices, cap * sizeof *more);
        if (!more)
            return NULL;
        o->devices = more;
        o->device_cap = cap;
    }
    struct device *d = &o->devices[o->device_count++];
    *d = (struct device){0};
    (void)al_str_copy(d->uuid, sizeof d->uuid, uuid);
    return d;
}

static int64_t counter_start(struct writer *w, const struct al_gpu *g, int metric, int64_t at_ns, double value) {
    struct device *d = device_of(w->o, g->info.uuid);
    if (metric == AL_GPU_XID_ERRORS || !d)
        return w->o->start_ns;
    struct counter *c = &d->counters[metric];
    if (!c->start_ns)
        c->start_ns = at_ns;
    else if (value < c->last)
        c->start_ns = c->last_ns;
    c->last = value;
    c->last_ns = at_ns;
    return c->start_ns;
}

static void device_name(const struct al_snapshot *s, const struct al_gpu_info *info, char *out, size_t size) {
    if (info->is_mig && info->parent >= 0 && (uint32_t)info->parent < s->gpu_count)
        (void)snprintf(out, size, "gpu%u.gi%u.ci%u", s->gpus[info->parent].info.index, info->gpu_instance,
                       info->compute_instance);
    else
        (void)snprintf(out, size, "gpu%u", info->index);
}

enum labels { LABELS_GPU, LABELS_COMPONENT, LABELS_OWN };

// hw.gpu.* say what the GPU is; hw.errors and the like are of any hardware and say that it is one.
static void gpu_labels(struct writer *w, const struct al_gpu *g, enum labels labels) {
    const struct al_gpu_info *info = &g->info;
    char name[64];
    device_name(w->s, info, name, sizeof name);
    label(w, "hw.id", info->uuid);
    label(w, "hw.name", name);
    if (info->is_mig && info->parent >= 0 && (uint32_t)info->parent < w->s->gpu_count)
        label(w, "hw.parent", w->s->gpus[info->parent].info.uuid);
    if (labels == LABELS_COMPONENT)
        label(w, "hw.type", "gpu");
    if (labels != LABELS_GPU)
        return;
    label(w, "hw.model", info->name);
    label(w, "hw.vendor", "NVIDIA");
    label(w, "hw.driver_version", w->s->node.driver_version);
    label(w, "hw.serial_number", info->serial);
}

enum { MEMORY_SHARE = AL_GPU_METRIC_COUNT };

static const struct convention {
    const char *name, *unit, *help;
    enum kind kind;
    enum labels labels;
    int metric;
    const char *key, *value; // the attribute that tells it from its neighbours
} conventions[] = {
    {"hw.gpu.utilization", "1", "Fraction of time spent in a specific task", GAUGE, LABELS_GPU, AL_GPU_UTIL, "hw.gpu.task",
     "general"},
    {"hw.gpu.utilization", "1", "", GAUGE, LABELS_GPU, AL_GPU_ENC_UTIL, "hw.gpu.task", "encoder"},
    {"hw.gpu.utilization", "1", "", GAUGE, LABELS_GPU, AL_GPU_DEC_UTIL, "hw.gpu.task", "decoder"},
    {"hw.gpu.memory.utilization", "1", "Fraction of GPU memory used", GAUGE, LABELS_GPU, MEMORY_SHARE, NULL, NULL},
    {"hw.gpu.memory.usage", "By", "GPU memory used", UPDOWN, LABELS_GPU, AL_GPU_MEM_USED, NULL, NULL},
    {"hw.gpu.memory.limit", "By", "Size of the GPU memory", UPDOWN, LABELS_GPU, AL_GPU_MEM_TOTAL, NULL, NULL},
    {"hw.gpu.io", "By", "Bytes received and transmitted over NVLink (the driver counts no PCIe bytes)", COUNTER, LABELS_GPU,
     AL_GPU_NVLINK_RX, "network.io.direction", "receive"},
    {"hw.gpu.io", "By", "", COUNTER, LABELS_GPU, AL_GPU_NVLINK_TX, "network.io.direction", "transmit"},
    {"hw.energy", "J", "Energy since the driver was loaded", COUNTER, LABELS_COMPONENT, AL_GPU_ENERGY, NULL, NULL},
    {"hw.power", "W", "Power draw", GAUGE, LABELS_COMPONENT, AL_GPU_POWER, NULL, NULL},
    {"hw.temperature", "Cel", "Core temperature", GAUGE, LABELS_COMPONENT, AL_GPU_TEMP, NULL, NULL},
    {"hw.errors", "{error}", "Errors", COUNTER, LABELS_COMPONENT, AL_GPU_ECC_COR_VOL_TOTAL, "error.type", "corrected"},
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_ECC_UNC_VOL_TOTAL, "error.type", "uncorrected"},
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_PCIE_REPLAY, "error.type", "pcie_replay"},
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_NVLINK_CRC, "error.type", "nvlink_crc"},
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_NVLINK_REPLAY, "error.type", "nvlink_replay"},
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_NVLINK_RECOVERY, "error.type", "nvlink_recovery"},
    // Xid codes follow in the same metric: the last row is theirs.
    {"hw.errors", "{error}", "", COUNTER, LABELS_COMPONENT, AL_GPU_XID_ERRORS, "error.type", "xid_"},
};
#define CONVENTIONS (sizeof conventions / sizeof *conventions)

static bool has_convention(int metric) {
    for (size_t i = 0; i < CONVENTIONS; i++)
        if (conventions[i].metric == metric)
            return true;
    return false;
}

static struct al_value value_of(const struct al_gpu *g, int metric) {
    if (metric != MEMORY_SHARE)
        return g->m[metric];
    struct al_value used = g->m[AL_GPU_MEM_USED], total = g->m[AL_GPU_MEM_TOTAL];
    if (al_ok(used) && al_ok(total) && total.num > 0)
        return al_value_ok(used.num / total.num, used.at_ns);
    return al_value_none(al_ok(used) ? total.status : used.status);
}

static void gpu_point(struct writer *w, const struct al_gpu *g, int metric, enum labels labels, const char *key,
                      const char *value) {
    struct al_value v = value_of(g, metric);
    if (!al_ok(v))
        return;
    int64_t at = realtime(w->s, v.at_ns);
    int64_t start = w->kind == COUNTER ? counter_start(w, g, metric, at, v.num) : w->o->start_ns;
    point(w, start, at, v.num);
    gpu_labels(w, g, labels);
    if (key)
        label(w, key, value);
    point_end(w);
}

static void xid_points(struct writer *w, const struct al_gpu *g) {
    for (uint32_t i = 0; i < g->xid_count && i < AL_XID_CODES; i++) {
        char type[24];
        (void)snprintf(type, sizeof type, "xid_%u", g->xid[i].code);
        point(w, w->o->start_ns, realtime(w->s, g->xid[i].last_ns), g->xid[i].count);
        gpu_labels(w, g, LABELS_COMPONENT);
        label(w, "error.type", type);
        point_end(w);
    }
}

static void convention_metrics(struct writer *w) {
    for (size_t i = 0; i < CONVENTIONS; i++) {
        const struct convention *c = &conventions[i];
        if (i == 0 || strcmp(c->name, conventions[i - 1].name) != 0) {
            end(w);
            begin(w, c->name, c->unit, c->help, c->kind);
        }
        for (uint32_t g = 0; g < w->s->gpu_count; g++) {
            if (c->metric == AL_GPU_XID_ERRORS)
                xid_points(w, &w->s->gpus[g]);
            else
                gpu_point(w, &w->s->gpus[g], c->metric, c->labels, c->key, c->value);
        }
    }
    end(w);
}

// nvmlClocksEventReason*: HW slowdown, SW thermal, HW thermal, HW power brake.
#define SLOWED_DOWN (0x8 | 0x20 | 0x40 | 0x80)

static bool is_set(const struct al_gpu *g, int metric, uint64_t mask) {
    struct al_value v = g->m[metric];
    return al_ok(v) && v.num >= 0 && v.num < 1e15 && ((uint64_t)v.num & mask);
}

// "" when nothing is known.
static const char *state_of(const struct al_gpu *g) {
    if (g->info.status == AL_STATUS_LOST || g->info.status == AL_STATUS_RESET)
        return "failed";
    if (g->info.status != AL_STATUS_OK)
        return "";
    if (is_set(g, AL_GPU_REMAP_FAILED, ~0ULL) || is_set(g, AL_GPU_SRAM_THRESHOLD, ~0ULL))
        return "predicted_failure";
    if (is_set(g, AL_GPU_THROTTLE, SLOWED_DOWN) || is_set(g, AL_GPU_REMAP_PENDING, ~0ULL) ||
        is_set(g, AL_GPU_RETIRED_PENDING, ~0ULL))
        return "degraded";
    return al_ok(g->m[AL_GPU_MEM_USED]) || al_ok(g->m[AL_GPU_TEMP]) || al_ok(g->m[AL_GPU_UTIL]) ? "ok" : "";
}

static void status_metric(struct writer *w) {
    static const char *const states[] = {"ok", "degraded", "failed", "predicted_failure"};
    begin(w, "hw.status", "1", "1 for the state that the GPU is in, 0 for the others", UPDOWN);
    for (uint32_t i = 0; i < w->s->gpu_count; i++) {
        const struct al_gpu *g = &w->s->gpus[i];
        const char *now = state_of(g);
        for (size_t k = 0; *now && k < sizeof states / sizeof *states; k++) {
            point(w, w->o->start_ns, w->s->realtime_ns, strcmp(now, states[k]) == 0);
            gpu_labels(w, g, LABELS_COMPONENT);
            label(w, "hw.state", states[k]);
            point_end(w);
        }
    }
    end(w);
}

// --- what has no convention ---

static const char *ucum(enum al_unit unit) {
    switch (unit) {
    case AL_UNIT_RATIO: return "1";
    case AL_UNIT_BYTES: return "By";
    case AL_UNIT_CELSIUS: return "Cel";
    case AL_UNIT_WATTS: return "W";
    case AL_UNIT_JOULES: return "J";
    case AL_UNIT_HERTZ: return "Hz";
    case AL_UNIT_SECONDS: return "s";
    case AL_UNIT_BYTES_PER_SECOND: return "By/s";
    default: return "";
    }
}

// OpenTelemetry keeps the unit out of the name; what Prometheus makes of the two is again the name in /metrics.
static void own_name(char *out, size_t size, const char *prefix, const struct al_metric_info *m) {
    char suffix[40];
    (void)snprintf(out, size, "%s%s", prefix, m->name);
    (void)snprintf(suffix, sizeof suffix, "_%s", al_unit_word(m->unit));
    if (suffix[1] && *ucum(m->unit) && al_str_ends(out, suffix))
        out[strlen(out) - strlen(suffix)] = '\0';
}

static void own_gpu_metrics(struct writer *w) {
    char name[96];
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        const struct al_metric_info *info = &al_gpu_metrics[m];
        if (has_convention(m))
            continue;
        own_name(name, sizeof name, "alula.gpu.", info);
        begin(w, name, ucum(info->unit), info->help, info->kind == AL_KIND_COUNTER ? COUNTER : GAUGE);
        for (uint32_t g = 0; g < w->s->gpu_count; g++)
            gpu_point(w, &w->s->gpus[g], m, LABELS_OWN, NULL, NULL);
        end(w);
    }
}

static void process_counts(struct writer *w) {
    const struct al_snapshot *s = w->s;
    begin(w, "alula.gpu.processes", "", "Processes with a context", GAUGE);
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        uint32_t count = 0;
        if (s->gpus[g].process_status != AL_STATUS_OK)
            continue;
        for (uint32_t r = 0; r < s->row_count; r++) // sorted by GPU and pid
            count += s->rows[r].gpu == g && !(r && s->rows[r - 1].gpu == g && s->rows[r - 1].pid == s->rows[r].pid);
        point(w, 0, s->realtime_ns, count);
        gpu_labels(w, &s->gpus[g], LABELS_OWN);
        point_end(w);
    }
    end(w);
}

static void node_metrics(struct writer *w) {
    char name[96];
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++) {
        const struct al_metric_info *info = &al_node_metric_table[m];
        struct al_value v = w->s->node.m[m];
        if (!al_ok(v))
            continue;
        own_name(name, sizeof name, "alula.node.", info);
        begin(w, name, ucum(info->unit), info->help, GAUGE);
        point(w, 0, realtime(w->s, v.at_ns), v.num);
        point_end(w);
        end(w);
    }
}

static void finding_metrics(struct writer *w, const struct al_finding *findings, uint32_t count) {
    begin(w, "alula.finding.active", "", "1 while the finding lasts", GAUGE);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_finding *f = &findings[i];
        point(w, 0, w->s->realtime_ns, 1);
        label(w, "rule", f->rule);
        label(w, "level", al_level_word(f->level));
        label(w, "key", f->key);
        label(w, "hw.id", f->gpu_uuid);
        point_end(w);
    }
    end(w);
    begin(w, "alula.findings.open", "", "Findings that last", GAUGE);
    point(w, 0, w->s->realtime_ns, count);
    point_end(w);
    end(w);
}

static void resource(struct al_otlp *o, const struct al_snapshot *s, struct al_buf *b) {
    size_t at = al_pb_open(b, 1);
    attribute(b, 1, "service.name", "alula");
    attribute(b, 1, "service.version", o->version);
    attribute(b, 1, "host.name", s->node.hostname);
    al_pb_close(b, at);
}

int al_otlp_encode(struct al_otlp *o, const struct al_snapshot *s, const struct al_finding *findings, uint32_t count,
                   struct al_buf *b) {
    struct writer w = {.o = o, .s = s, .b = b};
    if (!o->start_ns)
        o->start_ns = s->realtime_ns - (int64_t)(s->tick ? s->tick - 1 : 0) * s->interval_ns;
    size_t resource_metrics = al_pb_open(b, 1);
    resource(o, s, b);
    size_t scope_metrics = al_pb_open(b, 2);
    size_t scope = al_pb_open(b, 1);
    al_pb_string(b, 1, "alula");
    al_pb_string(b, 2, o->version);
    al_pb_close(b, scope);
    convention_metrics(&w);
    status_metric(&w);
    own_gpu_metrics(&w);
    process_counts(&w);
    node_metrics(&w);
    finding_metrics(&w, findings, count);
    al_pb_close(b, scope_metrics);
    al_pb_close(b, resource_metrics);
    return b->failed ? AL_E_NOMEM : 0;
}

uint64_t al_otlp_rejected(const char *answer, size_t len, char *message, size_t size) {
    struct al_pb_field partial, field;
    uint64_t rejected = 0;
    size_t at = 0;
    *message = '\0';
    while (al_pb_next(answer, len, &at, &partial)) {
        if (partial.number != 1 || partial.wire != 2)
            continue;
        for (size_t in = 0; al_pb_next(partial.bytes, partial.size, &in, &field);) {
            if (field.number == 1 && field.wire == 0)
                rejected = field.value <= INT64_MAX ? field.value : 0;
            if (field.number == 2 && field.wire == 2)
                (void)al_str_copy_n(message, size, field.bytes, field.size);
        }
    }
    (void)al_str_clean(message);
    return rejected;
}
