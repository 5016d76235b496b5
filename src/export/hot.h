// SPDX-License-Identifier: Apache-2.0
// What runs most, now: samples of threads by stack and state, since the start and over a window that slides; rows by
// function, line or thread are made of them when they are looked at. Used by one thread at a time.
#ifndef AL_EXPORT_HOT_H
#define AL_EXPORT_HOT_H

#include <stdbool.h>

#include "export/profile.h"

struct al_hot;

enum al_hot_state { // of a sample, bits
    AL_HOT_IDLE = 1,
    AL_HOT_GIL = 2,   // held the GIL
    AL_HOT_WAITS = 4, // waited for it
};

// window_ns: the length of the window. NULL: no memory.
struct al_hot *al_hot_new(int64_t window_ns);
void al_hot_free(struct al_hot *h);
// A process, by its name as it is shown; rank -1: none. A number, or AL_PROFILE_NONE.
uint32_t al_hot_process(struct al_hot *h, const char *name, int32_t rank);
// The thread that a track of the profile stands for. AL_E_NOMEM.
int al_hot_thread(struct al_hot *h, uint32_t track, uint32_t process, const char *name);
bool al_hot_knows(const struct al_hot *h, uint32_t track);
// A round of sampling: the window moves on. AL_E_NOMEM.
int al_hot_tick(struct al_hot *h, int64_t now_ns);
// A sample of this round. Its track was told by al_hot_thread. AL_E_NOMEM.
int al_hot_add(struct al_hot *h, uint32_t track, uint32_t stack, unsigned state);
// Forgets samples; forget_threads: threads and processes as well, as a new profile needs it.
void al_hot_reset(struct al_hot *h, bool forget_threads);
// More kinds of samples than are worth their memory: time for a new profile and al_hot_reset.
bool al_hot_full(const struct al_hot *h, const struct al_profile *p);

enum al_hot_by { AL_HOT_BY_FUNCTION, AL_HOT_BY_LINE, AL_HOT_BY_THREAD };
enum al_hot_sort { AL_HOT_SORT_SELF, AL_HOT_SORT_TOTAL, AL_HOT_SORT_SELF_TIME, AL_HOT_SORT_TOTAL_TIME, AL_HOT_SORT_NAME, AL_HOT_SORT_DIFFERENCE };

enum al_hot_part {
    AL_HOT_ALL,
    AL_HOT_LINES_OF,   // lines of the function `of`
    AL_HOT_CALLERS_OF, // functions that called it, with the samples in which they did
    AL_HOT_CALLED_BY,  // functions that it called
};

struct al_hot_query {
    enum al_hot_part part;
    uint32_t of; // a row's `function`
    enum al_hot_by by;
    enum al_hot_sort sort;
    bool reverse;
    bool whole;         // shares since the start, not of the window
    bool idle, gil;     // idle samples count too; only those that held the GIL
    uint32_t track;     // of this thread alone; AL_PROFILE_NONE all
    const char *filter; // rows whose name or file holds it, whatever the case; NULL or "": all
};

struct al_hot_counts { // thread-samples; self and total by the query, the others of whatever state
    uint64_t self, total; // total: it was anywhere on the stack
    uint64_t gil, waits, idle, all;
};

struct al_hot_row {
    const char *name, *file; // file: of native code its object; of a thread its process. Valid as long as profile and hot
    int32_t line;            // function: its first line; 0 not known
    uint32_t track;          // of a thread; else AL_PROFILE_NONE
    uint32_t function;       // its number, for the parts of a function; AL_PROFILE_NONE of a thread
    struct al_hot_counts c;  // what shares are of
    uint64_t self_ever, total_ever;
    uint32_t most; // of a thread: the innermost frame of the stack it was met in most often; AL_PROFILE_NONE none
    // Where there are several ranks: the one whose total share is farthest from the median of all; -1 none.
    int32_t rank;
    double rank_share, median_share;
};

struct al_hot_view {
    struct al_hot_row *rows;
    uint32_t count, cap;
    struct al_hot_counts sum; // total = self: the samples that shares are of
    uint64_t ticks, ticks_ever; // rounds that these are of
    int64_t span_ns, span_ever_ns;
    uint32_t threads, ranks; // that had samples
    uint32_t rows_all; // before the filter
    // Own use:
    uint32_t *stamps;
    float *by_rank;
    uint32_t stamp_cap;
    size_t by_rank_cap;
};

// AL_E_NOMEM. The rows' texts belong to p and h.
int al_hot_rows(struct al_hot *h, const struct al_profile *p, const struct al_hot_query *q, struct al_hot_view *v);
void al_hot_view_free(struct al_hot_view *v);
// Name, file and line of a frame, such as `most`.
void al_profile_get_frame(const struct al_profile *p, uint32_t frame, const char **name, const char **file, int32_t *line);

#endif
