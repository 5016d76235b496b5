// SPDX-License-Identifier: Apache-2.0
// Values as people read them in narrow columns. A stale value ends with "~", an unknown one is "-".
#ifndef AL_TUI_TEXT_H
#define AL_TUI_TEXT_H

#include <stddef.h>

#include "base/units.h"
#include "model/gpu.h"

#define AL_TXT 32

// Short: "97%", "99.5G" (powers of 1024), "300M/s", "640W", "58°C", "1980MHz", "12m30s".
void al_txt_short(char out[AL_TXT], enum al_unit unit, struct al_value v);
// With unit and blank, for lists: "97.0 %", "99.5 GiB". Only the number when the status has one.
void al_txt_long(char *out, size_t size, enum al_unit unit, struct al_value v);
// "640/700W", "99.5/140G"; the second part left out when unknown.
void al_txt_of(char out[AL_TXT], enum al_unit unit, struct al_value v, struct al_value of);
// "4s", "12m", "3h", "2d".
void al_txt_age(char out[AL_TXT], int64_t ns);
// True when there is a number, old or new.
bool al_txt_has(struct al_value v);
// What holds the clocks, in a few words, worst first ("" when nothing does); *ret_bad: slowed down by heat or power.
void al_txt_throttle(char *out, size_t size, struct al_value reasons, bool *ret_bad);
// The name of a GPU as its row shows it: "NVIDIA H200" -> "H200", a MIG device its profile.
const char *al_txt_gpu_name(const struct al_gpu *g);

#endif
