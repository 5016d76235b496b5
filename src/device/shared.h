// SPDX-License-Identifier: Apache-2.0
// Several alulas of one user on one node ask the driver once: whoever holds a lock in the run-time folder samples and leaves
// its view there, the others read that; when the holder ends, another takes over. Whoever sees other devices (another
// container, selection or driver library) shares nothing with them.
#ifndef AL_DEVICE_SHARED_H
#define AL_DEVICE_SHARED_H

#include "device/device.h"

// As al_nvml_open, which it falls back to where there is no folder to meet in. May wait some seconds for the holder.
int al_shared_open(const struct al_nvml_options *options, struct al_device **ret, struct al_device_error *ret_error);
// The sink that leaves the view for others while this device holds the lock; part of the device. NULL for another kind.
struct al_sink *al_shared_sink(struct al_device *d);
bool al_shared_holds(const struct al_device *d); // whether it asks the driver itself

// A view as bytes. What the bytes say is believed no further than that nothing lies outside its bounds. AL_E_FORMAT,
// AL_E_UNSUPPORTED (of another version), AL_E_NOMEM.
struct al_shared_head {
    int64_t written_ns; // monotonic
    uint32_t groups;    // that were asked of the driver
};
struct al_buf;
void al_shared_format(struct al_buf *b, const struct al_shared_head *head, const struct al_snapshot *s);
int al_shared_parse(const char *bytes, size_t len, struct al_shared_head *ret_head, struct al_snapshot *ret);

#endif
