// SPDX-License-Identifier: Apache-2.0
#include "export/openmetrics.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "export/openmetrics_write.h"

static enum al_om_type type_of(const struct al_metric_info *info) {
    return info->kind == AL_KIND_COUNTER ? AL_OM_COUNTER : AL_OM_GAUGE;
}

static void metric_family(struct al_om *o, const char *prefix, const struct al_metric_info *info) {
    char name[112];
    (void)snprintf(name, sizeof name, "%s%s", prefix, info->name);
    al_om_family(o, name, type_of(info), al_unit_word(info->unit), info->help);
}

static void gpu_info(struct al_om *o, const struct al_snapshot *s) {
    al_om_family(o, "alula_gpu", AL_OM_INFO, "", "What the GPU is; join on uuid");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu_info *g = &s->gpus[i].info;
        al_om_begin(o);
        al_om_gpu_labels(o, i);
        al_om_label(o, "name", g->name);
        al_om_label(o, "pci_bus_id", g->pci_bus_id);
        al_om_label(o, "driver_version", s->node.driver_version);
        al_om_label_number(o, "minor_number", g->minor);
        if (g->is_mig) {
            al_om_label(o, "mig_profile", g->mig_profile);
            al_om_label_number(o, "gpu_instance", g->gpu_instance);
            al_om_label_number(o, "compute_instance", g->compute_instance);
            if (g->parent >= 0 && (uint32_t)g->parent < s->gpu_count)
                al_om_label(o, "parent_uuid", s->gpus[g->parent].info.uuid);
        }
        al_om_end(o, 1);
    }
    al_om_family(o, "alula_gpu_up", AL_OM_GAUGE, "", "1 when the GPU answers; 0 when it is lost or needs a reset");
    for (uint32_t i = 0; i < s->gpu_count; i++)
        al_om_gpu_value(o, i, s->gpus[i].info.status == AL_STATUS_OK);
}

static void gpu_metrics(struct al_om *o, const struct al_snapshot *s) {
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        metric_family(o, "alula_gpu_", &al_gpu_metrics[m]);
        for (uint32_t i = 0; i < s->gpu_count; i++)
            if (al_ok(s->gpus[i].m[m]))
                al_om_gpu_value(o, i, s->gpus[i].m[m].num);
    }
}

// PromQL cannot take bits apart. Bits: nvmlClocksEventReasons of nvml.h.
static void clocks_event_reasons(struct al_om *o, const struct al_snapshot *s) {
    static const struct {
        unsigned bit;
        const char *name;
    } reasons[] = {{0x1, "gpu_idle"},         {0x2, "applications_clocks_setting"}, {0x4, "sw_power_cap"},
                   {0x8, "hw_slowdown"},      {0x10, "sync_boost"},                 {0x20, "sw_thermal_slowdown"},
                   {0x40, "hw_thermal_slowdown"}, {0x80, "hw_power_brake_slowdown"},    {0x100, "display_clock_setting"}};
    al_om_family(o, "alula_gpu_clocks_event_reason", AL_OM_GAUGE, "", "1 while the reason holds the clocks down");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        if (!al_ok(s->gpus[i].m[AL_GPU_THROTTLE]))
            continue;
        unsigned bits = (unsigned)s->gpus[i].m[AL_GPU_THROTTLE].num;
        for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++) {
            al_om_begin(o);
            al_om_gpu_labels(o, i);
            al_om_label(o, "reason", reasons[r].name);
            al_om_end(o, (bits & reasons[r].bit) != 0);
        }
    }
}

static void xids(struct al_om *o, const struct al_snapshot *s) {
    al_om_family(o, "alula_gpu_xid_code_errors", AL_OM_COUNTER, "", "Xid errors since alula started, by code");
    for (uint32_t i = 0; i < s->gpu_count; i++)
        for (uint32_t x = 0; x < s->gpus[i].xid_count && x < AL_XID_CODES; x++) {
            al_om_begin(o);
            al_om_gpu_labels(o, i);
            al_om_label_number(o, "code", s->gpus[i].xid[x].code);
            al_om_end(o, s->gpus[i].xid[x].count);
        }
}

static void process_counts(struct al_om *o, const struct al_snapshot *s) {
    uint32_t counts[AL_GPU_MAX] = {0};
    for (uint32_t r = 0; r < s->row_count; r++)
        if (s->rows[r].gpu < AL_GPU_MAX)
            counts[s->rows[r].gpu]++;
    al_om_family(o, "alula_gpu_processes", AL_OM_GAUGE, "", "Processes that hold a context on the GPU");
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].process_status == AL_STATUS_OK)
            al_om_gpu_value(o, i, counts[i]);
}

