// SPDX-License-Identifier: Apache-2.0
// Recordings: one SQLite file (docs/recording.md). The writer is a sink, a recording is a source.
#ifndef AL_STORE_STORE_H
#define AL_STORE_STORE_H

#include "model/event.h"
#include "model/finding.h"
#include "model/source.h"

struct al_store;

// One line for a user.
struct al_store_error {
    char text[320];
};

typedef int al_store_attr_fn(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);

struct al_store_options {
    const char *path;
    bool force;          // replaces an existing file (never one that is being written)
    bool all_plain;      // plain tables for everything: an export
    bool no_wal;         // an exclusive lock instead of a WAL, as on network file systems
    int64_t block_ns;    // a chunk's length; 0: 10 min
    int64_t plain_ns;    // plain tables hold this much; 0: 1 h
    int64_t full_ns;     // full resolution for this long; 0: 24 h
    int64_t coarse_ns;   // then 10 s until this age; 0: 7 d; then 1 min
    int64_t keep_ns;     // older data is deleted; 0: never
    const char *version; // alula's; "" when NULL
    const char *config;  // effective settings as text
    al_store_attr_fn *attr; // asked once for each GPU; may be NULL
    void *user;
};

// What the writer did so far.
struct al_store_stats {
    uint64_t ticks, gpu_samples, findings, marks;
    int64_t file_bytes; // with the journal
    int64_t chunk_bytes, chunk_gpu_samples; // full-resolution GPU chunks written by this session
};

// Whether the build has SQLite and zstd; without them all calls answer AL_E_UNSUPPORTED.
bool al_store_built(void);

// Creates the file (0600) and locks it. AL_E_DENIED when it exists or has a writer, AL_E_IO; the reason in *reterr.
int al_store_writer(const struct al_store_options *o, struct al_sink **ret, struct al_store_error *reterr);
// Commits, folds the journal into the file and closes; 0 or what went wrong first. Frees the sink.
int al_store_close(struct al_sink *sink, struct al_store_error *reterr);
// Why the last tick or finding failed.
const char *al_store_why(const struct al_sink *sink);
void al_store_stats(const struct al_sink *sink, struct al_store_stats *ret);
// What a rule thinks of an entity; kept when it changed.
int al_store_verdict(struct al_sink *sink, const char *rule, const char *key, const char *verdict, const char *why);
// Least and greatest behind a thinned value of the tick just written, into the table sample_ranges.
int al_store_note_range(struct al_sink *sink, uint32_t gpu, int metric, double min, double max);
// A row of the table `meta`, new or again. Called where ticks are written.
int al_store_note_meta(struct al_sink *sink, const char *key, const char *text);
int al_store_note_gap(struct al_sink *sink, int64_t from_ns, int64_t to_ns, const char *reason);


// A training process whose marks are kept.
struct al_store_process {
    pid_t pid;
    uint64_t start_ticks;
    int32_t rank, local_rank, world; // -1 when unknown
};
// Marks of one process in the order in which they came, times on the clock of the snapshots. They may come from any thread
// and before the first tick; they are written with the next commit. AL_E_NOMEM, AL_E_TOOBIG when nothing is written
// any more.
int al_store_marks(struct al_sink *sink, const struct al_store_process *who, const struct al_mark *marks, size_t count);
int al_store_mark_text(struct al_sink *sink, const struct al_store_process *who, int64_t at_ns, uint16_t code,
                       const char *text, size_t len);
// Writes what waits at once, as for many marks behind the last tick; on the thread of the ticks.
int al_store_commit(struct al_sink *sink);

// ---- reading ----

// AL_E_FORMAT for what is no recording, damaged or newer; AL_E_NOENT, AL_E_DENIED.
int al_store_open(const char *path, struct al_store **ret, struct al_store_error *reterr);
struct al_store *al_store_free(struct al_store *s);

struct al_store_info {
    int64_t start_realtime_ns, duration_ns, interval_ns;
    int64_t ticks, gpu_samples, processes, findings, gaps, ranks;
    int64_t marks, mark_bytes;                        // compressed
    int64_t plain_ticks;                              // in plain tables
    int64_t level_ns[3];                              // time covered at full, 10 s and 1 min
    int64_t level_rows[3], level_bytes[3];            // GPU chunks: rows and compressed bytes by resolution
    int64_t file_bytes, chunk_bytes;
    int schema;
    bool closed; // by its writer, in order
    char version[32], hostname[96], driver[40], boot_id[40];
};
void al_store_info(struct al_store *s, struct al_store_info *ret);
// What could not be read so far: 0, or a count with the first reason.
uint32_t al_store_damage(const struct al_store *s, struct al_store_error *reterr);
// Value of a key of the table `meta`; NULL when there is none. Valid until the next call.
const char *al_store_meta(struct al_store *s, const char *key);

// The first tick after `after_ns` (-1: the first of all), ns since the recording's start. AL_E_END.
int al_store_next(struct al_store *s, int64_t after_ns, int64_t *ret_ns);
// The state at or just before at_ns with driver samples of the ticks since after_ns. Times in it are since the start.
int al_store_at(struct al_store *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret);
// 0 full, 1 10 s, 2 1 min.
int al_store_level(const struct al_store *s, int64_t at_ns);
// Smallest and largest GPU value that stands behind a thinned one; false at full resolution.
bool al_store_range(struct al_store *s, int64_t at_ns, uint32_t gpu, int metric, double *ret_min, double *ret_max);
// Whether the GPU metric was ever known.
bool al_store_has(struct al_store *s, int metric);
int al_store_attr(struct al_store *s, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);

// Stored findings of (after_ns, until_ns], in order. f->rule is valid during the call.
typedef int al_store_finding_fn(void *user, int64_t at_ns, const struct al_finding *f);
int al_store_findings(struct al_store *s, int64_t after_ns, int64_t until_ns, al_store_finding_fn *fn, void *user);
typedef int al_store_gap_fn(void *user, int64_t from_ns, int64_t to_ns, const char *reason);
int al_store_gaps(struct al_store *s, al_store_gap_fn *fn, void *user);
typedef int al_store_verdict_fn(void *user, int64_t at_ns, const char *rule, const char *key, const char *verdict,
                                const char *why);
int al_store_verdicts(struct al_store *s, al_store_verdict_fn *fn, void *user);

// All marks: those of one process in the order in which they came, processes merged by time; times since the recording's
// start (before it: negative), they and durations to 1 us. `text` is NULL but for AL_EVENT_TEXT: `len` bytes, then a NUL.
typedef int al_store_mark_fn(void *user, const struct al_store_process *who, const struct al_mark *mark, const char *text,
                             size_t len);
int al_store_read_marks(struct al_store *s, al_store_mark_fn *fn, void *user);

// Rows of the tables of GPUs and processes, the latest of each UUID or (pid, start). `what` is a struct al_gpu_info, al_proc or al_rank.
typedef int al_store_entity_fn(void *user, int64_t first_ns, const void *what);
int al_store_gpus(struct al_store *s, al_store_entity_fn *fn, void *user);
int al_store_processes(struct al_store *s, al_store_entity_fn *fn, void *user);
int al_store_ranks(struct al_store *s, al_store_entity_fn *fn, void *user);

// A source over [from_ns, to_ns] (to_ns 0: the end). The store stays the caller's and must outlive it.
int al_store_source(struct al_store *s, int64_t from_ns, int64_t to_ns, struct al_source **ret);
// The store and start behind a source that the above made; NULL for another kind.
struct al_store *al_store_of(const struct al_source *source, int64_t *ret_from_ns);

#endif
