// SPDX-License-Identifier: Apache-2.0
// torch.cuda.memory_summary()'s text as numbers. The text is another process's: what does not look like it is left out.
#ifndef AL_EXPORT_SUMMARY_H
#define AL_EXPORT_SUMMARY_H

#include "base/buf.h"

// X(key, words in the table, bytes): rows as torch words them
#define AL_SUMMARY_ROWS(X)                                                                                             \
    X(allocated_bytes, "Allocated memory", true)                                                                       \
    X(active_bytes, "Active memory", true)                                                                             \
    X(requested_bytes, "Requested memory", true)                                                                       \
    X(reserved_bytes, "GPU reserved memory", true)                                                                     \
    X(inactive_split_bytes, "Non-releasable memory", true)                                                             \
    X(allocations, "Allocations", false)                                                                               \
    X(active_allocations, "Active allocs", false)                                                                      \
    X(segments, "GPU reserved segments", false)                                                                        \
    X(inactive_splits, "Non-releasable allocs", false)                                                                 \
    X(oversize_allocations, "Oversize allocations", false)                                                             \
    X(oversize_segments, "Oversize GPU segments", false)

enum al_summary_row {
#define X(key, words, bytes) AL_SUMMARY_##key,
    AL_SUMMARY_ROWS(X)
#undef X
        AL_SUMMARY_COUNT
};

struct al_summary {
    bool ooms_known, retries_known;
    double ooms, retries;
    struct {
        bool known;
        double current, peak, allocated, freed; // rounded down by torch to the unit that it shows
    } row[AL_SUMMARY_COUNT];
};

// Returns how many rows were understood.
int al_summary_parse(const char *text, struct al_summary *ret);
// {"ooms":0,"retries":0,"allocated_bytes":{"current":…,"peak":…,"allocated":…,"freed":…},…}; null where not known.
void al_summary_json(struct al_buf *b, const struct al_summary *s);

#endif
