// SPDX-License-Identifier: Apache-2.0
// Numbers and names as people read them, by value, for use inside a printf call: al_say_bytes(x).s
#ifndef AL_DETECT_SAY_H
#define AL_DETECT_SAY_H

#include "model/snapshot.h"

struct al_say {
    char s[96];
};

struct al_say al_say_percent(double ratio);         // "92.4 %"
struct al_say al_say_bytes(double bytes);           // "132.8 GiB"
struct al_say al_say_byte_rate(double per_second);  // "1.2 GiB/s"
struct al_say al_say_rate(double per_second);       // "3.5/s"; "4 a minute", "2 an hour" when slow
struct al_say al_say_of(double part, double whole); // "132.8 of 140.4 GiB"
struct al_say al_say_seconds(double seconds);       // "6 s", "12 min"
struct al_say al_say_watts(double watts);           // "655 W"
struct al_say al_say_megahertz(double hertz);       // "1980 MHz"
// "GPU 0", "GPU 0 MIG 2/0" (GPU and compute instance), and that number: a MIG device's own counts within its GPU.
struct al_say al_say_gpu(const struct al_snapshot *s, const struct al_gpu *gpu);
uint32_t al_say_gpu_index(const struct al_snapshot *s, const struct al_gpu *gpu);
// "pid 4242 rank 0", "pid 4243 (worker of rank 0)", "pid 4242 (python)"; p may be NULL.
struct al_say al_say_who(const struct al_snapshot *s, const struct al_proc *p, pid_t pid);

#endif
