// SPDX-License-Identifier: Apache-2.0
// Shared by the two files that answer for attributes.
#ifndef AL_DEVICE_NVML_ATTR_H
#define AL_DEVICE_NVML_ATTR_H

#include "device/nvml_backend.h"

// Status from an NVML result; a sentinel in `raw` is UNSUPPORTED.
void al_nvml_attr_number(struct al_attr_value *ret, int result, uint64_t raw, bool wide);
void al_nvml_attr_text(struct al_attr_value *ret, int result, const char *text);
// Those that come as a member of a struct or need a rule of their own; leaves *ret alone for the rest.
void al_nvml_attr_struct(struct al_nvml *n, struct nvml_device *d, enum al_attr attr, struct al_attr_value *ret);

#endif
