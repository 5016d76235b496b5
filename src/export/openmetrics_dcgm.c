// SPDX-License-Identifier: Apache-2.0
// The names, units and labels of dcgm-exporter's default counters and of those that dashboards commonly switch on.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/openmetrics.h"
#include "export/openmetrics_write.h"

struct dcgm_metric {
    const char *name; // behind DCGM_FI_
    enum al_gpu_metric metric;
    double scale;     // from our base unit
    bool counter, real;
    const char *help;
};

#define MIB (1.0 / 1048576)

static const struct dcgm_metric table[] = {
    {"DEV_SM_CLOCK", AL_GPU_CLOCK_SM, 1e-6, false, false, "SM clock frequency (in MHz)."},
    {"DEV_MEM_CLOCK", AL_GPU_CLOCK_MEM, 1e-6, false, false, "Memory clock frequency (in MHz)."},
    {"DEV_MEMORY_TEMP", AL_GPU_TEMP_MEM, 1, false, false, "Memory temperature (in C)."},
    {"DEV_GPU_TEMP", AL_GPU_TEMP, 1, false, false, "GPU temperature (in C)."},
    {"DEV_POWER_USAGE", AL_GPU_POWER, 1, false, true, "Power draw (in W)."},
    {"DEV_TOTAL_ENERGY_CONSUMPTION", AL_GPU_ENERGY, 1e3, true, false, "Total energy consumption since boot (in mJ)."},
    {"DEV_PCIE_REPLAY_COUNTER", AL_GPU_PCIE_REPLAY, 1, true, false, "Total number of PCIe retries."},
    {"DEV_GPU_UTIL", AL_GPU_UTIL, 100, false, false, "GPU utilization (in %)."},
    {"DEV_MEM_COPY_UTIL", AL_GPU_MEM_UTIL, 100, false, false, "Memory utilization (in %)."},
    {"DEV_ENC_UTIL", AL_GPU_ENC_UTIL, 100, false, false, "Encoder utilization (in %)."},
    {"DEV_DEC_UTIL", AL_GPU_DEC_UTIL, 100, false, false, "Decoder utilization (in %)."},
    {"DEV_FB_FREE", AL_GPU_MEM_FREE, MIB, false, false, "Framebuffer memory free (in MiB)."},
    {"DEV_FB_USED", AL_GPU_MEM_USED, MIB, false, false, "Framebuffer memory used (in MiB)."},
    {"DEV_FB_RESERVED", AL_GPU_MEM_RESERVED, MIB, false, false, "Framebuffer memory reserved (in MiB)."},
    {"DEV_UNCORRECTABLE_REMAPPED_ROWS", AL_GPU_REMAP_UNC, 1, true, false,
     "Number of remapped rows for uncorrectable errors"},
    {"DEV_CORRECTABLE_REMAPPED_ROWS", AL_GPU_REMAP_COR, 1, true, false, "Number of remapped rows for correctable errors"},
    {"DEV_ROW_REMAP_FAILURE", AL_GPU_REMAP_FAILED, 1, false, false, "Whether remapping of rows has failed"},
    {"DEV_ECC_SBE_VOL_TOTAL", AL_GPU_ECC_COR_VOL_TOTAL, 1, true, false, "Single-bit volatile ECC errors."},
    {"DEV_ECC_DBE_VOL_TOTAL", AL_GPU_ECC_UNC_VOL_TOTAL, 1, true, false, "Double-bit volatile ECC errors."},
    {"DEV_ECC_SBE_AGG_TOTAL", AL_GPU_ECC_COR_AGG_TOTAL, 1, true, false, "Single-bit persistent ECC errors."},
    {"DEV_ECC_DBE_AGG_TOTAL", AL_GPU_ECC_UNC_AGG_TOTAL, 1, true, false, "Double-bit persistent ECC errors."},
    {"DEV_RETIRED_SBE", AL_GPU_RETIRED_SBE, 1, true, false, "Pages retired for single-bit errors."},
    {"DEV_RETIRED_DBE", AL_GPU_RETIRED_DBE, 1, true, false, "Pages retired for double-bit errors."},
    {"DEV_RETIRED_PENDING", AL_GPU_RETIRED_PENDING, 1, false, false, "Pages pending retirement."},
    {"DEV_POWER_VIOLATION", AL_GPU_VIOL_POWER, 1e9, true, false, "Throttling duration due to power constraints (in ns)."},
    {"DEV_THERMAL_VIOLATION", AL_GPU_VIOL_THERMAL, 1e9, true, false,
     "Throttling duration due to thermal constraints (in ns)."},
    {"DEV_SYNC_BOOST_VIOLATION", AL_GPU_VIOL_SYNC_BOOST, 1e9, true, false,
     "Throttling duration due to sync-boost constraints (in ns)."},
    {"DEV_BOARD_LIMIT_VIOLATION", AL_GPU_VIOL_BOARD_LIMIT, 1e9, true, false,
     "Throttling duration due to board limit constraints (in ns)."},
    {"DEV_LOW_UTIL_VIOLATION", AL_GPU_VIOL_LOW_UTIL, 1e9, true, false,
     "Throttling duration due to low utilization (in ns)."},
    {"DEV_RELIABILITY_VIOLATION", AL_GPU_VIOL_RELIABILITY, 1e9, true, false,
     "Throttling duration due to reliability constraints (in ns)."},
    {"PROF_GR_ENGINE_ACTIVE", AL_GPU_GPM_GRAPHICS, 1, false, true, "Ratio of time the graphics engine is active."},
    {"PROF_SM_ACTIVE", AL_GPU_GPM_SM, 1, false, true, "The ratio of cycles an SM has at least 1 warp assigned."},
    {"PROF_SM_OCCUPANCY", AL_GPU_GPM_OCCUPANCY, 1, false, true, "The ratio of number of warps resident on an SM."},
    {"PROF_PIPE_TENSOR_ACTIVE", AL_GPU_GPM_TENSOR, 1, false, true, "Ratio of cycles the tensor (HMMA) pipe is active."},
    {"PROF_DRAM_ACTIVE", AL_GPU_GPM_DRAM, 1, false, true,
     "Ratio of cycles the device memory interface is active sending or receiving data."},
    {"PROF_PIPE_FP64_ACTIVE", AL_GPU_GPM_FP64, 1, false, true, "Ratio of cycles the fp64 pipes are active."},
    {"PROF_PIPE_FP32_ACTIVE", AL_GPU_GPM_FP32, 1, false, true, "Ratio of cycles the fp32 pipes are active."},
    {"PROF_PIPE_FP16_ACTIVE", AL_GPU_GPM_FP16, 1, false, true, "Ratio of cycles the fp16 pipes are active."},
    {"PROF_PCIE_TX_BYTES", AL_GPU_GPM_PCIE_TX, 1, false, false,
     "The rate of data transmitted over the PCIe bus, in bytes per second."},
    {"PROF_PCIE_RX_BYTES", AL_GPU_GPM_PCIE_RX, 1, false, false,
     "The rate of data received over the PCIe bus, in bytes per second."},
    {"PROF_NVLINK_TX_BYTES", AL_GPU_GPM_NVLINK_TX, 1, false, false,
     "The rate of data transmitted over NVLink, in bytes per second."},
    {"PROF_NVLINK_RX_BYTES", AL_GPU_GPM_NVLINK_RX, 1, false, false,
     "The rate of data received over NVLink, in bytes per second."},
};

