// SPDX-License-Identifier: Apache-2.0
// Which Kubernetes container was given which device.
#ifndef AL_MODEL_POD_H
#define AL_MODEL_POD_H

#include "model/gpu.h"

#define AL_POD_USES_MAX 512 // devices given to containers of one node

struct al_pod_use {
    char device[AL_UUID_MAX]; // the device plugin's id: a UUID, or the driver's index; without the "::2" of a shared one
    char resource[64];        // "nvidia.com/gpu"
    char name_space[64];      // 63 is Kubernetes' own limit of a label
    char pod[256];            // and 253 that of a name
    char container[64];
};

#endif
