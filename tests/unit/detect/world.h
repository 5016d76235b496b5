// SPDX-License-Identifier: Apache-2.0
// A made machine: snapshots by hand, ticks of 500 ms, and a log of what the rules said.
#ifndef AL_TESTS_UNIT_DETECT_WORLD_H
#define AL_TESTS_UNIT_DETECT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/detect.h"

#define GIB 1073741824.0
#define MIB 1048576.0
#define SEC 1000000000LL
#define LOG_MAX 256

struct world {
    struct al_snapshot *s;
    struct al_settings set;
    struct al_detect *d;
    struct al_finding log[LOG_MAX];
    uint32_t count;
    uint32_t host_every; // ticks between two host readings (4: 2 s)
};

// `gpus` idle GPUs of 141 GiB, everything healthy, no process; all host figures read.
void world_make(struct world *w, uint32_t gpus);
void world_free(struct world *w);
void world_settings(struct world *w); // hands w->set over
void world_tick(struct world *w);
void world_ticks(struct world *w, int n);

void world_gpu(struct world *w, uint32_t gpu, enum al_gpu_metric metric, double value);
void world_gpu_status(struct world *w, uint32_t gpu, enum al_gpu_metric metric, enum al_status status);
// A process with role, rank (-1) and job; its host figures read as idle, started long ago.
struct al_proc *world_proc(struct world *w, pid_t pid, enum al_role role, int rank, pid_t job);
struct al_proc *world_find(struct world *w, pid_t pid);
// A compute row.
struct al_proc_gpu *world_row(struct world *w, uint32_t gpu, pid_t pid, double bytes);
void world_drop_proc(struct world *w, pid_t pid); // with its rows
void world_host(struct world *w, pid_t pid, enum al_proc_metric metric, double value);
// One rank with 30 GiB on each GPU from 0, pids 1000 + g, job 1000.
void world_job(struct world *w, uint32_t gpus);

// Findings of a rule in the log with this phase.
uint32_t world_log_count(const struct world *w, const char *rule, enum al_phase phase);
const struct al_finding *world_last(const struct world *w, const char *rule); // last logged, or NULL
const struct al_finding *world_open(const struct world *w, const char *rule); // open now, or NULL
const struct al_finding *world_key(const struct world *w, const char *key);   // open with this key, or NULL
uint32_t world_open_count(const struct world *w);
// Verdict on an entity of a rule (-1: none) and why.
int world_verdict(const struct world *w, const char *rule, const char *entity, char *why, size_t size);
double evidence(const struct al_finding *f, const char *name); // NaN when it is not there

#define assert_cannot(w, rule, entity, part)                                                                           \
    do {                                                                                                               \
        char why_[160];                                                                                                \
        assert_int_equal(world_verdict(w, rule, entity, why_, sizeof why_), AL_VERDICT_CANNOT_TELL);                   \
        assert_non_null(strstr(why_, part));                                                                           \
    } while (0)
#define assert_has(text, part) assert_has_at(text, part, __FILE__, __LINE__)
void assert_has_at(const char *text, const char *part, const char *file, int line);

int engine_suite(void);
int frames_suite(void);
int look_suite(void);
int settings_suite(void);
int inefficient_suite(void);
int inefficient_ranks_suite(void);
int inefficient_bursts_suite(void);
int memory_suite(void);
int uneven_suite(void);
int throttled_suite(void);
int link_suite(void);
int hardware_suite(void);
int orphan_suite(void);
int contexts_suite(void);
int host_memory_suite(void);
int sensor_suite(void);
int steps_suite(void);
int advice_suite(void);
int steps_transport_suite(void);
int steps_memory_suite(void);
int oom_suite(void);

#endif
