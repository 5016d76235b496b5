// SPDX-License-Identifier: Apache-2.0
#include "tally/host.h"

#include <string.h>

#include "tally/parts.h"

// Figures of one epoch come one after the other.
static struct al_tally_epoch *row_of(struct al_tally_host *h, int64_t epoch, int64_t step) {
    if (h->epoch_count && h->epoch[h->epoch_count - 1].epoch == epoch)
        return &h->epoch[h->epoch_count - 1];
    if (h->epoch_count == AL_TALLY_EPOCHS) {
        const uint32_t half = AL_TALLY_EPOCHS / 2;
        memmove(&h->epoch[half], &h->epoch[half + 1], (half - 1) * sizeof h->epoch[0]);
        h->epochs_left_out++;
        h->epoch_count--;
    }
    struct al_tally_epoch *e = &h->epoch[h->epoch_count++];
    *e = (struct al_tally_epoch){.epoch = epoch, .step = step};
    return e;
}

static void read_at(struct al_floor *f, struct al_tally_host_reading *r, int64_t step, int64_t value) {
    if (r->waits && step > r->step)
        al_floor_push(f, r->step, (double)r->value);
    // Of several within one step the lowest counts.
    if (!r->waits || step > r->step || value < r->value)
        r->value = value;
    r->waits = true;
    r->step = step;
}

void al_tally_host_event(struct al_tally *t, uint16_t code, int32_t moment, int64_t value, int64_t number) {
    struct al_tally_host *h = &t->host;
    if (code >= AL_HOST_COUNT || value < 0)
        return;
    if (moment == AL_HOST_AT_EPOCH) {
        struct al_tally_epoch *e = row_of(h, number, al_tally_steps(t) ? t->step : 0);
        e->known[code] = true;
        e->value[code] = value;
    }
    if (!h->known[code])
        h->first[code] = value;
    h->known[code] = true;
    h->last[code] = value;
    if (value > h->most[code])
        h->most[code] = value;
    // What comes before the first step's end (imports, the data set, the model on its way to the GPU) is no trend.
    if (moment != AL_HOST_AT_TICK || !al_tally_steps(t))
        return;
    if (code == AL_HOST_ANON)
        read_at(&h->anon, &h->anon_read, number, value);
    if (code == AL_HOST_WORKERS_ANON)
        read_at(&h->workers_anon, &h->workers_read, number, value);
}

static bool shared_once(const struct al_tally_epoch *e) {
    return e->known[AL_HOST_PSS_ANON];
}

static double kept_of(const struct al_tally_epoch *e, bool once) {
    if (!once)
        return (double)e->value[AL_HOST_ANON];
    return (double)e->value[AL_HOST_PSS_ANON] +
           (e->known[AL_HOST_WORKERS_PSS_ANON] ? (double)e->value[AL_HOST_WORKERS_PSS_ANON] : 0);
}

bool al_tally_epoch_kept(const struct al_tally_epoch *e, double *ret) {
    bool once = shared_once(e);
    if (!once && !e->known[AL_HOST_ANON])
        return false;
    *ret = kept_of(e, once);
    return true;
}

bool al_tally_epoch_growth(const struct al_tally_host *h, uint32_t i, double *ret) {
    if (i >= h->epoch_count)
        return false;
    const struct al_tally_epoch *a = &h->epoch[i], *b = &h->epoch[i + 1];
    if (i + 1 == h->epoch_count) { // up to now: only the figure that every tick reads
        *ret = (double)(h->last[AL_HOST_ANON] - a->value[AL_HOST_ANON]);
        return a->known[AL_HOST_ANON] && h->known[AL_HOST_ANON];
    }
    bool once = shared_once(a) && shared_once(b);
    if (b->epoch != a->epoch + 1 || (!once && (!a->known[AL_HOST_ANON] || !b->known[AL_HOST_ANON])))
        return false;
    *ret = kept_of(b, once) - kept_of(a, once);
    return true;
}
