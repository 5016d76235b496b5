// SPDX-License-Identifier: Apache-2.0
#include "job/memory.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/say.h"
#include "job/end.h"

static void fill_device(const struct al_tally_memory *m, struct al_report_memory *to) {
    to->device = m->device;
    for (int f = 0; f < AL_ALLOCATOR_COUNT; f++) {
        to->known[f] = m->known[f];
        to->last[f] = (double)m->last[f];
        to->most[f] = (double)m->most[f];
    }
    for (int f = 0; f < AL_DRIVER_COUNT; f++) {
        to->driver_known[f] = m->driver_known[f];
        to->driver_last[f] = (double)m->driver_last[f];
        to->driver_most[f] = (double)m->driver_most[f];
    }
    to->outside_known = m->outside_known;
    to->outside_by_process = m->driver_known[AL_DRIVER_PROCESS_USED];
    to->outside_last = (double)m->outside_last;
    to->outside_most = (double)m->outside_most;
}

static void fill_epoch(const struct al_tally_host *h, uint32_t i, struct al_report_epoch *to) {
    const struct al_tally_epoch *e = &h->epoch[i];
    *to = (struct al_report_epoch){.epoch = e->epoch, .step = e->step, .warm_up = al_steps_epoch_is_warm_up(h, i)};
    for (int f = 0; f < AL_HOST_COUNT; f++) {
        to->known[f] = e->known[f];
        to->value[f] = (double)e->value[f];
    }
    to->growth_known = al_tally_epoch_growth(h, i, &to->growth);
}

static struct al_report_reading reading(const struct al_tally *t, int which) {
    struct al_report_reading r = {0};
    r.known = al_tally_cost(t, which, &r.every_steps, &r.cost_ratio);
    return r;
}

static void fill_oom(const struct al_book_rank *k, struct al_report_oom *to) {
    struct al_oom o;
    *to = (struct al_report_oom){0};
    to->known = al_book_out_of_memory(k, &o, to->message, sizeof to->message, to->advice, sizeof to->advice);
    if (!to->known)
        return;
    to->cause = al_oom_word(al_oom_cause(&o));
    to->device = o.device;
    to->tried = o.tried;
    to->total_known = o.total_known;
    to->total = o.total;
    to->free_known = o.free_known;
    to->free = o.free;
    to->in_use_known = o.in_use_known;
    to->in_use = o.in_use;
    to->allocated_known = o.allocated_known;
    to->allocated = o.allocated;
    to->unallocated_known = o.unallocated_known;
    to->unallocated = o.unallocated;
    to->others_known = o.others_known;
    to->others = o.others;
}

void al_book_memory_fill(const struct al_book_rank *k, struct al_book_memory *room, struct al_report_rank_memory *ret) {
    const struct al_tally *t = &k->tally;
    const struct al_tally_host *h = &t->host;
    al_allocator_of(t, &room->allocator);
    *ret = (struct al_report_rank_memory){.settings_known = room->allocator.known,
                                          .backend = room->allocator.backend,
                                          .settings = room->allocator.settings,
                                          .variable = room->allocator.variable,
                                          .expandable = room->allocator.expandable,
                                          .device_count = t->device_count,
                                          .devices = room->devices,
                                          .allocator = reading(t, AL_TALLY_COST_ALLOCATOR),
                                          .events = reading(t, AL_TALLY_COST_EVENTS),
                                          .emptied = t->emptied,
                                          .emptied_bytes = (double)t->emptied_bytes,
                                          .emptied_seconds = (double)t->emptied_ns / 1e9,
                                          .epoch_count = h->epoch_count,
                                          .epochs = room->epochs,
                                          .oom = &room->oom};
    fill_oom(k, &room->oom);
    for (uint32_t d = 0; d < t->device_count; d++)
        fill_device(&t->memory[d], &room->devices[d]);
    for (int f = 0; f < AL_HOST_COUNT; f++) {
        ret->host_known[f] = h->known[f];
        ret->host_first[f] = (double)h->first[f];
        ret->host_last[f] = (double)h->last[f];
        ret->host_most[f] = (double)h->most[f];
    }
    for (uint32_t i = 0; i < h->epoch_count; i++)
        fill_epoch(h, i, &room->epochs[i]);
}

// ---- lines ----

static void head(struct al_buf *b, const struct al_tally *t) {
    al_buf_str(b, "alula: ");
    if (t->world > 1)
        al_buf_printf(b, "rank %lld: ", (long long)t->rank);
}

static void value(struct al_buf *b, const char *before, bool known, double bytes, const char *behind) {
    if (known)
        al_buf_printf(b, "%s%s%s", before, al_say_bytes(bytes).s, behind);
}

