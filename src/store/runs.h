// SPDX-License-Identifier: Apache-2.0
// The runs of one thread of a profile as bytes, both ways. Pure.
#ifndef AL_STORE_RUNS_H
#define AL_STORE_RUNS_H

#include "base/buf.h"
#include "store/profiles.h"

int al_runs_encode(const struct al_store_run *runs, uint32_t count, struct al_buf *b); // AL_E_NOMEM
// Trusts nothing: stacks are below `stacks`, counts at least 1. AL_E_FORMAT, AL_E_NOMEM.
int al_runs_decode(const uint8_t *bytes, size_t len, uint32_t stacks, struct al_store_run **ret, uint32_t *ret_count);

#endif
