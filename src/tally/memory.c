// SPDX-License-Identifier: Apache-2.0
// The allocator's figures of each device, what the driver says beside them, and what the reading costs.
#include "tally/parts.h"

static struct al_tally_memory *device_of(struct al_tally *t, int32_t device) {
    for (uint32_t i = 0; i < t->device_count; i++)
        if (t->memory[i].device == device)
            return &t->memory[i];
    return NULL;
}

static struct al_tally_memory *new_device(struct al_tally *t, int32_t device) {
    if (t->device_count == AL_TALLY_DEVICES)
        return NULL;
    struct al_tally_memory *m = &t->memory[t->device_count++];
    m->device = device;
    return m;
}

#define SAME_BYTES (32 << 20)

// The driver is read at times of its own. Its figure is compared with what torch held before it only if torch held about
// the same after it: otherwise one of them is of another moment.
static void settle_outside(struct al_tally_memory *m, int64_t reserved, int64_t step) {
    int64_t used = m->driver_pending;
    int64_t before = m->last[AL_ALLOCATOR_RESERVED], most = reserved > before ? reserved : before;
    m->driver_pending = 0;
    if (!used || used < most || reserved - before > SAME_BYTES || before - reserved > SAME_BYTES)
        return;
    m->outside_known = true;
    m->outside_last = used - most;
    m->outside_of = used;
    if (m->outside_last > m->outside_most)
        m->outside_most = m->outside_last;
    al_floor_push(&m->outside, step, (double)m->outside_last);
}

void al_tally_memory_event(struct al_tally *t, uint16_t code, int32_t device, int64_t value, int64_t step) {
    if (code >= AL_ALLOCATOR_COUNT || value < 0)
        return;
    struct al_tally_memory *m = device_of(t, device);
    if (!m && !(m = new_device(t, device)))
        return;
    if (code == AL_ALLOCATOR_RESERVED)
        settle_outside(m, value, step);
    if (!m->known[code])
        m->first[code] = value;
    m->known[code] = true;
    m->last[code] = value;
    if (value > m->most[code])
        m->most[code] = value;
    if (code == AL_ALLOCATOR_ALLOCATED) {
        m->readings++;
        al_floor_push(&m->allocated, step, (double)value);
    }
    if (code == AL_ALLOCATOR_RESERVED)
        al_floor_push(&m->reserved, step, (double)value);
}

void al_tally_driver_event(struct al_tally *t, uint16_t code, int32_t device, int64_t value) {
    struct al_tally_memory *m = code < AL_DRIVER_COUNT && value >= 0 ? device_of(t, device) : NULL;
    if (!m)
        return;
    m->driver_known[code] = true;
    m->driver_last[code] = value;
    if (value > m->driver_most[code])
        m->driver_most[code] = value;
    // Where the driver names no process (a container) the whole device is the upper bound.
    bool closest = code == AL_DRIVER_PROCESS_USED || (code == AL_DRIVER_DEVICE_USED && !m->driver_known[AL_DRIVER_PROCESS_USED]);
    if (closest && m->known[AL_ALLOCATOR_RESERVED])
        m->driver_pending = value;
}

#define COST_MOST 60000000000LL // ns of one reading
#define BYTES_MOST (1LL << 50)  // of one device

void al_tally_cost_event(struct al_tally *t, uint16_t code, int64_t ns) {
    if (code >= AL_TALLY_COSTS || ns < 0 || ns > COST_MOST)
        return;
    t->cost_ns[code] += ns;
    t->cost_count[code]++;
}

void al_tally_answer_event(struct al_tally *t, uint16_t code, int32_t device, int64_t bytes, int64_t ns) {
    if (code != AL_REQUEST_EMPTY_CACHE || device < 0 || bytes < 0 || bytes > BYTES_MOST || ns < 0 || ns > COST_MOST)
        return;
    t->emptied++;
    t->emptied_bytes += bytes;
    t->emptied_ns += ns;
}

bool al_tally_cost(const struct al_tally *t, int which, double *ret_every, double *ret_share) {
    uint64_t steps = al_tally_steps(t), count = t->cost_count[which];
    if (!count || !steps || t->total.wall_ns <= 0)
        return false;
    *ret_every = steps > count ? (double)steps / (double)count : 1;
    *ret_share = (double)t->cost_ns[which] / (double)t->total.wall_ns;
    return true;
}
