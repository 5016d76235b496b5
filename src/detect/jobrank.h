// SPDX-License-Identifier: Apache-2.0
// What the ranks on some GPUs tell of themselves: the phase that explains an idle GPU, and where they are.
#ifndef AL_DETECT_JOBRANK_H
#define AL_DETECT_JOBRANK_H

#include "detect/view.h"

// The rank with the lowest number among those whose processes compute on the GPUs or belong to a job that does; NULL when
// none tells of itself.
const struct al_rank *al_jobrank_first(const struct al_view *v, const uint32_t *gpus, uint32_t count);
// Why their GPUs may idle: one of them evaluates, saves, or has not begun to train (for an hour at most). A sentence with
// the rank in `out`; false when none does.
bool al_jobrank_idles(const struct al_view *v, const uint32_t *gpus, uint32_t count, char *out, size_t size);

#endif
