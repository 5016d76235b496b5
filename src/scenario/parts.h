// SPDX-License-Identifier: Apache-2.0
// The inside of a scenario, shared by its parser, player and printer: what the text said (changes, sorted by time) and
// the state that a cursor carries through them.
#ifndef AL_SCENARIO_PARTS_H
#define AL_SCENARIO_PARTS_H

#include "scenario/change.h"
#include "scenario/field.h"
#include "scenario/scenario.h"

#define AL_SCENARIO_BYTES_MAX (64u << 20)
#define AL_SCENARIO_EVENTS_MAX (4u << 20)
#define AL_SCENARIO_PROCS_MAX (64u << 10)
#define AL_SCENARIO_FAULTS_MAX 4096u
#define AL_SCENARIO_SECONDS_MAX (366.0 * 86400)
#define AL_SCENARIO_SAMPLE_NS (200 * 1000000LL) // how often the driver takes a utilisation sample on an H200
#define AL_SCENARIO_RING 128                    // derived samples kept: 25 s; the driver's own buffer holds 14 s

// A figure between two events.
struct al_track {
    double a, b;
    int64_t from_ns, ramp_ns;
    uint8_t status;
    bool set; // the scenario named it: nothing is derived
};

struct al_attr_track {
    double num;
    uint32_t text;
    uint8_t status;
    bool set;
};

struct al_sample_list {
    struct al_fresh *item;
    size_t count, cap;
};

struct al_gpu_state {
    struct al_track m[AL_GPU_METRIC_COUNT];
    struct al_attr_track attr[AL_ATTR_COUNT];
    struct al_fresh ring[AL_SCENARIO_RING];
    uint64_t ring_count; // ever added
    struct al_xid xid[AL_XID_CODES];
    uint32_t xid_count;
    uint64_t xid_total;
    uint8_t status, process_status, procutil_status;
    bool gone;
};

struct al_proc_state {
    struct al_proc p; // without figures
    struct al_track m[AL_PROC_METRIC_COUNT];
    uint32_t first_row; // counted from 1
    bool present;
};

struct al_rank_state {
    struct al_rank r; // without figures
    struct al_track m[AL_RANK_METRIC_COUNT];
    bool present;
};

struct al_look_state {
    struct al_look l; // without figures
    struct al_track m[AL_LOOK_METRIC_COUNT];
    bool present;
};

enum { AL_ROW_MEMORY, AL_ROW_SM, AL_ROW_MEM_UTIL, AL_ROW_ENC, AL_ROW_DEC, AL_ROW_JPG, AL_ROW_OFA, AL_ROW_FIGURES,
       AL_ROW_TYPE = AL_ROW_FIGURES, AL_ROW_GI, AL_ROW_CI, AL_ROW_NAME };

struct al_row_state {
    pid_t pid;
    uint32_t gpu, next; // next: another row of the process, counted from 1; 0 ends
    uint32_t type, gpu_instance, compute_instance;
    uint32_t name; // text
    struct al_track m[AL_ROW_FIGURES];
    bool present;
};

struct al_fault_line {
    int64_t at_ns, until_ns;
    struct al_gpu_mask gpus;
    bool any_gpu, hang;
    int code;
    int64_t calls; // -1: any number
    int64_t calls_left;
    char function[64];
};

struct al_scenario {
    int64_t start_realtime_ns, interval_ns, duration_ns;
    struct al_node node;

    uint32_t gpu_count; // boards first, then their MIG devices in the order of their parents
    uint32_t board_count;
    struct al_gpu_info *info;
    bool *recorded_samples;
    struct al_sample_list *samples;

    struct al_change *events;
    size_t event_count, event_cap;
    struct al_gpu_mask *masks;
    size_t mask_count, mask_cap;
    char *texts;
    size_t text_len, text_cap;
    struct al_proc_state *procs; // in order of their first line
    size_t proc_count, proc_cap;
    struct al_row_state *rows;
    size_t row_count, row_cap;
    struct al_rank_state *ranks; // in order of their first line
    size_t rank_count, rank_cap;
    struct al_look_state *looks; // in order of their first line
    size_t look_count, look_cap;
    uint32_t *proc_order, *row_order; // by pid; by gpu, then pid
    struct al_fault_line *faults;
    size_t fault_count, fault_cap;
    char (*missing)[64];
    size_t missing_count, missing_cap;
    struct al_scenario_xid *xids;
    size_t xid_count, xid_cap;

    // the cursor
    int64_t now_ns, next_sample_ns;
    size_t next_event;
    struct al_gpu_state *gpus;
    struct al_track node_m[AL_NODE_METRIC_COUNT];
    uint32_t order[AL_GPU_MAX]; // position -> gpu
    const char *hung_call;
    int64_t hung_since_ns;
    struct al_value (*frozen)[AL_GPU_METRIC_COUNT];
};

extern const char *const al_scenario_row_figures[AL_ROW_FIGURES];

const char *al_scenario_text(const struct al_scenario *s, uint32_t offset);
void al_scenario_rewind(struct al_scenario *s);
// Brings the cursor to `at_ns`, backwards by starting again.
void al_scenario_advance(struct al_scenario *s, int64_t at_ns);
struct al_value al_track_value(const struct al_track *t, enum al_unit unit, int64_t at_ns);
// The text behind "NOT_SUPPORTED" and its like: an NVML result, or -1.
int al_scenario_result(const char *word);
// What an attribute is when no attr line names it: identity, or UNSUPPORTED as *ret came in.
void al_scenario_derive(const struct al_gpu_info *i, enum al_attr attr, struct al_attr_value *ret);
// "2026-11-29T12:00:00Z", with a fraction of a second if need be; false when it is none.
bool al_scenario_date(const char *text, int64_t *ret_ns);

#endif
