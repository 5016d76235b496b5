// SPDX-License-Identifier: Apache-2.0
// Expressions of call frame information: what signal frames, linkage stubs and functions that align their stack use.
#ifndef AL_UNWIND_EXPR_H
#define AL_UNWIND_EXPR_H

#include "unwind/rule.h"

#define AL_EXPR_STEPS 256u
#define AL_EXPR_DEPTH 32u

// Value of expression `number`. It ends after AL_EXPR_STEPS operations. AL_STEP_NEEDS, AL_STEP_FAILS.
enum al_step al_expr_value(const struct al_rules *all, uint32_t number, const struct al_regs *regs, uint64_t cfa,
                           struct al_copy *copy, uint64_t *ret);

#endif
