// SPDX-License-Identifier: Apache-2.0
// Scalars for TensorBoard: an event file (TFRecord frames around Event messages of TensorFlow's event.proto).
#ifndef AL_EXPORT_TENSORBOARD_H
#define AL_EXPORT_TENSORBOARD_H

#include <stdint.h>

#include "base/buf.h"

#define AL_TENSORBOARD_TAG 128

struct al_tensorboard;

// Makes folder and in it events.out.tfevents.SECONDS.HOST.PID.alula. AL_E_NOENT, AL_E_DENIED, AL_E_IO, AL_E_NOMEM.
int al_tensorboard_open(const char *folder, const char *host, int64_t realtime_ns, struct al_tensorboard **ret);
// Adds a scalar to the next point; what is not finite is left out.
void al_tensorboard_scalar(struct al_tensorboard *t, double value, const char *tag, ...) __attribute__((format(printf, 3, 4)));
// Writes the scalars as one record at once: a reader, and the file after a crash, see all of it or nothing. A record that
// the disk has no room for is taken back, and AL_E_IO comes from then on.
int al_tensorboard_point(struct al_tensorboard *t, int64_t step, int64_t realtime_ns);
uint64_t al_tensorboard_points(const struct al_tensorboard *t);
const char *al_tensorboard_path(const struct al_tensorboard *t);
struct al_tensorboard *al_tensorboard_free(struct al_tensorboard *t);

// CRC-32C (Castagnoli), and the form in which TFRecord keeps it.
uint32_t al_crc32c(const void *bytes, size_t len);
uint32_t al_crc32c_masked(const void *bytes, size_t len);

#endif
