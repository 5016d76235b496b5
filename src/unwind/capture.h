// SPDX-License-Identifier: Apache-2.0
// Registers and stacks of another process's threads, without stopping it: of threads that run from perf_event_open
// (software clock, user registers and stack), of threads that wait in the kernel from /proc/PID/task/TID/syscall and the
// process's memory. Stopping by ptrace is another way in, only where the user asked for it (--blocking).
#ifndef AL_UNWIND_CAPTURE_H
#define AL_UNWIND_CAPTURE_H

#include "unwind/unwind.h"

struct al_capture; // used by the thread that made it: ptrace knows its tracer by its thread

enum al_capture_way {
    AL_CAPTURE_PERF = 1 << 0,     // threads that run
    AL_CAPTURE_WAITING = 1 << 1,  // threads that wait
    AL_CAPTURE_BLOCKING = 1 << 2, // stop each thread for the moment of its sample: exact for both, and felt by the target
};

#define AL_CAPTURE_STACK_DEFAULT 32768u
#define AL_CAPTURE_STACK_MOST 65000u // a record of perf has 16 bits for its size, registers included

struct al_capture_settings {
    unsigned ways;       // enum al_capture_way
    double rate;         // pictures a second of a thread's CPU time (perf); 0: 100
    uint32_t stack_size; // bytes of each stack that are copied; 0: AL_CAPTURE_STACK_DEFAULT
    const char *procfs;  // NULL: "/proc"
};

// *ret_ways: the ways that are open. AL_E_DENIED or AL_E_UNSUPPORTED when none is, with the setting that forbids it
// (kernel.perf_event_paranoid, seccomp, a debugger). One that is missing does not make it fail while another is there:
// error->text, "" otherwise, says why. AL_E_GONE, AL_E_NOMEM.
int al_capture_open(pid_t pid, const struct al_capture_settings *settings, struct al_capture **ret, unsigned *ret_ways,
                    struct al_unwind_error *error);
void al_capture_free(struct al_capture *c);

enum al_capture_status {
    AL_CAPTURE_RUNNING, // at age_ns before now, from perf
    AL_CAPTURE_ASLEEP,  // now: it waits in the kernel
    AL_CAPTURE_STOPPED, // now, by ptrace; go on with al_capture_release
    AL_CAPTURE_NOTHING, // no picture of it: it runs, and perf has none that was not given out yet
};

// A picture of the thread by one of `ways`. *ret belongs to c until the next call. A thread that is seen running gets a
// clock of perf's from then on. AL_E_GONE, AL_E_NOMEM.
int al_capture_thread(struct al_capture *c, pid_t tid, unsigned ways, struct al_unwind_input *ret,
                      enum al_capture_status *ret_status, int64_t *ret_age_ns);
// Whether the last picture still stands: the thread is stopped, or waits as it did. False of one that runs.
bool al_capture_stands(struct al_capture *c);
// Lets threads go on that were stopped; safe at any time. Also done by al_capture_free, and by the kernel should alula die.
// A thread that is deep in the kernel, or gets no processor, stops later than it was asked to: while this answers true there is
// such a one, and it is to be called again soon.
bool al_capture_release(struct al_capture *c);

// Waits until a picture of any running thread has come, or until the time (monotonic): its tid, else 0. Which thread has
// the clock of perf's: al_capture_has_clock.
pid_t al_capture_wait(struct al_capture *c, int64_t until_ns);
bool al_capture_has_clock(const struct al_capture *c, pid_t tid);
// The pictures of a running thread did not reach far enough up its stack: the next ones have all that perf gives of it.
void al_capture_deepen(struct al_capture *c, pid_t tid);
// Whether that was not tried yet: it is tried once.
bool al_capture_may_deepen(struct al_capture *c, pid_t tid);
// To poll for input together with other captures; al_capture_wait with the time 0 then tells.
int al_capture_fd(const struct al_capture *c);

struct al_capture_counts {
    uint64_t pictures, missed; // of perf's: given out; overtaken by a later one, or lost for want of room
    uint64_t asleep, stopped;
    uint32_t clocks;           // of threads, now
    bool no_room;              // the kernel's limit of locked memory kept threads from a clock (kernel.perf_event_mlock_kb)
};
void al_capture_get_counts(const struct al_capture *c, struct al_capture_counts *ret);

#endif
