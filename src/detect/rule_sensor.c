// SPDX-License-Identifier: Apache-2.0
// Sensor stale or lost: a driver call that does not come back, a GPU that is lost or no longer listed, readings that no
// longer change their time. Of these the first explains the others, so it silences them.
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/rule.h"
#include "detect/say.h"

struct known {
    char uuid[AL_UUID_MAX];
    uint32_t index;
    int64_t seen_ns;
};

struct shared {
    struct known gpus[AL_GPU_MAX];
    uint32_t count;
};

static double seconds_since(const struct al_run *run, int64_t then_ns)
{
    return (double)(run->s->monotonic_ns - then_ns) / 1e9;
}

// ---- the driver ----

static bool judge_driver(struct al_run *run)
{
    struct al_track *t = al_run_track(run, "driver", NULL);
    bool hangs = run->s->hung_call[0] != 0;
    double seconds = hangs ? seconds_since(run, run->s->hung_since_ns) : 0;
    if (!t)
        return hangs;
    if (!hangs || seconds < run->set->sensor_stale_after) {
        al_run_quiet(run, t);
        return hangs;
    }
    struct al_draft *d = al_run_draft(run, "sensor",
                                      seconds >= run->set->sensor_critical_after ? AL_LEVEL_CRITICAL : AL_LEVEL_WARNING,
                                      -1);
    d->reported = true;
    al_draft_title(d, "driver call hangs");
    al_draft_message(d, "driver call %.63s has not come back for %s: all GPU figures are as old as that",
                     run->s->hung_call, al_say_seconds(seconds).s);
    al_draft_number(d, "driver_call_age", seconds, AL_UNIT_SECONDS, "alula", AL_SIGNAL_ERRORS);
    al_draft_considered(d, "A busy driver: calls of other clients wait too while a GPU is reset or one is in trouble.");
    al_draft_advice(d, "See the kernel log for NVRM and Xid lines. If nvidia-smi hangs as well, the GPU or driver is "
                       "stuck: save what can be saved and restart the machine.");
    al_run_raise(run, t);
    return true;
}

// ---- a GPU ----

static void raise_lost(struct al_run *run, struct al_track *t, uint32_t g)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_draft *d = al_run_draft(run, "sensor", AL_LEVEL_CRITICAL, (int)g);
    d->reported = true;
    al_draft_title(d, "GPU lost");
    al_draft_message(d, "%s: the driver says that the GPU is lost", al_say_gpu(run->s, gpu).s);
    for (uint32_t i = 0; i < gpu->xid_count && i < AL_XID_CODES; i++)
        if (gpu->xid[i].code == 79) {
            al_draft_message(d, " (Xid 79: no longer reached over PCIe)");
            al_draft_number(d, "xid", 79, AL_UNIT_NONE, "nvml", AL_SIGNAL_ERRORS);
        }
    al_draft_advice(d, "Programs on it are gone or will fail. Restart the machine; if it happens again on the same board, "
                       "check power cables, riser and temperature, then the board.");
    al_run_raise(run, t);
}

static int64_t newest(const struct al_gpu *gpu, bool *ret_known)
{
    static const enum al_gpu_metric fast[] = {AL_GPU_MEM_USED, AL_GPU_TEMP, AL_GPU_POWER, AL_GPU_CLOCK_SM, AL_GPU_UTIL};
    int64_t at_ns = 0;
    *ret_known = false;
    for (size_t i = 0; i < sizeof fast / sizeof *fast; i++) {
        struct al_value v = gpu->m[fast[i]];
        if ((v.status != AL_STATUS_OK && v.status != AL_STATUS_STALE) || v.at_ns == 0)
            continue;
        *ret_known = true;
        at_ns = v.at_ns > at_ns ? v.at_ns : at_ns;
    }
    return at_ns;
}

