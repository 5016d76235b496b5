// SPDX-License-Identifier: Apache-2.0
// What a GPU can at most compute, by the name that the driver gives it.
#ifndef AL_MODEL_GPU_PEAK_H
#define AL_MODEL_GPU_PEAK_H

#include <stdbool.h>

// Dense BF16 matrix operations (accumulated in FP32) a second, as the vendor's data sheet states them. False for GPUs that
// are not in the table, for MIG instances and for shares of a GPU: their share of the peak is not stated anywhere.
bool al_gpu_peak_bf16(const char *name, double *ret);

#endif
