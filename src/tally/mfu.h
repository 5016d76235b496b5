// SPDX-License-Identifier: Apache-2.0
// How much of it is useful: tokens a second, and the share of the GPUs' peak that the model's own arithmetic makes up.
//
// A token costs 2 operations for each parameter in the forward pass, 2 in the backward pass through the activations, and 2
// for the gradient of each parameter that is trained (Kaplan et al. 2020, Chowdhery et al. 2022): 6 N for full fine-tuning,
// 4 N where the base is frozen (LoRA). Left out: attention's own products, which grow with the length of a sequence, and what
// is computed again (gradient checkpointing), which is no use.
#ifndef AL_TALLY_MFU_H
#define AL_TALLY_MFU_H

#include "tally/tally.h"

#define AL_MFU_FORMULA "tokens x (4 x parameters + 2 x trainable parameters) / (seconds x peak dense BF16 FLOP/s of the GPUs)"

struct al_mfu {
    bool tokens_known, flops_known, mfu_known;
    double tokens, tokens_per_second; // of all ranks
    double parameters, trainable;     // NaN unknown
    double flops_per_second;          // the model's own
    double ratio;
    const char *missing; // why the first of them that is not known is not
};

// tallies: of the ranks that train; seconds: that they trained for. peak: of the GPUs together; 0 unknown.
void al_mfu(const struct al_tally *const *tallies, uint32_t count, double seconds, double peak, struct al_mfu *ret);

#endif
