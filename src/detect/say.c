// SPDX-License-Identifier: Apache-2.0
#include "detect/say.h"

#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"

static struct al_say fixed(double value, int decimals, const char *unit)
{
    struct al_say say = {""};
    char number[64];
    (void)al_fmt_fixed(number, sizeof number, value, decimals);
    (void)snprintf(say.s, sizeof say.s, "%s%s", number, unit);
    return say;
}

struct al_say al_say_percent(double ratio)
{
    return fixed(ratio * 100, 1, " %");
}

struct al_say al_say_bytes(double bytes)
{
    struct al_say say = {""};
    (void)al_fmt_bytes(say.s, sizeof say.s, bytes);
    return say;
}

struct al_say al_say_byte_rate(double per_second)
{
    struct al_say say = {""};
    size_t len = al_fmt_bytes(say.s, sizeof say.s - 2, per_second);
    (void)snprintf(say.s + len, sizeof say.s - len, "/s");
    return say;
}

struct al_say al_say_rate(double per_second)
{
    if (per_second >= 0.95)
        return fixed(per_second, per_second < 9.95 ? 1 : 0, "/s");
    if (per_second * 60 >= 0.95)
        return fixed(per_second * 60, 0, " a minute");
    return fixed(per_second * 3600, 0, " an hour");
}

struct al_say al_say_of(double part, double whole)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    int unit = 0;
    for (double x = whole; x >= 1024 && unit < 4; unit++)
        x /= 1024;
    struct al_say say, all = fixed(ldexp(whole, -10 * unit), unit ? 1 : 0, units[unit]);
    struct al_say some = fixed(ldexp(part, -10 * unit), unit ? 1 : 0, "");
    (void)snprintf(say.s, sizeof say.s, "%.40s of %.40s", some.s, all.s);
    return say;
}

struct al_say al_say_seconds(double seconds)
{
    if (seconds < 99.5)
        return fixed(seconds, seconds < 2.95 ? 1 : 0, " s");
    struct al_say say = {""};
    (void)al_fmt_duration(say.s, sizeof say.s, seconds);
    return say;
}

struct al_say al_say_watts(double watts)
{
    return fixed(watts, 0, " W");
}

struct al_say al_say_megahertz(double hertz)
{
    return fixed(hertz / 1e6, 0, " MHz");
}

uint32_t al_say_gpu_index(const struct al_snapshot *s, const struct al_gpu *gpu)
{
    int32_t parent = gpu->info.is_mig ? gpu->info.parent : -1;
    return parent >= 0 && (uint32_t)parent < s->gpu_count ? s->gpus[parent].info.index : gpu->info.index;
}

struct al_say al_say_gpu(const struct al_snapshot *s, const struct al_gpu *gpu)
{
    struct al_say say = {""};
    if (gpu->info.is_mig)
        (void)snprintf(say.s, sizeof say.s, "GPU %u MIG %u/%u", al_say_gpu_index(s, gpu), gpu->info.gpu_instance,
                       gpu->info.compute_instance);
    else
        (void)snprintf(say.s, sizeof say.s, "GPU %u", gpu->info.index);
    return say;
}

struct al_say al_say_who(const struct al_snapshot *s, const struct al_proc *p, pid_t pid)
{
    struct al_say say = {""};
    const struct al_proc *owner = p && p->owner ? al_snapshot_proc(s, p->owner) : NULL;
    if (p && p->role == AL_ROLE_WORKER && owner && owner->rank >= 0)
        (void)snprintf(say.s, sizeof say.s, "pid %lld (worker of rank %d)", (long long)pid, owner->rank);
    else if (p && p->role == AL_ROLE_WORKER)
        (void)snprintf(say.s, sizeof say.s, "pid %lld (worker)", (long long)pid);
    else if (p && p->rank >= 0)
        (void)snprintf(say.s, sizeof say.s, "pid %lld rank %d", (long long)pid, p->rank);
    else if (p && p->comm[0])
        (void)snprintf(say.s, sizeof say.s, "pid %lld (%.32s)", (long long)pid, p->comm);
    else
        (void)snprintf(say.s, sizeof say.s, "pid %lld", (long long)pid);
    (void)al_str_clean(say.s);
    return say;
}