// A MIG device is told by its parent's number and UUID, as DCGM does.
static void labels(struct al_om *o, const struct al_snapshot *s, uint32_t gpu) {
    const struct al_gpu_info *g = &s->gpus[gpu].info, *board = g;
    char device[32];
    if (g->is_mig && g->parent >= 0 && (uint32_t)g->parent < s->gpu_count)
        board = &s->gpus[g->parent].info;
    (void)snprintf(device, sizeof device, "nvidia%u", board->minor);
    al_om_label_number(o, "gpu", board->index);
    al_om_label(o, "UUID", board->uuid);
    al_om_label(o, "pci_bus_id", board->pci_bus_id);
    al_om_label(o, "device", device);
    al_om_label(o, "modelName", board->name);
    if (g->is_mig) {
        al_om_label(o, "GPU_I_PROFILE", g->mig_profile);
        al_om_label_number(o, "GPU_I_ID", g->gpu_instance);
    }
    al_om_label(o, "Hostname", s->node.hostname);
    al_om_label(o, "DCGM_FI_DRIVER_VERSION", s->node.driver_version);
}

// Counters here lack _total, which OpenMetrics does not allow: there the type is left open, the name stays.
static void family(struct al_om *o, const char *name, bool counter, const char *help) {
    (void)snprintf(o->family, sizeof o->family, "DCGM_FI_%s", name);
    o->type = AL_OM_GAUGE;
    o->pending = false;
    al_buf_printf(o->b, "# HELP %s %s\n# TYPE %s %s\n", o->family, help, o->family,
                  !counter ? "gauge" : o->openmetrics ? "unknown" : "counter");
}

