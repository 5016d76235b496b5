// SPDX-License-Identifier: Apache-2.0
// Registers and stacks of another process's threads, without stopping it: of threads that run from perf_event_open
// (software clock, user registers and stack), of threads that wait in the kernel from /proc/PID/task/TID/syscall and the
// process's memory. Stopping by ptrace is another way in, only where the user asked for it (--blocking).
#ifndef AL_UNWIND_CAPTURE_H
#define AL_UNWIND_CAPTURE_H

#include "unwind/unwind.h"

struct al_capture;

enum al_capture_way {
    AL_CAPTURE_PERF = 1 << 0,    // threads that run
    AL_CAPTURE_WAITING = 1 << 1, // threads that wait
    AL_CAPTURE_BLOCKING = 1 << 2, // stop each thread for the moment of its sample: exact for both, and felt by the target
};

struct al_capture_settings {
    unsigned ways;       // enum al_capture_way
    double rate;         // samples a second of perf's clock
    uint32_t stack_size; // bytes of each stack that are copied; 0: 32 KiB, at most 65528
    const char *procfs;  // NULL: "/proc"
};

// AL_E_DENIED with the setting that forbids it (kernel.perf_event_paranoid, seccomp, yama) and what still works.
// *ret_ways: the ways that are open (one that is missing does not make it fail while another is there; error->text says why).
int al_capture_open(pid_t pid, const struct al_capture_settings *settings, struct al_capture **ret, unsigned *ret_ways,
                    struct al_unwind_error *error);
void al_capture_free(struct al_capture *c);

enum al_capture_status {
    AL_CAPTURE_RUNNING, // at age_ns before now, from perf
    AL_CAPTURE_ASLEEP,  // now: it waits in the kernel
    AL_CAPTURE_STOPPED, // now, by ptrace; go on with al_capture_release
    AL_CAPTURE_NOTHING, // no picture of it: it runs, and perf's last one is too old or missing
};

// A picture of the thread. *ret belongs to c until the next call. AL_E_GONE, AL_E_NOMEM.
int al_capture_thread(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, enum al_capture_status *ret_status,
                      int64_t *ret_age_ns);
// Lets threads go on that were stopped; safe at any time. Also done by al_capture_free, and by the kernel should alula die.
void al_capture_release(struct al_capture *c);
// Waits until a picture of any running thread has come, or until the time (monotonic): its tid, else 0.
pid_t al_capture_wait(struct al_capture *c, int64_t until_ns);

#endif
