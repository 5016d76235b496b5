// SPDX-License-Identifier: Apache-2.0
// What a sampler saw: stacks as a tree of frames, how often each was met, and per thread in which order. And the formats
// that viewers read.
#ifndef AL_EXPORT_PROFILE_H
#define AL_EXPORT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define AL_PROFILE_NONE UINT32_MAX

struct al_profile;

struct al_profile *al_profile_new(void); // NULL: no memory
void al_profile_free(struct al_profile *p);

enum al_profile_kind {
    AL_PROFILE_PYTHON,
    AL_PROFILE_NATIVE,
    AL_PROFILE_MARK, // no code: a process, a thread, a task, what is missing
};

enum al_profile_state { AL_PROFILE_RUNNING, AL_PROFILE_GIL, AL_PROFILE_WAITS, AL_PROFILE_IDLE, AL_PROFILE_STATES };

struct al_profile_who { // a thread; texts may be ""
    int32_t pid, tid;
    int32_t rank;        // -1: none
    const char *process; // "process 4242, rank 0 of 2"
    const char *thread;  // "MainThread"
};

// All five: AL_PROFILE_NONE, or AL_E_NOMEM, when there is no memory.
// The number of a frame of Python's; file "" and line 0: not known.
uint32_t al_profile_frame(struct al_profile *p, const char *name, const char *file, int32_t line);
// Of any kind; object: the file that native code was loaded from, "" none.
uint32_t al_profile_frame_of(struct al_profile *p, enum al_profile_kind kind, const char *name, const char *file,
                             const char *object, int32_t line);
// Where the frame's function begins: lines of one function are told from those of others by it.
void al_profile_first_line(struct al_profile *p, uint32_t frame, int32_t line);
// The stack that has `frame` on top of `parent` (AL_PROFILE_NONE: it is the root).
uint32_t al_profile_stack(struct al_profile *p, uint32_t parent, uint32_t frame);
// A thread, in the order of their coming.
uint32_t al_profile_track(struct al_profile *p, const struct al_profile_who *who);
// Another name of its thread: Python's own comes after the first moments. AL_E_NOMEM.
int al_profile_rename(struct al_profile *p, uint32_t track, const char *thread);
// tick: when, in samples since the first; never falls for a track.
int al_profile_add(struct al_profile *p, uint32_t track, uint32_t stack, uint32_t tick, enum al_profile_state state);

// The same for samples at `count` ticks from `tick` on.
int al_profile_add_run(struct al_profile *p, uint32_t track, uint32_t stack, uint32_t tick, uint32_t count, enum al_profile_state state);

uint64_t al_profile_samples(const struct al_profile *p); // added
uint32_t al_profile_tracks(const struct al_profile *p);
// Samples of stacks, or ends of stacks, that came when there were too many to tell more apart: "[further stacks]".
uint64_t al_profile_further(const struct al_profile *p);

// How it came about. All texts may be "", counts 0 where nothing is known.
struct al_profile_about {
    const char *name;     // "process 4242"
    const char *command;  // of the process
    const char *exporter; // "alula 1.0"
    double rate;          // samples a second, > 0
    double seconds;       // that it took
    int64_t start_ns;     // by the clock since 1970; 0 not known
    int32_t pid;
    uint32_t processes;
    uint64_t ticks, late, failed;                     // samples of all threads: taken, left out, without a list of threads
    uint64_t stacks, unstable, unreadable, truncated; // of threads
    bool idle, gil, by_function;                      // what was asked for
};

// The time that a sample stands for: 1 / rate, and more where samples came late and were left out.
double al_profile_sample_seconds(const struct al_profile_about *about);

// Each appends a whole file. AL_E_NOMEM.
typedef int al_profile_writer(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about);
// One line a stack: "root;...;leaf COUNT", each frame as "name (file:line)", for flamegraph.pl, inferno, speedscope.
al_profile_writer al_folded;
// https://www.speedscope.app/file-format-schema.json: a profile a thread, its samples in the order of time, in seconds.
al_profile_writer al_speedscope;
// Trace events, for Perfetto and chrome://tracing: the stacks of each thread over time.
al_profile_writer al_chrome;
// github.com/google/pprof's profile.proto, as gzip where zlib is there: samples and nanoseconds, by thread.
al_profile_writer al_pprof;

// One file with script and style inside, which loads nothing: a page, or a picture that a browser turns into that page.
al_profile_writer al_flame_html;
al_profile_writer al_flame_svg;

struct al_profile_format {
    const char *name, *alias; // alias: py-spy's name; NULL none
    const char *endings;      // of files, parted by blanks; the first is the usual one
    const char *about;        // for the help
    al_profile_writer *write;
};
extern const struct al_profile_format al_profile_formats[];
extern const size_t al_profile_format_count;
// NULL: no such format. By a file's name: the format with the longest ending that fits.
const struct al_profile_format *al_profile_format_named(const char *name);
const struct al_profile_format *al_profile_format_of_file(const char *path);

#endif