static void end(struct al_om *o, double value, bool real) {
    al_buf_str(o->b, "} ");
    al_buf_fixed(o->b, real ? value : floor(value + 1e-6), real ? 6 : 0);
    al_buf_char(o->b, '\n');
}

static void metric(struct al_om *o, const struct al_snapshot *s, const struct dcgm_metric *d) {
    bool begun = false;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_value v = s->gpus[i].m[d->metric];
        if (!al_ok(v))
            continue;
        if (!begun)
            family(o, d->name, d->counter, d->help);
        begun = true;
        al_om_begin(o);
        labels(o, s, i);
        end(o, v.num * d->scale, d->real);
    }
}

static void xid(struct al_om *o, const struct al_om_page *p) {
    const struct al_snapshot *s = p->s;
    family(o, "DEV_XID_ERRORS", false, "Value of the last XID error encountered.");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu *g = &s->gpus[i];
        const struct al_xid *last = NULL;
        if (!al_ok(g->m[AL_GPU_XID_ERRORS]))
            continue;
        for (uint32_t x = 0; x < g->xid_count && x < AL_XID_CODES; x++)
            if (!last || g->xid[x].last_ns > last->last_ns)
                last = &g->xid[x];
        const char *text = !last ? "No Error" : p->xid_text ? p->xid_text(last->code) : NULL;
        al_om_begin(o);
        labels(o, s, i);
        al_om_label_number(o, "err_code", last ? last->code : 0);
        al_om_label(o, "err_msg", text ? text : "");
        end(o, last ? last->code : 0, false);
    }
}

// DCGM's field 449, which it types a counter and fills with a rate in MB/s.
static void nvlink(struct al_om *o, const struct al_snapshot *s) {
    bool begun = false;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_value tx = s->gpus[i].m[AL_GPU_GPM_NVLINK_TX], rx = s->gpus[i].m[AL_GPU_GPM_NVLINK_RX];
        if (!al_ok(tx) || !al_ok(rx))
            continue;
        if (!begun)
            family(o, "DEV_NVLINK_BANDWIDTH_TOTAL", true, "Total bandwidth of all NVLink lanes (in MB/s).");
        begun = true;
        al_om_begin(o);
        labels(o, s, i);
        end(o, (tx.num + rx.num) / 1e6, false);
    }
}

void al_om_dcgm(struct al_om *o, const struct al_om_page *p) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        metric(o, p->s, &table[i]);
    xid(o, p);
    nvlink(o, p->s);
}
