// SPDX-License-Identifier: Apache-2.0
// Stacks of Python and native frames in one: a picture of a thread's registers and stack, its Python frames read at once
// behind it, the picture unwound, both merged. What does not fit is given as Python alone, marked. Goes with one struct
// al_stack, whose numbers of code the native frames get, too.
#ifndef AL_UNWIND_NATIVE_H
#define AL_UNWIND_NATIVE_H

#include "stack/stack.h"
#include "unwind/capture.h"

struct al_native;

struct al_native_settings {
    bool blocking; // stop each thread for the moment of its sample
    bool python;   // with `blocking`: Python frames alone, nothing is unwound
    bool all;      // the interpreter's own frames, too
    double rate;   // pictures a second of running threads
    const char *procfs;
};

// error->text on success too, when a part of it cannot be had here ("" else): threads that run, or that wait. AL_E_DENIED,
// AL_E_UNSUPPORTED (no unwinder, no way to a picture), AL_E_GONE, AL_E_NOMEM.
int al_native_open(pid_t pid, struct al_stack *stack, const struct al_native_settings *settings, struct al_native **ret,
                   struct al_unwind_error *error);
void al_native_free(struct al_native *n);

enum al_native_when {
    AL_NATIVE_NOW,     // a thread that waits (or, with `blocking`, any)
    AL_NATIVE_PICTURE, // the picture of a running thread that al_native_wait told of; kept until al_native_pending
    AL_NATIVE_AWAIT,   // any; of one that runs, a picture is waited for, for some ms
};

// Thread i of the last sample, merged; ret->native says how far. Its frames belong to n until the next call for the same
// thread. AL_E_NOMEM, AL_E_GONE (the thread).
int al_native_thread(struct al_native *n, const struct al_stack_sample *sample, size_t i, enum al_native_when when,
                     struct al_stack_thread *ret);

// The last PICTURE of the thread that came out well and was not taken yet: false: none, *ret is as in the sample. gil: only one at
// which it held the GIL. Its frames belong to n until the next PICTURE of the same thread.
bool al_native_pending(struct al_native *n, const struct al_stack_sample *sample, size_t i, bool gil, struct al_stack_thread *ret);

// As al_capture_wait, al_capture_has_clock and al_capture_fd; 0, false and -1 where running threads give no pictures.
pid_t al_native_wait(struct al_native *n, int64_t until_ns);
bool al_native_has_clock(const struct al_native *n, pid_t tid);
int al_native_fd(const struct al_native *n);
// Gives a running thread its clock, so that al_native_wait tells of it.
void al_native_watch(struct al_native *n, pid_t tid);
// Passes over a picture that al_native_wait told of, of a thread that is not in the sample.
void al_native_pass(struct al_native *n, pid_t tid);
// As al_capture_release.
bool al_native_release(struct al_native *n);

struct al_native_counts {
    uint64_t merged, part, absent, unfit; // stacks, as enum al_stack_native
    uint64_t kept;                        // of those merged: known to be as they were, not unwound again
    uint64_t pinned, unpinned;            // pictures whose stack held the place that Python was read at
    struct al_capture_counts capture;
    struct al_unwind_counts unwind;
};
void al_native_get_counts(const struct al_native *n, struct al_native_counts *ret);

#endif
