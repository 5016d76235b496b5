// SPDX-License-Identifier: Apache-2.0
// The columns of nvidia-smi's queries as a table: one row gives a field's names, where its value comes from and how it
// is printed. Shared by the files smi*.c only.
#ifndef AL_EXPORT_SMI_FIELDS_H
#define AL_EXPORT_SMI_FIELDS_H

#include "export/smi.h"

enum al_smi_source {
    AL_SMI_METRIC,   // id is an enum al_gpu_metric
    AL_SMI_ATTR,     // id is an enum al_attr
    AL_SMI_COMPUTED, // id is an enum al_smi_computed
    AL_SMI_FABRIC,   // an attribute that says something only where the GPU has a fabric
    AL_SMI_NONE      // nothing that alula reads has it: `missing` is printed
};

enum al_smi_computed {
    AL_SMI_TIMESTAMP,
    AL_SMI_DRIVER,
    AL_SMI_COUNT,
    AL_SMI_NAME,
    AL_SMI_UUID,
    AL_SMI_BUS_ID,
    AL_SMI_INDEX,
    AL_SMI_COMPUTE_CAP,
    AL_SMI_POWER_MANAGEMENT,
    AL_SMI_PID,
    AL_SMI_PROCESS_NAME,
    AL_SMI_PROCESS_MEMORY
};

// How a known value is printed; smi_format.c has a row for each.
enum al_smi_style {
    AL_SMI_TEXT,
    AL_SMI_INT,
    AL_SMI_HEX1,
    AL_SMI_HEX2,
    AL_SMI_HEX4,
    AL_SMI_HEX8,
    AL_SMI_HEX16,
    AL_SMI_MIB,
    AL_SMI_PERCENT,
    AL_SMI_WATTS,
    AL_SMI_MHZ,
    AL_SMI_MS,
    AL_SMI_US,
    AL_SMI_PSTATE,
    AL_SMI_REASON, // one bit of the value, `mask`
    AL_SMI_ENABLED,
    AL_SMI_YES,
    AL_SMI_CAPABLE,
    AL_SMI_CHECKSUM,
    AL_SMI_ADDRESSING,
    AL_SMI_DRIVER_MODEL,
    AL_SMI_RECOVERY,
    AL_SMI_GOM,
    AL_SMI_COMPUTE_MODE,
    AL_SMI_FABRIC_STATE,
    AL_SMI_FABRIC_STATUS,
    AL_SMI_FABRIC_SUMMARY,
    AL_SMI_HEALTH_BANDWIDTH, // the rest of them: bits of the value from `mask` on
    AL_SMI_HEALTH_FLAG,
    AL_SMI_HEALTH_CONFIG,
    AL_SMI_PEER,
    AL_SMI_STYLE_COUNT
};

struct al_smi_field {
    const char *name;
    const char *alias; // NULL when it has none
    uint8_t source;    // enum al_smi_source
    uint8_t style;     // enum al_smi_style
    uint16_t id;
    uint32_t mask;
    const char *missing; // printed when the GPU lacks it; NULL: the status's word
    const char *help;    // NULL: that of the metric or attribute
};

extern const struct al_smi_field al_smi_gpu_fields[];
extern const size_t al_smi_gpu_field_count;
extern const struct al_smi_field al_smi_app_fields[];
extern const size_t al_smi_app_field_count;

// " [MiB]" without blank and brackets, NULL when the style has no unit.
const char *al_smi_style_unit(uint32_t style);
// One cell. v->status other than OK prints the field's or the status's word.
void al_smi_cell(struct al_buf *b, const struct al_smi_field *f, const struct al_attr_value *v, bool units);
// Memory as nvidia-smi counts it: whole MiB, rounded up.
uint64_t al_smi_mib(double bytes);
// "2026/11/29 15:53:20.123" in local time.
void al_smi_timestamp(int64_t realtime_ns, char *out, size_t size);
// Does position `position` of the snapshot print under GPU `gpu`: the GPU itself or one of its MIG devices?
bool al_smi_belongs(const struct al_snapshot *s, uint32_t position, uint32_t gpu);

#endif
