// SPDX-License-Identifier: Apache-2.0
// Inside of the tally: its events on memory, shared by its own files.
#ifndef AL_TALLY_PARTS_H
#define AL_TALLY_PARTS_H

#include "tally/tally.h"

void al_tally_memory_event(struct al_tally *t, uint16_t code, int32_t device, int64_t value, int64_t step);
void al_tally_driver_event(struct al_tally *t, uint16_t code, int32_t device, int64_t value);
void al_tally_cost_event(struct al_tally *t, uint16_t code, int64_t ns);
void al_tally_answer_event(struct al_tally *t, uint16_t code, int32_t device, int64_t bytes, int64_t ns);
void al_tally_host_event(struct al_tally *t, uint16_t code, int32_t moment, int64_t value, int64_t number);

#endif
