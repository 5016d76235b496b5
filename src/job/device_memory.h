// SPDX-License-Identifier: Apache-2.0
// The driver's figures beside the allocator's, rank by rank.
#ifndef AL_JOB_DEVICE_MEMORY_H
#define AL_JOB_DEVICE_MEMORY_H

#include "job/book.h"

// code: enum al_driver_figure; device: as the framework counts.
typedef void al_book_driver_fn(void *user, uint32_t rank, uint16_t code, int32_t device, int64_t bytes);
// Calls fn for every rank (its place in the book) and device whose allocator was read and that the snapshot knows.
void al_book_driver(const struct al_book *book, const struct al_snapshot *s, al_book_driver_fn *fn, void *user);

#endif
