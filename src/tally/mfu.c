// SPDX-License-Identifier: Apache-2.0
#include "tally/mfu.h"

#include <math.h>

#define PARAMETERS_MOST 1e15

static bool take_parameters(const struct al_tally *t, struct al_mfu *ret) {
    double all, trainable, experts = 0, parts = 1;
    if (!al_tally_number(t, AL_TEXT_MODEL, "parameters", &all) || !al_tally_number(t, AL_TEXT_MODEL, "trainable", &trainable)) {
        ret->missing = "the number of parameters was not told";
        return false;
    }
    if (!(all > 0 && all < PARAMETERS_MOST && trainable >= 0 && trainable <= all)) {
        ret->missing = "the number of parameters that was told cannot be";
        return false;
    }
    ret->parameters = all;
    ret->trainable = trainable;
    (void)al_tally_number(t, AL_TEXT_MODEL, "experts", &experts);
    (void)al_tally_number(t, AL_TEXT_MODEL, "parts", &parts);
    if (experts > 0)
        ret->missing = "a mixture of experts: how many of its parameters a token passes is not known";
    else if (parts != 1)
        ret->missing = "the model is split over ranks: each sees a part of its parameters";
    else
        return true;
    return false;
}

void al_mfu(const struct al_tally *const *tallies, uint32_t count, double seconds, double peak, struct al_mfu *ret) {
    *ret = (struct al_mfu){.parameters = NAN, .trainable = NAN, .missing = "no step ended"};
    if (!count || !(seconds > 0))
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (tallies[i]->tokens_unknown || !tallies[i]->tokens) {
            ret->missing = "no batch with input_ids was seen";
            ret->tokens = 0;
            break;
        }
        ret->tokens += (double)tallies[i]->tokens;
    }
    ret->tokens_known = ret->tokens > 0;
    ret->tokens_per_second = ret->tokens / seconds;
    bool parameters = take_parameters(tallies[0], ret);
    if (!ret->tokens_known)
        ret->missing = "no batch with input_ids was seen";
    if (!ret->tokens_known || !parameters)
        return;
    ret->flops_known = true;
    ret->flops_per_second = ret->tokens_per_second * (4 * ret->parameters + 2 * ret->trainable);
    ret->ratio = peak > 0 ? ret->flops_per_second / peak : 0;
    ret->mfu_known = peak > 0 && ret->ratio <= 1;
    // More than there is: a GPU was not seen, or tokens are passed through a part of the model alone.
    ret->missing = ret->mfu_known ? NULL
                   : peak > 0     ? "it would be above the GPUs' peak: not all of the model or of the GPUs is as it seems"
                                  : "the peak of the job's GPUs is not known";
}
