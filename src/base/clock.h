// SPDX-License-Identifier: Apache-2.0
// Time. One injectable clock: the real one, or one that a replay turns by hand.
#ifndef AL_BASE_CLOCK_H
#define AL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define AL_NS_PER_S 1000000000LL
#define AL_NS_PER_MS 1000000LL
#define AL_NS_PER_US 1000LL

struct al_clock {
    bool virtual_time; // monotonic_ns moves only by al_clock_sleep_until
    int64_t monotonic_ns;
    int64_t realtime_offset_ns; // virtual: realtime = monotonic + offset
    double speed;               // virtual: 0 runs without waiting, 1 waits as long as the real time would
    int64_t real_start_ns;      // virtual: the real clock when it was made
    int64_t virtual_start_ns;
};

void al_clock_real(struct al_clock *c);
// A clock that starts at start_ns (monotonic) and realtime_ns, moving `speed` times as fast as the real one (0: at once).
void al_clock_virtual(struct al_clock *c, int64_t start_ns, int64_t realtime_ns, double speed);
int64_t al_clock_now(const struct al_clock *c);      // monotonic ns
int64_t al_clock_realtime(const struct al_clock *c); // ns since the epoch
// Sleeps until monotonic time `ns` (returns early on a signal: false).
bool al_clock_sleep_until(struct al_clock *c, int64_t ns);

int64_t al_monotonic_ns(void);
int64_t al_realtime_ns(void);
int64_t al_thread_cpu_ns(void);
int64_t al_process_cpu_ns(void);

#endif
