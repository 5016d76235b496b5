// SPDX-License-Identifier: Apache-2.0
#include "job/device_memory.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

// Position of the GPU that the process calls device N: it tells "deviceN=GPU-…" of each. -1 unknown.
static int32_t gpu_of(const struct al_tally *t, int32_t device, const struct al_snapshot *s) {
    char key[24], uuid[AL_UUID_MAX];
    const char *text = t->text[AL_TEXT_FRAMEWORK];
    (void)snprintf(key, sizeof key, "device%d=", (int)device);
    const char *p = strstr(text, key);
    if (!p || (p != text && p[-1] != ' '))
        return -1;
    p += strlen(key);
    (void)al_str_copy_n(uuid, sizeof uuid, p, strcspn(p, " "));
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (strcmp(s->gpus[i].info.uuid, uuid) == 0)
            return (int32_t)i;
    return -1;
}

// What the driver counts for the process on the GPU; MIG devices and several contexts come as several rows.
static bool process_used(const struct al_snapshot *s, pid_t pid, uint32_t gpu, double *ret) {
    bool known = false;
    *ret = 0;
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        if (row->pid != pid || row->gpu != gpu || !al_ok(row->memory_bytes))
            continue;
        // A process that is listed for compute and graphics has the same figure in both.
        if (!known || row->memory_bytes.num > *ret)
            *ret = row->memory_bytes.num;
        known = true;
    }
    return known;
}

// A mark of what has not changed would only fill the recording.
static bool is_new(const struct al_tally_memory *m, int figure, double bytes) {
    return !m->driver_known[figure] || m->driver_last[figure] != (int64_t)bytes;
}

void al_book_driver(const struct al_book *book, const struct al_snapshot *s, al_book_driver_fn *fn, void *user) {
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        for (uint32_t n = 0; n < k->tally.device_count && !k->ended; n++) {
            int32_t device = k->tally.memory[n].device, gpu = gpu_of(&k->tally, device, s);
            double bytes;
            if (gpu < 0)
                continue;
            struct al_value used = s->gpus[gpu].m[AL_GPU_MEM_USED], total = s->gpus[gpu].m[AL_GPU_MEM_TOTAL];
            const struct al_tally_memory *m = &k->tally.memory[n];
            bool named = process_used(s, k->pid, (uint32_t)gpu, &bytes);
            if (named)
                fn(user, i, AL_DRIVER_PROCESS_USED, device, (int64_t)bytes);
            if (al_ok(used) && (!named || is_new(m, AL_DRIVER_DEVICE_USED, used.num)))
                fn(user, i, AL_DRIVER_DEVICE_USED, device, (int64_t)used.num);
            if (al_ok(total) && is_new(m, AL_DRIVER_DEVICE_TOTAL, total.num))
                fn(user, i, AL_DRIVER_DEVICE_TOTAL, device, (int64_t)total.num);
        }
    }
}
