// SPDX-License-Identifier: Apache-2.0
// Which GPUs the user means: "0,2", "GPU-…" or "MIG-…" (a unique beginning is enough), "00000000:83:00.0" or "83:00.0".
#ifndef AL_MODEL_SELECT_H
#define AL_MODEL_SELECT_H

#include "model/gpu.h"

// True when `list` is NULL, empty, or names this GPU.
bool al_gpu_selected(const char *list, const struct al_gpu_info *info);
// AL_E_INVALID with the offending item in item[size] when an item can be no index, UUID or PCI id.
int al_gpu_select_check(const char *list, char *item, size_t size);

#endif
