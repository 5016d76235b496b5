// SPDX-License-Identifier: Apache-2.0
// nvidia-smi's scrolling views: dmon (a line a GPU) and pmon (a line a process).
#ifndef AL_EXPORT_SMI_MONITOR_H
#define AL_EXPORT_SMI_MONITOR_H

#include "export/smi.h"

enum al_smi_monitor_kind { AL_SMI_DMON, AL_SMI_PMON };

#define AL_SMI_COLUMNS_MAX 256
#define AL_SMI_DMON_GPUS 16 // nvidia-smi shows no more, and says so

// How a column's value is printed.
enum al_smi_column_kind {
    AL_SMI_COL_ROUNDED,   // value times scale
    AL_SMI_COL_TRUNCATED, // the same, cut off: 79.87 W are 79 (but 28.999999999 are 29: a ratio came as a double)
    AL_SMI_COL_MEBI,      // MiB, rounded up
    AL_SMI_COL_POWER,     // violation time over wall time, per cent
    AL_SMI_COL_THERMAL,   // 1 when there was any thermal violation since the last line
    AL_SMI_COL_PROTECTED, // an attribute, cut off
    AL_SMI_COL_NOTHING,   // a GPM metric that alula does not read
    // pmon
    AL_SMI_COL_ROW_ROUNDED,
    AL_SMI_COL_ROW_NONZERO, // 0 is printed as '-' too
    AL_SMI_COL_ROW_MEBI,
    AL_SMI_COL_ROW_PROTECTED
};

struct al_smi_column {
    char group;              // letter of -s; 'g': a GPM metric
    uint8_t kind;            // enum al_smi_column_kind
    uint16_t id;             // metric or attribute; pmon: offset in struct al_proc_gpu
    double scale;            // to the printed unit
    char title[12], unit[12];
};

struct al_smi_monitor {
    enum al_smi_monitor_kind kind;
    bool date, time;         // -o
    bool csv, header, units; // --format
    uint32_t groups;         // enum al_group bits that the columns need
    size_t count;
    struct al_smi_column column[AL_SMI_COLUMNS_MAX];
    // What the last line saw, for columns that are a rate; a status of UNREAD in the first.
    struct al_value last_power[AL_GPU_MAX], last_thermal[AL_GPU_MAX]; // violation seconds
};

// Columns of `select`, -s letters in their order (NULL: the kind's default). AL_E_INVALID at an unknown letter or when
// no column is left.
int al_smi_monitor_init(struct al_smi_monitor *m, enum al_smi_monitor_kind kind, const char *select);
// Adds the columns of dmon's --gpm-metrics, "2,10". AL_E_INVALID, with what nvidia-smi says in message[size].
int al_smi_monitor_gpm(struct al_smi_monitor *m, const char *list, char *message, size_t size);
void al_smi_monitor_add(struct al_smi_monitor *m, const struct al_smi_column *c);
// -o: D and T. AL_E_INVALID at another letter.
int al_smi_monitor_options(struct al_smi_monitor *m, const char *letters);
// dmon's --format: csv, noheader, nounit. AL_E_INVALID with the unknown word in bad[size].
int al_smi_monitor_format(struct al_smi_monitor *m, const char *list, char *bad, size_t size);

void al_smi_monitor_header(struct al_buf *b, const struct al_smi_monitor *m);
void al_smi_monitor_rows(struct al_buf *b, struct al_smi_monitor *m, const struct al_smi_view *view);

#endif
