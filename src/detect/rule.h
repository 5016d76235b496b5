// SPDX-License-Identifier: Apache-2.0
// What a rule is, and what the machinery of detect.c does for it: one track per entity, hysteresis of the outcome,
// begin/update/end of findings. A rule only looks at the snapshot and says what it thinks of each entity.
#ifndef AL_DETECT_RULE_H
#define AL_DETECT_RULE_H

#include "detect/detect.h"
#include "detect/view.h"

#define AL_TRACKS_MAX 512 // entities of one rule; what is beyond is counted and left out

// Kinds of evidence that come about independently of each other: confidence is limited by how many of them agree.
enum al_signal {
    AL_SIGNAL_UTIL = 1 << 0,     // the driver's utilisation samples
    AL_SIGNAL_ACTIVITY = 1 << 1, // hardware activity counters (GPM)
    AL_SIGNAL_POWER = 1 << 2,
    AL_SIGNAL_CLOCK = 1 << 3, // measured clocks
    AL_SIGNAL_TEMPERATURE = 1 << 4,
    AL_SIGNAL_MEMORY = 1 << 5,  // the device's memory counters
    AL_SIGNAL_PROCESS = 1 << 6, // the driver's process list
    AL_SIGNAL_HOST = 1 << 7,    // /proc of processes
    AL_SIGNAL_NODE = 1 << 8,    // pressure and load of the node, cgroups
    AL_SIGNAL_LINK = 1 << 9,
    AL_SIGNAL_ERRORS = 1 << 10, // error counters and events
    AL_SIGNAL_PEERS = 1 << 11,  // comparison with other GPUs of the job or node
    AL_SIGNAL_STACK = 1 << 13,  // what its threads execute
    AL_SIGNAL_REASON = 1 << 12  // what the driver itself gives as the reason for its clocks
};

struct al_track {
    char entity[120]; // "GPU-…", "job 4242", "GPU-…/xid79"
    uint64_t hash;
    uint64_t seen_tick;
    enum al_verdict verdict;
    char why[120];
    int64_t unsure_since_ns; // an open finding's signal is missing since then; 0 when not
    int64_t emitted_ns;
    char told[sizeof((struct al_finding *)0)->message]; // the message last told: the same again is no update
    struct al_finding *open; // NULL when there is no finding
    void *state;             // the rule's, zeroed when the entity was first seen
};

// A finding being worded. Texts start empty, numbers at "none".
struct al_draft {
    struct al_finding f;
    uint32_t signals;
    enum al_confidence at_most;
    bool news;     // told at once, not only when `update_every` is over
    bool reported; // the hardware itself says so: high confidence whatever the number of signals
};

struct al_run {
    struct al_detect *detect;
    const struct al_snapshot *s;
    const struct al_settings *set;
    const struct al_view *view;
    void *shared; // the rule's own, for all entities
    struct al_draft draft;
};

struct al_rule {
    const char *name;
    uint32_t groups;       // enum al_group bits that it reads
    uint32_t enabled;      // offset of its `enabled` in struct al_settings
    size_t state_size;     // per entity
    size_t shared_size;    // once
    void (*step)(struct al_run *run);
    void (*done)(void *state);         // frees what a state holds; may be NULL
    void (*shared_done)(void *shared); // likewise
};

// The entity's track, made when it is new; NULL when the table or memory is full. Every track that a step does not ask
// for is taken as gone: its finding ends. `part` may be NULL.
struct al_track *al_run_track(struct al_run *run, const char *entity, const char *part);
// The same for a GPU by its UUID.
struct al_track *al_run_any_gpu(struct al_run *run, uint32_t gpu, const char *part);
// For the figures of a GPU: one that does not answer as a whole gets "cannot tell" here and NULL.
struct al_track *al_run_gpu(struct al_run *run, uint32_t gpu, const char *part);

// One of these for each track, once a step.
void al_run_quiet(struct al_run *run, struct al_track *t);
void al_run_too_little(struct al_run *run, struct al_track *t, const char *why);
void al_run_cannot(struct al_run *run, struct al_track *t, const char *why);
// A cleared draft; `rule` is the name it goes by (a static text), `gpu` a position or -1.
struct al_draft *al_run_draft(struct al_run *run, const char *rule, enum al_level level, int gpu);
void al_run_raise(struct al_run *run, struct al_track *t);

// A look at what the process executes is wanted (model/look.h), as long as this is called at each tick.
void al_run_ask_look(struct al_run *run, pid_t pid);

// `name` is a metric's name or a word of the rule; signal 0 adds a number that proves nothing by itself. Numbers beyond
// AL_EVIDENCE_MAX are left out, so the telling ones come first.
void al_draft_number(struct al_draft *d, const char *name, double value, enum al_unit unit, const char *source,
                     uint32_t signal);
// A metric of the draft's GPU, when its status is OK.
void al_draft_gpu(struct al_draft *d, const struct al_gpu *gpu, enum al_gpu_metric metric, uint32_t signal);
// Text is cut to fit; repeated calls append.
void al_draft_title(struct al_draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void al_draft_message(struct al_draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void al_draft_considered(struct al_draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void al_draft_advice(struct al_draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define AL_ENABLED(section) ((uint32_t)offsetof(struct al_settings, section##_enabled))
#define AL_SECONDS(x) ((int64_t)((x) * 1e9))

extern const struct al_rule al_rule_inefficient, al_rule_memory, al_rule_uneven, al_rule_throttled, al_rule_link,
    al_rule_hardware, al_rule_orphan, al_rule_contexts, al_rule_host_memory, al_rule_sensor;

#endif
