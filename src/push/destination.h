// SPDX-License-Identifier: Apache-2.0
// One receiver: its queue, its retries, its thread. Whatever the receiver does, nobody but that thread waits for it.
#ifndef AL_PUSH_DESTINATION_H
#define AL_PUSH_DESTINATION_H

#include "base/buf.h"
#include "push/http.h"

struct al_destination_options {
    const char *name;   // "otlp", "webhook-1"
    const char *folder; // of its queue; "": memory only
    uint64_t queue_max; // bytes
    struct al_http_options http; // aborted and user are filled in here
    int64_t retry_min_ns, retry_max_ns;
    bool otlp;          // retries only what OTLP allows to retry, and its answers tell of refused points
    bool keep;          // messages go to the folder before they are sent
    bool spare;         // what make makes is only worth something when nothing waits, and never at the end
    int64_t period_ns;  // 0: make is never called
    // On the thread, each period and, without spare, once more at the end. Adds a message to b, or nothing.
    void (*make)(void *user, struct al_buf *b);
    void (*log)(void *user, const char *text);
    void *user;
};

struct al_destination_stats {
    uint64_t sent, retried, dropped, refused_points;
    uint64_t queued, queued_bytes;
};

struct al_destination;
// Starts the thread. Errors are al_http_new's, and AL_E_AGAIN (told by log): another process has the folder and so the
// receiver. A folder that cannot be used is told by log, and memory has to do.
int al_destination_new(const struct al_destination_options *o, struct al_destination **ret, char *error, size_t size);
// Where its queue is, for what else belongs to the receiver; "" when that is in memory only.
const char *al_destination_folder(const struct al_destination *d);
// Never waits. The oldest of 256 gives way, and is counted.
void al_destination_send(struct al_destination *d, const char *body, size_t len);
void al_destination_stats(struct al_destination *d, struct al_destination_stats *ret);
// Begins the end: what waits is sent until deadline_ns (monotonic) and kept in the folder behind it.
void al_destination_stop(struct al_destination *d, int64_t deadline_ns);
// Waits for the end until deadline_ns and frees. False: the thread still hangs (in the resolver) and is left to itself.
bool al_destination_free(struct al_destination *d, int64_t deadline_ns);

#endif
