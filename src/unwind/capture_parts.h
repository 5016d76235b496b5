// SPDX-License-Identifier: Apache-2.0
// The capture's inside: one file a way.
#ifndef AL_UNWIND_CAPTURE_PARTS_H
#define AL_UNWIND_CAPTURE_PARTS_H

#include "unwind/capture.h"

#if defined(__aarch64__)
#define AL_REG_SP 31
#define AL_REG_PC 32
#define AL_REGS_ALL 0x1ffffffffULL
#else
#define AL_REG_SP 7
#define AL_REG_PC 16
#define AL_REGS_ALL 0x1ffffULL
#endif

// A thread's clock, with the ring that its pictures arrive in.
struct al_clock_ring {
    pid_t tid;
    int fd;
    void *map;
    size_t size; // of the data, behind one page of its own
    int64_t used_ns;
    bool deep; // its pictures hold as much of the stack as can be had, or there was no room for that
};

struct al_stopping { // asked to stop, and not let go yet
    pid_t tid;
    bool stopped;
    int signal; // that it is to get when it goes on
};

struct al_capture {
    pid_t pid;
    char procfs[128];
    unsigned ways;
    uint32_t stack_size;
    uint64_t period_ns;
    bool with_kernel; // perf also fires in kernel mode
    int epoll_fd;
    struct al_clock_ring *rings;
    uint32_t ring_count, ring_cap, next;
    int64_t room_retry_ns;
    unsigned char *record; // 64 KiB: a record of perf's, or a copied stack
    struct al_stopping *stopping;
    uint32_t stopping_count, stopping_cap;
    enum al_capture_status last;
    pid_t last_tid;
    char last_wait[256]; // the line of /proc that the last picture of a waiting thread was made from
    struct al_capture_counts counts;
};

#define AL_CAPTURE_RECORD 65536u

// Each fills in error->text when it answers an error. AL_E_DENIED, AL_E_UNSUPPORTED, AL_E_GONE.
int al_perf_try(struct al_capture *c, struct al_unwind_error *error);
int al_waiting_try(struct al_capture *c, struct al_unwind_error *error);
int al_stopping_try(struct al_capture *c, struct al_unwind_error *error);

// The last picture that has come; 0 and false: none. Gives the thread a clock when it has none.
int al_perf_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found, int64_t *ret_age_ns);
void al_perf_free(struct al_capture *c);
// 0 and false: it runs.
int al_waiting_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found);
bool al_waiting_stands(struct al_capture *c);
int al_stopping_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found);
void al_stopping_free(struct al_capture *c);

// From the stack pointer up, as much as is there.
void al_capture_copy_stack(struct al_capture *c, struct al_unwind_input *in);
// A number in /proc/PID/status or the like: "Name:\tNUMBER"; -1 none.
int64_t al_capture_status_of(const char *procfs, const char *whose, const char *name);

#endif
