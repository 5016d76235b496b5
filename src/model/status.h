// SPDX-License-Identifier: Apache-2.0
// A value travels with its status. Unknown is never 0.
#ifndef AL_MODEL_STATUS_H
#define AL_MODEL_STATUS_H

#include <stdbool.h>
#include <stdint.h>

// X(NAME, word used in JSON and scenarios, what nvidia-smi prints for it, sentence for people)
#define AL_STATUSES(X)                                                                                                 \
    X(UNREAD, "unread", "[N/A]", "not read yet")                                                                       \
    X(OK, "ok", "", "read")                                                                                            \
    X(UNSUPPORTED, "unsupported", "[N/A]", "not supported by this GPU or driver")                                      \
    X(DENIED, "denied", "[Insufficient Permissions]", "permission denied")                                             \
    X(STALE, "stale", "[N/A]", "the last reading is old")                                                              \
    X(LOST, "lost", "[GPU is lost]", "the GPU is lost")                                                                \
    X(RESET, "reset_required", "[GPU requires reset]", "the GPU requires a reset")                                     \
    X(MISSING, "function_not_found", "[Function Not Found]", "the driver library lacks the function")                  \
    X(DEPRECATED, "deprecated", "[Requested functionality has been deprecated]", "withdrawn by the driver")            \
    X(TIMEOUT, "timeout", "[Timeout]", "the driver gave up waiting")                                                    \
    X(ERROR, "error", "[Unknown Error]", "the driver answered with an error")

enum al_status {
#define X(name, word, smi, text) AL_STATUS_##name,
    AL_STATUSES(X)
#undef X
        AL_STATUS_COUNT
};

struct al_value {
    double num;     // in the metric's base unit; with STALE the last good reading
    int64_t at_ns;  // monotonic time of the reading (the driver's own sample time where it gives one)
    uint32_t status; // enum al_status
};

static inline bool al_ok(struct al_value v) {
    return v.status == AL_STATUS_OK;
}
static inline struct al_value al_value_ok(double num, int64_t at_ns) {
    return (struct al_value){num, at_ns, AL_STATUS_OK};
}
static inline struct al_value al_value_none(enum al_status status) {
    return (struct al_value){0, 0, status};
}

const char *al_status_word(uint32_t status);
const char *al_status_smi(uint32_t status);
const char *al_status_text(uint32_t status);
// -1 when the word names no status.
int al_status_from_word(const char *word);

#endif
