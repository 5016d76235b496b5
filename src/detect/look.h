// SPDX-License-Identifier: Apache-2.0
// From samples of stacks to a look (model/look.h), and from looks to words. Pure.
#ifndef AL_DETECT_LOOK_H
#define AL_DETECT_LOOK_H

#include <stddef.h>

#include "detect/frames.h"
#include "detect/settings.h"
#include "model/snapshot.h"

// ---- counting ----

#define AL_LOOK_PLACES 256 // distinct lines of a look; what comes beyond has no line

struct al_look_place {
    struct al_look_line at;
    enum al_look_kind kind;
    bool leaf;
    uint32_t samples;
};

// The samples of one thread, or of all workers of a rank.
struct al_look_tally {
    uint32_t samples, idle, waits;
    uint32_t kinds[AL_LOOK_KIND_COUNT];
    uint32_t count, cap;
    struct al_look_place *places;
};

void al_look_tally_done(struct al_look_tally *t);
// One sample, frames innermost first; whole: they are all there, not only those from the root on. 0 or AL_E_NOMEM.
int al_look_tally_add(struct al_look_tally *t, const struct al_frame *frames, uint32_t count, bool whole, bool idle);
// The place most samples were in, of the function most were in; NULL when there is none.
struct al_look_place *al_look_tally_top(const struct al_look_tally *t, uint32_t *ret_function);
// What the source line of a place tells of native calls (al_frames_native_call): its samples change their kind. ranks: the
// process is one of several, so that it may wait for the others.
void al_look_tally_source(struct al_look_tally *t, struct al_look_place *place, const char *source, bool ranks);
// The look's figures, at_ns its end; workers: processes in `theirs`.
void al_look_fill(struct al_look *look, const struct al_look_tally *own, const struct al_look_tally *theirs, uint32_t workers,
                  double seconds, int64_t at_ns);

// ---- what several looks say together ----

// Where ranks wait in collectives for one or few that are not in any, all but `ranks` and `collective` is of those few.
struct al_looks_told {
    uint32_t ranks;     // that were looked at with success
    uint32_t samples, workers, worker_samples;
    double idle, worker_waits;
    double share[AL_LOOK_KIND_COUNT];   // of all samples
    const struct al_look_line *line, *worker; // that most samples were in; NULL none
    double line_ratio, function_ratio;  // of all samples, where the ranks agree: at least so much
    double worker_line_ratio, worker_function_ratio;
    const struct al_look *elsewhere;    // the first of those that the others wait for; NULL none
    uint32_t apart;                     // how many they are
    double collective;                  // share of the others' samples in collectives
    const char *problem;                // of one that could not be read; NULL
};
#define AL_LOOKS_SUMMED 1024
#define AL_LOOKS_LEAST 10 // samples before anything is said
// Of these looks, whatever their age.
void al_looks_add_up(const struct al_look *const *looks, uint32_t count, struct al_looks_told *ret);
// Of the looks at these processes that are not older than a finding's evidence may be.
void al_looks_sum(const struct al_snapshot *s, const struct al_settings *set, const pid_t *pids, uint32_t count,
                  struct al_looks_told *ret);
// Workers that make something at a time, on average.
#define AL_LOOKS_BUSY 0.5 // from which they are what is waited for
double al_looks_busy_workers(const struct al_looks_told *t);
// Whether enough samples agree on something to say it.
bool al_looks_enough(const struct al_looks_told *t, const struct al_settings *set);
// "87 % of samples wait for the DataLoader's workers at train.py:58; 61 % of samples in collate at data.py:88, in 8 DataLoader
// workers"; "" when there is nothing to say.
void al_looks_say(const struct al_looks_told *t, const struct al_settings *set, char *out, size_t size);
// Whom the others wait for, where there is such: "rank 3", "2 of 8 ranks"
void al_looks_say_elsewhere(const struct al_looks_told *t, char *out, size_t size);
// "data.py:88"; of an installed package "transformers/trainer.py:2488"
void al_look_place_say(const struct al_look_line *l, bool line, char *out, size_t size);
// What the samples are about for the most part, OTHER included; *ret: its share.
enum al_look_kind al_looks_kind(const struct al_looks_told *t, double *ret);

#endif
