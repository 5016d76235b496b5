// SPDX-License-Identifier: Apache-2.0
// One entity's rows over one block: the common form of plain rows and chunks. Pure.
#ifndef AL_STORE_PART_H
#define AL_STORE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metric.h"
#include "model/status.h"

#define AL_STORE_METRICS_MAX 512 // of one kind, in one file
#define AL_STORE_SLOTS_MAX 64    // distinct reading times of one row
#define AL_STORE_EXTRAS_MAX 6
#define AL_STORE_ROWS_MAX (1u << 20)
#define AL_STORE_LAYOUTS_MAX 20000u

enum al_kind { AL_STORE_TICK, AL_STORE_GPU, AL_STORE_FRESH, AL_STORE_NODE, AL_STORE_PROC, AL_STORE_ROW, AL_STORE_RANK, AL_STORE_LOOK,
               AL_STORE_KINDS };

// Extras of the kinds, by position.
enum { AL_TICK_REALTIME, AL_TICK_INTERVAL, AL_TICK_JITTER, AL_TICK_GROUPS, AL_TICK_HUNG, AL_TICK_HUNG_SINCE };
enum { AL_GPU_POSITION, AL_GPU_PARENT, AL_GPU_STATE, AL_GPU_PROCESSES, AL_GPU_PROCUTIL };
enum { AL_FRESH_AT, AL_FRESH_RATIO };
enum { AL_PROC_GONE, AL_PROC_STATE };
enum { AL_ROW_GONE };
enum { AL_RANK_GONE };
enum { AL_LOOK_GONE };
enum { AL_PART_NODE_GONE };

struct al_store_extra {
    const char *name;
    double scale; // 0: an integer; otherwise stored in the table as integer / scale
};

struct al_store_kind {
    const char *table, *entity; // entity: the column's name; NULL when there is one entity only
    const struct al_store_extra *extras;
    uint32_t extra_count;
    const struct al_metric_info *metrics; // this program's
    uint32_t metric_count;
    int since; // schema that brought the table
};
extern const struct al_store_kind al_store_kinds[AL_STORE_KINDS];

// Which status and which reading time each metric of a row has: code = slot << 4 | status.
struct al_layout {
    int64_t id;
    uint8_t kind;
    uint32_t count, slots; // metrics, distinct reading times
    uint16_t *code;
};
struct al_layouts {
    struct al_layout *list;
    uint32_t count, cap;
};
const struct al_layout *al_layouts_find(const struct al_layouts *l, int64_t id);
// The layout of this kind with these codes, or NULL.
const struct al_layout *al_layouts_match(const struct al_layouts *l, uint8_t kind, const uint16_t *code, uint32_t count);
int al_layouts_add(struct al_layouts *l, int64_t id, uint8_t kind, const uint16_t *code, uint32_t count);
void al_layouts_done(struct al_layouts *l);
// Run-length text of the codes in a table's blob, both ways. Decode: number of metrics, or AL_E_FORMAT.
struct al_buf;
void al_layout_runs(struct al_buf *b, const uint16_t *code, uint32_t count);
int al_layout_parse(const uint8_t *runs, size_t len, uint16_t *code, uint32_t max);

static inline bool al_code_has_number(uint16_t code) {
    uint32_t status = code & 15;
    return status == AL_STATUS_OK || status == AL_STATUS_STALE;
}

struct al_part {
    uint8_t kind, level;
    int64_t entity;
    uint32_t rows, cap, metrics, extras;
    int64_t *t;      // ns since the recording's start, rising
    int64_t *extra;  // rows * extras
    int64_t *layout; // ids
    uint32_t *at_from;
    int64_t *at; // us since the start, as many as the row's layout has slots
    uint32_t at_count, at_cap;
    double *num;       // rows * metrics; what the layout calls neither OK nor STALE is 0
    double *low, *high; // with level > 0 only
};

// One row on its way in or out.
struct al_row {
    int64_t t, layout;
    int64_t extra[AL_STORE_EXTRAS_MAX];
    int64_t at[AL_STORE_SLOTS_MAX];
    uint8_t class[AL_STORE_SLOTS_MAX]; // while it is packed
    uint32_t slots;
    uint16_t code[AL_STORE_METRICS_MAX];
    double num[AL_STORE_METRICS_MAX];
};

int al_part_new(uint8_t kind, uint8_t level, int64_t entity, uint32_t metrics, struct al_part **ret);
struct al_part *al_part_free(struct al_part *p);
int al_part_add(struct al_part *p, const struct al_row *row);
// The last row at or before t, or UINT32_MAX.
uint32_t al_part_find(const struct al_part *p, int64_t t);

// Values into codes, reading times and rounded numbers. Reading times of fast metrics that are closer than `together_ns`
// become one, and so do those of slow ones within 400 ms: few distinct layouts, and columns that repeat.
void al_row_pack(struct al_row *row, const struct al_value *values, const struct al_metric_info *metrics,
                 uint32_t count, int64_t start_ns, int64_t together_ns);
// The reverse for one metric of a row.
struct al_value al_part_value(const struct al_part *p, uint32_t row, const struct al_layout *layout, uint32_t metric);

// Buckets of width_ns: mean of gauges, last of the rest, with least and greatest; *layouts must know the result's ids.
int al_part_thin(const struct al_part *p, const struct al_layouts *layouts, const struct al_metric_info *metrics,
                 int64_t width_ns, uint8_t level, int64_t block_start_ns, struct al_part **ret);

// Bytes of a chunk before compression (docs/recording.md), both ways. Decoding trusts nothing: AL_E_FORMAT, AL_E_TOOBIG.
int al_chunk_encode(const struct al_part *p, const struct al_layouts *layouts, struct al_buf *b);
int al_chunk_decode(const uint8_t *bytes, size_t len, const struct al_layouts *layouts, struct al_part **ret);

#endif
