// SPDX-License-Identifier: Apache-2.0
// What the rules on steps share.
#ifndef AL_DETECT_STEPS_PART_H
#define AL_DETECT_STEPS_PART_H

#include "detect/steps.h"

// A cleared verdict of a rule on an entity ("job", "rank 3 cuda:3").
void al_steps_begin(struct al_steps_verdict *v, const char *rule, const char *entity);
// verdict and message (for a finding also call the field functions).
void al_steps_say(struct al_steps_verdict *v, enum al_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void al_steps_number(struct al_steps_verdict *v, const char *name, double value, enum al_unit unit, const char *source);
// False, and the verdict says so, while there are too few steps.
bool al_steps_enough(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret);
// Whether a share above the limit is worth saying: always at the end, live only when it is clear and lasts.
bool al_steps_lasts(const struct al_steps_view *v, int part, double share, double limit);
// Wall time that was judged, in seconds, summed over ranks; and steps.
double al_steps_wall(const struct al_steps_view *v, uint64_t *ret_steps);

// What a look at the stacks tells of a finding's part of the time, where it has seen that part; and that one is wanted.
void al_steps_look(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret);
// Whether the job so far is slow enough for its stacks to be worth a look while it runs: also where its last steps are too
// short to be judged.
bool al_steps_wants_look(const struct al_settings *set, const struct al_steps_view *v);
// Appends both numbers where more samples are at the loader than the marks' share of waiting explains.
void al_steps_say_preprocessing(const struct al_steps_view *v, double marked, char *out, size_t size);

// Settings that the trainer told and that are known to be slow.
void al_steps_settings(const struct al_steps_view *v, struct al_steps_verdict *ret);

// By how the ranks reach each other.
void al_steps_transport_advice(const struct al_steps_view *v, char *out, size_t size);

// How a figure's floor moves over the steps.
struct al_growth {
    bool enough, rises;
    double bytes; // over the judged steps
    struct al_floor_trend trend;
};
struct al_growth al_steps_growth(const struct al_settings *set, bool live, const struct al_floor *f, double above);
// Time until so much room is filled at that rate, by the mean step; -1 unknown.
double al_steps_seconds_to(const struct al_tally *t, double room, const struct al_growth *g);
// Adds "the device is full in about …" and its number, critical when soon; nothing below 0.
void al_steps_full_in(const struct al_settings *set, struct al_steps_verdict *v, double seconds, const char *what);
void al_steps_say_growth(struct al_steps_verdict *v, const char *who, const char *what, const struct al_growth *g);
void al_steps_growth_numbers(struct al_steps_verdict *v, const char *name, const struct al_growth *g, const char *source);

// Rules "allocated" and "outside_torch", for each rank and device.
uint32_t al_steps_memory(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                         uint32_t max);
// Rule "host", for each rank.
uint32_t al_steps_host(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                       uint32_t max);
// Checkpoints, logging, evaluation, time between steps, and the host itself; found: another rule has found where time goes.
uint32_t al_steps_parts(const struct al_settings *set, const struct al_steps_view *v, bool found,
                        struct al_steps_verdict *ret, uint32_t max);

#endif
