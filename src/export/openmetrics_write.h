// SPDX-License-Identifier: Apache-2.0
// The two text formats, line by line. The family's name is given without _total and _info; they are added where the
// format and type want them.
#ifndef AL_EXPORT_OPENMETRICS_WRITE_H
#define AL_EXPORT_OPENMETRICS_WRITE_H

#include "base/buf.h"
#include "model/snapshot.h"

enum al_om_type { AL_OM_GAUGE, AL_OM_COUNTER, AL_OM_INFO };

struct al_om {
    struct al_buf *b;
    bool openmetrics;
    char family[112];
    const char *unit, *help;
    enum al_om_type type;
    bool pending;              // the family's head is printed with its first sample
    struct al_buf labels;      // "gpu=…,uuid=…" of every GPU, one behind the other
    uint32_t label_at[AL_GPU_MAX + 1];
};

// Begins a family: HELP, TYPE and, where the name ends with it, UNIT. unit may be ""; it and help must outlive the
// family. A family without samples leaves no trace.
void al_om_family(struct al_om *o, const char *name, enum al_om_type type, const char *unit, const char *help);
// A sample is begun, given labels, and ended with its value.
void al_om_begin(struct al_om *o);
void al_om_label(struct al_om *o, const char *name, const char *value);
void al_om_label_number(struct al_om *o, const char *name, int64_t value);
void al_om_gpu_labels(struct al_om *o, uint32_t gpu); // position in the snapshot that al_om_gpus was given
void al_om_end(struct al_om *o, double value);
// All of it for a sample without labels, and for one of a GPU.
void al_om_value(struct al_om *o, double value);
void al_om_gpu_value(struct al_om *o, uint32_t gpu, double value);
// Prepares the labels of a snapshot's GPUs.
void al_om_gpus(struct al_om *o, const struct al_snapshot *s);
// A label's text: backslash, quote and newline escaped, other control bytes '?', invalid UTF-8 U+FFFD.
void al_om_escape(struct al_buf *b, const char *text);

struct al_om_page;
void al_om_dcgm(struct al_om *o, const struct al_om_page *p);
void al_om_processes(struct al_om *o, const struct al_om_page *p);
void al_om_ranks(struct al_om *o, const struct al_om_page *p);
void al_om_health_print(struct al_om *o, const struct al_om_page *p);

#endif
