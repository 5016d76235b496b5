// SPDX-License-Identifier: Apache-2.0
// nvidia-smi's own text, byte for byte as driver 580.159.04 prints it: CSV queries, the GPU list, dmon and pmon. Pure:
// a snapshot and a callback for attributes in, bytes out.
#ifndef AL_EXPORT_SMI_H
#define AL_EXPORT_SMI_H

#include "base/buf.h"
#include "model/attr.h"
#include "model/snapshot.h"

struct al_smi_field; // one column, see smi_fields.c

enum al_smi_list { AL_SMI_GPU, AL_SMI_APPS }; // --query-gpu, --query-compute-apps

#define AL_SMI_FIELDS_MAX 1024

struct al_smi_query {
    enum al_smi_list list;
    bool header, units;
    uint32_t groups; // enum al_group bits that the fields need
    size_t count;
    const struct al_smi_field *field[AL_SMI_FIELDS_MAX];
};

typedef int al_smi_attr_fn(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);

// What is printed from: a snapshot, the positions of the GPUs asked for, and where attributes come from.
struct al_smi_view {
    const struct al_snapshot *s;
    uint32_t gpu_count;
    uint32_t gpu[AL_GPU_MAX];
    bool wanted[AL_GPU_MAX];
    al_smi_attr_fn *attr;
    void *user;
};

// Fills view->gpu with the physical GPUs that `list` names (NULL: all): an index, UUID, PCI id or serial each,
// separated by commas; names of nothing are passed over. AL_E_NOENT when no GPU is left.
int al_smi_select(struct al_smi_view *view, const char *list);

// "name,used_memory" -> fields. AL_E_NOENT with the unknown name in bad[size]; AL_E_TOOBIG.
int al_smi_query_parse(enum al_smi_list list, const char *text, struct al_smi_query *ret, char *bad, size_t size);
// "csv,noheader,nounits" (NULL: csv) -> q->header, q->units. AL_E_INVALID at an unknown word.
int al_smi_query_format(struct al_smi_query *q, const char *text);
void al_smi_query_header(struct al_buf *b, const struct al_smi_query *q);
void al_smi_query_rows(struct al_buf *b, const struct al_smi_query *q, const struct al_smi_view *view);
// Every field with its alias and meaning.
void al_smi_query_help(struct al_buf *b, enum al_smi_list list);

// -L. AL_E_LOST when a GPU is lost (what is printed says which).
int al_smi_list_gpus(struct al_buf *b, const struct al_smi_view *view);

// The table behind it all, for tests: row i, or NULL behind the last.
const struct al_smi_field *al_smi_field_at(enum al_smi_list list, size_t i);
const char *al_smi_field_name(const struct al_smi_field *f);
const char *al_smi_field_alias(const struct al_smi_field *f); // NULL when it has none

#endif