void al_book_say_epoch(const struct al_book_rank *k, struct al_buf *b) {
    const struct al_tally_host *h = &k->tally.host;
    double growth;
    if (!h->epoch_count)
        return;
    uint32_t last = h->epoch_count - 1;
    const struct al_tally_epoch *e = &h->epoch[last];
    head(b, &k->tally);
    al_buf_printf(b, "epoch %lld begins: RAM", (long long)e->epoch);
    value(b, " ", e->known[AL_HOST_RSS], (double)e->value[AL_HOST_RSS], " resident");
    value(b, ", ", e->known[AL_HOST_ANON], (double)e->value[AL_HOST_ANON], " anonymous");
    value(b, ", ", e->known[AL_HOST_PSS], (double)e->value[AL_HOST_PSS], " proportional");
    value(b, "; workers ", e->known[AL_HOST_WORKERS_ANON], (double)e->value[AL_HOST_WORKERS_ANON], " anonymous");
    value(b, ", ", e->known[AL_HOST_WORKERS_PSS], (double)e->value[AL_HOST_WORKERS_PSS], " proportional");
    value(b, "; cgroup ", e->known[AL_HOST_CGROUP_ANON], (double)e->value[AL_HOST_CGROUP_ANON], " anonymous");
    value(b, ", ", e->known[AL_HOST_CGROUP_SHMEM], (double)e->value[AL_HOST_CGROUP_SHMEM], " shared");
    if (last && al_tally_epoch_growth(h, last - 1, &growth))
        al_buf_printf(b, "; epoch %lld %s %s%s", (long long)h->epoch[last - 1].epoch, growth < 0 ? "gave back" : "added",
                      al_say_bytes(growth < 0 ? -growth : growth).s,
                      al_steps_epoch_is_warm_up(h, last - 1) ? " (warm-up)" : "");
    al_buf_char(b, '\n');
}

static void device_line(struct al_buf *b, const struct al_tally *t, const struct al_tally_memory *m) {
    if (!m->known[AL_ALLOCATOR_ALLOCATED] || !m->known[AL_ALLOCATOR_RESERVED])
        return;
    double live = (double)m->last[AL_ALLOCATOR_ALLOCATED], reserved = (double)m->last[AL_ALLOCATOR_RESERVED];
    head(b, t);
    al_buf_printf(b, "memory of cuda:%d at the last reading: %s in tensors + %s cached = %s reserved", (int)m->device,
                  al_say_bytes(live).s, al_say_bytes(reserved > live ? reserved - live : 0).s, al_say_bytes(reserved).s);
    value(b, " (its peak, which never falls: ", m->known[AL_ALLOCATOR_RESERVED_PEAK], (double)m->last[AL_ALLOCATOR_RESERVED_PEAK],
          ")");
    // Both of one moment, which may lie before the allocator's last reading.
    bool process = m->driver_known[AL_DRIVER_PROCESS_USED];
    if (m->outside_known)
        al_buf_printf(b, "; of NVML's %s %s %s%s are outside torch (context, libraries, other)",
                      al_say_bytes((double)m->outside_of).s, process ? "in the process" : "on the device",
                      process ? "" : "at most ", al_say_bytes((double)m->outside_last).s);
    if (m->known[AL_ALLOCATOR_RETRIES] && m->last[AL_ALLOCATOR_RETRIES])
        al_buf_printf(b, "; %lld retries", (long long)m->last[AL_ALLOCATOR_RETRIES]);
    al_buf_char(b, '\n');
}

static void reading_line(struct al_buf *b, const struct al_tally *t) {
    struct al_allocator a;
    double every, share;
    if (!al_tally_cost(t, AL_TALLY_COST_ALLOCATOR, &every, &share))
        return;
    al_allocator_of(t, &a);
    head(b, t);
    al_buf_printf(b, "allocator read every %.0f step%s, cost ", every, every < 1.5 ? "" : "s");
    al_buf_fixed(b, 100 * share, share < 0.001 ? 3 : 2);
    al_buf_str(b, " %");
    if (a.known) {
        al_buf_printf(b, "; backend %s", a.backend);
        if (*a.settings)
            al_buf_printf(b, ", %s=%s", a.variable, a.settings);
        if (a.not_read[0])
            al_buf_printf(b, "; %s is set but not read", a.not_read[0]);
    }
    al_buf_char(b, '\n');
}

static void host_line(struct al_buf *b, const struct al_tally *t) {
    const struct al_tally_host *h = &t->host;
    if (!h->known[AL_HOST_ANON])
        return;
    head(b, t);
    al_buf_printf(b, "host memory: %s anonymous at the start, %s at most, %s last", al_say_bytes((double)h->first[AL_HOST_ANON]).s,
                  al_say_bytes((double)h->most[AL_HOST_ANON]).s, al_say_bytes((double)h->last[AL_HOST_ANON]).s);
    value(b, "; shared ", h->known[AL_HOST_SHMEM], (double)h->last[AL_HOST_SHMEM], "");
    value(b, "; its workers at most ", h->known[AL_HOST_WORKERS_ANON], (double)h->most[AL_HOST_WORKERS_ANON], "");
    value(b, "; limit of the cgroup ", h->known[AL_HOST_LIMIT], (double)h->last[AL_HOST_LIMIT], "");
    al_buf_char(b, '\n');
}

void al_book_say_memory(const struct al_book *book, bool all, struct al_buf *b) {
    const struct al_book_rank *leader = al_book_leader(book);
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_tally *t = &book->ranks[i]->tally;
        if (!al_tally_trains(t) || (!all && book->ranks[i] != leader))
            continue;
        for (uint32_t d = 0; d < t->device_count; d++)
            device_line(b, t, &t->memory[d]);
        reading_line(b, t);
        host_line(b, t);
    }
}
