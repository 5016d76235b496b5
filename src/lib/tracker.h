// SPDX-License-Identifier: Apache-2.0
// Inside libalula: a tracker on any device, so that tests need no driver.
#ifndef AL_LIB_TRACKER_H
#define AL_LIB_TRACKER_H

#include "alula/alula.h"
#include "base/clock.h"
#include "model/source.h"

// Takes the device over, also on failure. gpus is what the device was opened with, for the message.
int al_lib_tracker_open(struct al_device *device, const struct al_clock *clock, const char *gpus, unsigned window_size,
                        alula_tracker **ret);
// Keeps the detail for alula_error_message and returns `error`.
int al_lib_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
