// SPDX-License-Identifier: Apache-2.0
// The record of GPUTracker.sample(): one JSON object a line with exactly these keys, in this order:
//   timestamp             seconds since the epoch, microseconds behind the point (Python's time.time())
//   gpu_id                the driver's index
//   gpu_util_percent      the driver's last utilisation sample; where it has none, the mean of its buffered samples
//   mem_used_gb           2 decimals; gb is 1024^3 bytes; without the driver's own reserve where the driver tells it
//   mem_total_gb          2 decimals
//   mem_usage_ratio       3 decimals
//   pytorch_allocated_gb  2 decimals; of the ranks on the GPU that tell of themselves (alula run), else null
//   pytorch_reserved_gb   likewise
// What is not known is null, never 0.
#ifndef AL_EXPORT_COMPAT_H
#define AL_EXPORT_COMPAT_H

#include "base/buf.h"
#include "model/snapshot.h"

// NaN stands for "not known".
struct al_compat {
    double timestamp;
    uint32_t gpu_id;
    double gpu_util_percent, mem_used_gb, mem_total_gb, mem_usage_ratio, pytorch_allocated_gb, pytorch_reserved_gb;
};

// The unrounded record of the GPU at position `gpu` of the snapshot.
void al_compat_fill(struct al_compat *ret, const struct al_snapshot *s, uint32_t gpu);
void al_compat_print(struct al_buf *b, const struct al_compat *c);
// Both in one.
void al_compat_sample(struct al_buf *b, const struct al_snapshot *s, uint32_t gpu);

#endif
