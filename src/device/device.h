// SPDX-License-Identifier: Apache-2.0
// The backends of struct al_device.
#ifndef AL_DEVICE_DEVICE_H
#define AL_DEVICE_DEVICE_H

#include "model/source.h"

struct al_nvml_options {
    const char *library; // path of libnvidia-ml.so.1; NULL searches the usual places
    const char *gpus;    // --gpu LIST (model/select.h); NULL takes all
};

// What went wrong at opening, for one clear line.
struct al_device_error {
    char message[256];
};

// Loads the library and initialises NVML. AL_E_NOLIB, AL_E_NOSYM, AL_E_NODRIVER, AL_E_DENIED, AL_E_MISMATCH, ...
int al_nvml_open(const struct al_nvml_options *options, struct al_device **ret, struct al_device_error *reterr_error);

// Where the library is looked for, in this order; the first is a bare name for the loader's own search. NULL ends.
extern const char *const al_nvml_places[];

// Plays the device half of `source` (not taken over), its start at start_ns of the clock that sample() is given.
int al_replay_device(struct al_source *source, const char *gpus, int64_t start_ns, struct al_device **ret);

struct al_device *al_device_free(struct al_device *d);

#endif