static void judge_gpu(struct al_run *run, uint32_t g, bool hangs)
{
    const struct al_gpu *gpu = &run->s->gpus[g];
    struct al_track *t = al_run_any_gpu(run, g, NULL);
    bool known;
    if (!t)
        return;
    if (gpu->info.status == AL_STATUS_LOST) {
        raise_lost(run, t, g);
        return;
    }
    int64_t at_ns = newest(gpu, &known);
    double age = known ? seconds_since(run, at_ns) : 0;
    if (!known) {
        al_run_cannot(run, t, "no reading of this GPU so far");
    } else if (hangs) {
        al_run_cannot(run, t, "a driver call hangs");
    } else if (age < run->set->sensor_stale_after) {
        al_run_quiet(run, t);
    } else {
        struct al_draft *d = al_run_draft(run, "sensor", AL_LEVEL_WARNING, (int)g);
        d->reported = true;
        al_draft_title(d, "readings are stale");
        al_draft_message(d, "%s: the newest reading is %s old", al_say_gpu(run->s, gpu).s, al_say_seconds(age).s);
        al_draft_number(d, "reading_age", age, AL_UNIT_SECONDS, "alula", AL_SIGNAL_ERRORS);
        al_draft_considered(d, "The GPU may work on: what is shown of it is old, and rules say \"cannot tell\".");
        al_draft_advice(d, "See the kernel log for NVRM lines and alula doctor for how long driver calls take.");
        al_run_raise(run, t);
    }
}

// ---- GPUs that are no longer listed ----

static void remember(struct al_run *run, struct shared *k)
{
    for (uint32_t g = 0; g < run->s->gpu_count; g++) {
        const struct al_gpu_info *info = &run->s->gpus[g].info;
        uint32_t i = 0;
        if (info->is_mig || !info->uuid[0]) // instances are made and removed at will
            continue;
        while (i < k->count && strcmp(k->gpus[i].uuid, info->uuid) != 0)
            i++;
        if (i == AL_GPU_MAX)
            continue;
        if (i == k->count)
            (void)al_str_copy(k->gpus[k->count++].uuid, AL_UUID_MAX, info->uuid);
        k->gpus[i].index = info->index;
        k->gpus[i].seen_ns = run->s->monotonic_ns;
    }
}

static void judge_missing(struct al_run *run, const struct shared *k, bool hangs)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const struct known *gpu = &k->gpus[i];
        double seconds = seconds_since(run, gpu->seen_ns);
        if (seconds <= 0)
            continue;
        struct al_track *t = al_run_track(run, gpu->uuid, NULL);
        if (!t)
            continue;
        if (hangs || (seconds < run->set->sensor_stale_after && !t->open)) {
            al_run_too_little(run, t, "not listed in this reading");
            continue;
        }
        struct al_draft *d = al_run_draft(run, "sensor", AL_LEVEL_CRITICAL, -1);
        d->reported = true;
        d->f.gpu_index = (int32_t)gpu->index;
        (void)al_str_copy(d->f.gpu_uuid, sizeof d->f.gpu_uuid, gpu->uuid);
        al_draft_title(d, "GPU no longer listed");
        al_draft_message(d, "GPU %u (%.60s): the driver has not listed it for %s", gpu->index, gpu->uuid,
                         al_say_seconds(seconds).s);
        al_draft_number(d, "missing_for", seconds, AL_UNIT_SECONDS, "alula", AL_SIGNAL_ERRORS);
        al_draft_considered(d, "It may have been taken out, reset or handed to a virtual machine on purpose.");
        al_draft_advice(d, "See the kernel log for Xid 79 or PCIe lines; if nobody removed it, restart the machine.");
        al_run_raise(run, t);
    }
}

static void step(struct al_run *run)
{
    bool hangs = judge_driver(run);
    remember(run, run->shared);
    for (uint32_t g = 0; g < run->s->gpu_count; g++)
        judge_gpu(run, g, hangs);
    judge_missing(run, run->shared, hangs);
}

const struct al_rule al_rule_sensor = {
    .name = "sensor",
    .groups = AL_GROUP_FAST,
    .enabled = AL_ENABLED(sensor),
    .shared_size = sizeof(struct shared),
    .step = step,
};
