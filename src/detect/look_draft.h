// SPDX-License-Identifier: Apache-2.0
// What a look at the stacks adds to a finding being worded.
#ifndef AL_DETECT_LOOK_DRAFT_H
#define AL_DETECT_LOOK_DRAFT_H

#include "detect/look.h"
#include "detect/rule.h"

// The processes that compute on these GPUs, without DataLoader workers: a look at each is asked for, and what the latest
// told is in *ret.
void al_run_look(struct al_run *run, const uint32_t *gpus, uint32_t count, struct al_looks_told *ret);
// Whether it says that the job waits for its data.
bool al_looks_starve(const struct al_looks_told *t, const struct al_settings *set);
// Whether it explains an idle GPU for now: imports, compiles, has no requests.
bool al_looks_excuse(const struct al_looks_told *t, const struct al_settings *set);
// Message and evidence; false when there is nothing to say (then `considered` may tell why).
bool al_draft_look(struct al_run *run, struct al_draft *d, const struct al_looks_told *t);
// What else it could be and what to do; false when the kind of the samples advises nothing.
bool al_draft_look_advice(struct al_draft *d, const struct al_looks_told *t);

#endif