// A device plugin names a device by UUID or, when set up so, by the driver's index.
static bool is_of_gpu(const struct al_pod_use *use, const struct al_gpu_info *g) {
    uint64_t index;
    if (al_str_equal(use->device, g->uuid))
        return true;
    return !g->is_mig && al_str_starts(use->resource, "nvidia.com/") && al_str_u64(use->device, &index) && index == g->index;
}

static void pods(struct al_om *o, const struct al_om_page *p) {
    al_om_family(o, "alula_pod_resources_up", AL_OM_GAUGE, "", "1 when the kubelet said the last time which pods hold the GPUs");
    al_om_value(o, p->pods_up);
    if (!p->processes || !p->s)
        return;
    bool begun = false;
    for (uint32_t i = 0; i < p->s->gpu_count; i++)
        for (size_t u = 0; u < p->pod_count; u++) {
            if (!is_of_gpu(&p->pods[u], &p->s->gpus[i].info))
                continue;
            if (!begun)
                al_om_family(o, "alula_gpu_pod", AL_OM_INFO, "", "The container that was given the GPU; join on uuid");
            begun = true;
            al_om_begin(o);
            al_om_gpu_labels(o, i);
            al_om_label(o, "namespace", p->pods[u].name_space);
            al_om_label(o, "pod", p->pods[u].pod);
            al_om_label(o, "container", p->pods[u].container);
            al_om_end(o, 1);
        }
}

static void node(struct al_om *o, const struct al_snapshot *s) {
    const struct al_node *n = &s->node;
    al_om_family(o, "alula_node", AL_OM_INFO, "", "The machine and its driver");
    al_om_begin(o);
    al_om_label(o, "hostname", n->hostname);
    al_om_label(o, "boot_id", n->boot_id);
    al_om_label(o, "driver_version", n->driver_version);
    al_om_label(o, "nvml_version", n->nvml_version);
    al_om_label(o, "cuda_version", n->cuda_version);
    al_om_end(o, 1);
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        if (al_ok(n->m[m])) {
            metric_family(o, "alula_node_", &al_node_metric_table[m]);
            al_om_value(o, n->m[m].num);
        }
}

static void findings(struct al_om *o, const struct al_om_page *p) {
    uint32_t count[AL_LEVEL_CRITICAL + 1] = {0};
    al_om_family(o, "alula_finding_active", AL_OM_GAUGE, "", "1 while the finding lasts; alula explains it in /api/v1/findings");
    for (uint32_t i = 0; i < p->finding_count; i++) {
        const struct al_finding *f = &p->findings[i];
        count[f->level]++;
        if (i >= AL_OM_FINDINGS_MAX)
            continue;
        al_om_begin(o);
        al_om_label(o, "rule", f->rule);
        al_om_label(o, "severity", al_level_word(f->level));
        if (f->gpu_index >= 0)
            al_om_label_number(o, "gpu", f->gpu_index);
        if (f->gpu_uuid[0])
            al_om_label(o, "uuid", f->gpu_uuid);
        al_om_label(o, "key", f->key);
        al_om_end(o, 1);
    }
    al_om_family(o, "alula_findings_open", AL_OM_GAUGE, "", "Open findings by level");
    for (int level = AL_LEVEL_INFO; level <= AL_LEVEL_CRITICAL; level++) {
        al_om_begin(o);
        al_om_label(o, "severity", al_level_word((enum al_level)level));
        al_om_end(o, count[level]);
    }
}

void al_openmetrics_print(struct al_buf *b, const struct al_om_page *p) {
    struct al_om o = {.b = b, .openmetrics = p->openmetrics};
    al_om_health_print(&o, p);
    if (p->s) {
        al_om_gpus(&o, p->s);
        findings(&o, p);
        node(&o, p->s);
        gpu_info(&o, p->s);
        gpu_metrics(&o, p->s);
        clocks_event_reasons(&o, p->s);
        xids(&o, p->s);
        process_counts(&o, p->s);
        if (p->processes) {
            al_om_processes(&o, p);
            al_om_ranks(&o, p);
        }
        if (p->dcgm)
            al_om_dcgm(&o, p);
    }
    if (p->pods_asked)
        pods(&o, p);
    if (p->openmetrics)
        al_buf_str(b, "# EOF\n");
    b->failed |= o.labels.failed;
    al_buf_free(&o.labels);
}
