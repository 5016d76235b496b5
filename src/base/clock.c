// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * AL_NS_PER_S + t.tv_nsec;
}

int64_t al_monotonic_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}
int64_t al_realtime_ns(void) {
    return read_clock(CLOCK_REALTIME);
}
int64_t al_thread_cpu_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
int64_t al_process_cpu_ns(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void al_clock_real(struct al_clock *c) {
    *c = (struct al_clock){0};
}

void al_clock_virtual(struct al_clock *c, int64_t start_ns, int64_t realtime_ns, double speed) {
    *c = (struct al_clock){.virtual_time = true,
                           .monotonic_ns = start_ns,
                           .realtime_offset_ns = realtime_ns - start_ns,
                           .speed = speed,
                           .real_start_ns = al_monotonic_ns(),
                           .virtual_start_ns = start_ns};
}

int64_t al_clock_now(const struct al_clock *c) {
    return c->virtual_time ? c->monotonic_ns : al_monotonic_ns();
}

int64_t al_clock_realtime(const struct al_clock *c) {
    return c->virtual_time ? c->monotonic_ns + c->realtime_offset_ns : al_realtime_ns();
}

static bool sleep_real(int64_t until_ns) {
    struct timespec t = {.tv_sec = until_ns / AL_NS_PER_S, .tv_nsec = until_ns % AL_NS_PER_S};
    // Not restarted after a signal: the caller looks whether it has to stop.
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != EINTR;
}

bool al_clock_sleep_until(struct al_clock *c, int64_t ns) {
    if (!c->virtual_time)
        return ns <= al_monotonic_ns() || sleep_real(ns);
    if (ns <= c->monotonic_ns)
        return true;
    if (c->speed > 0) {
        double wait = (double)(ns - c->virtual_start_ns) / c->speed;
        if (!sleep_real(c->real_start_ns + (int64_t)wait))
            return false;
    }
    c->monotonic_ns = ns;
    return true;
}
