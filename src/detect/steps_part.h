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

// Settings that the trainer told and that are known to be slow.
void al_steps_settings(const struct al_steps_view *v, struct al_steps_verdict *ret);

uint32_t al_steps_allocated(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                            uint32_t max);
// Checkpoints, logging, evaluation, time between steps, and the host itself; found: another rule has found where time goes.
uint32_t al_steps_parts(const struct al_settings *set, const struct al_steps_view *v, bool found,
                        struct al_steps_verdict *ret, uint32_t max);

#endif
