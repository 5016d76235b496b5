// SPDX-License-Identifier: Apache-2.0
// Host memory of a rank: anonymous memory that rises over the steps, and what an epoch adds. One finding for both.
#include <stdio.h>
#include <string.h>

#include "detect/say.h"
#include "detect/steps_part.h"

struct host {
    const struct al_settings *set;
    const struct al_tally *tally;
    const char *who;
    struct al_growth own, workers;
    int32_t epoch; // row of the last epoch that grew too much; -1 none
    double epoch_growth;
};

bool al_steps_epoch_is_warm_up(const struct al_tally_host *h, uint32_t i) {
    return i == 0 && h->epoch[0].epoch <= 1 && !h->epochs_left_out;
}

// The first epoch fills caches, starts workers and makes the optimizer's state: it is shown, not judged.
static void look_at_epochs(struct host *x, bool live) {
    const struct al_tally_host *h = &x->tally->host;
    double growth;
    x->epoch = -1;
    for (uint32_t i = 0; i + live < h->epoch_count; i++)
        if (!al_steps_epoch_is_warm_up(h, i) && al_tally_epoch_growth(h, i, &growth) &&
            growth > x->set->training_epoch_growth_above) {
            x->epoch = (int32_t)i;
            x->epoch_growth = growth;
        }
}

static void add_epoch(const struct host *x, struct al_steps_verdict *v) {
    struct al_finding *f = &v->finding;
    size_t len = strlen(f->message);
    if (x->epoch < 0)
        return;
    (void)snprintf(f->message + len, sizeof f->message - len, "%s%s in epoch %lld (limit %s)", len ? "; " : "",
                   al_say_bytes(x->epoch_growth).s, (long long)x->tally->host.epoch[x->epoch].epoch,
                   al_say_bytes(x->set->training_epoch_growth_above).s);
    al_steps_number(v, "epoch_growth_bytes", x->epoch_growth, AL_UNIT_BYTES, "procfs");
}

static double room_of(const struct al_tally_host *h) {
    if (!h->known[AL_HOST_LIMIT] || !h->known[AL_HOST_CGROUP_ANON])
        return -1;
    // File pages give way; shared ones do not.
    double used = (double)h->last[AL_HOST_CGROUP_ANON] +
                  (h->known[AL_HOST_CGROUP_SHMEM] ? (double)h->last[AL_HOST_CGROUP_SHMEM] : 0);
    double room = (double)h->last[AL_HOST_LIMIT] - used;
    return room > 0 ? room : 0;
}

static void tell(const struct host *x, struct al_steps_verdict *v) {
    struct al_finding *f = &v->finding;
    const struct al_growth *g = x->own.rises ? &x->own : &x->workers;
    bool steps = x->own.rises || x->workers.rises;
    f->level = AL_LEVEL_WARNING;
    f->confidence = steps ? AL_CONFIDENCE_HIGH : AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, "host memory grows from %s", steps ? "step to step" : "epoch to epoch");
    if (steps) {
        al_steps_say_growth(v, x->who, x->own.rises ? "anonymous host memory" : "anonymous host memory of its DataLoader workers", g);
        al_steps_growth_numbers(v, "host_bytes_per_step", g, "procfs");
        double room = room_of(&x->tally->host);
        al_steps_full_in(x->set, v, room < 0 ? -1 : al_steps_seconds_to(x->tally, room, g), "the cgroup's limit is");
    } else {
        al_steps_say(v, AL_VERDICT_FINDING, "%s: anonymous host memory grew by ", x->who);
        size_t len = strlen(f->message);
        (void)snprintf(f->message + len, sizeof f->message - len, "%s in epoch %lld (limit %s)",
                       al_say_bytes(x->epoch_growth).s, (long long)x->tally->host.epoch[x->epoch].epoch,
                       al_say_bytes(x->set->training_epoch_growth_above).s);
        al_steps_number(v, "epoch_growth_bytes", x->epoch_growth, AL_UNIT_BYTES, "procfs");
    }
    if (steps)
        add_epoch(x, v);
    (void)snprintf(f->considered, sizeof f->considered,
                   "not page cache, mapped files or shared batches: only anonymous memory counts; not the warm-up: that is left "
                   "out%s", x->own.rises || !steps ? "" : "; pages that a worker shares with its rank count once they are written to");
    (void)snprintf(f->advice, sizeof f->advice, "%s",
                   x->own.rises || !steps
                       ? "look for Python objects that pile up in the training process: metrics, predictions or batches appended "
                         "to lists, caches without a bound, loggers that keep everything (tracemalloc shows the lines)"
                       : "look at the data set's own state: lists of Python objects are copied page by page as workers touch them "
                         "(use arrays, arrow or numpy), caches in __getitem__, and workers that live on (persistent_workers)");
}

// Caches fill and arenas grow in a job's first minute (readings come twice a second): not before is anything said that might
// have to be taken back.
#define LIVE_READINGS 120

static struct al_growth growth_of(const struct host *x, bool live, const struct al_floor *f) {
    struct al_growth g = {0};
    if (live && f->readings < LIVE_READINGS)
        return g;
    return al_steps_growth(x->set, live, f, x->set->training_host_growth_above);
}

static void judge(struct host *x, bool live, struct al_steps_verdict *v) {
    const struct al_tally_host *h = &x->tally->host;
    if (!h->known[AL_HOST_ANON]) {
        al_steps_say(v, AL_VERDICT_CANNOT_TELL, "%s: its memory in /proc was not read", x->who);
        return;
    }
    x->own = growth_of(x, live, &h->anon);
    x->workers = growth_of(x, live, &h->workers_anon);
    look_at_epochs(x, live);
    if (x->own.rises || x->workers.rises || x->epoch >= 0)
        tell(x, v);
    else if (!x->own.enough)
        al_steps_say(v, AL_VERDICT_TOO_LITTLE_DATA, "%s: %u readings of its host memory over the steps", x->who, h->anon.count);
    else
        al_steps_say(v, AL_VERDICT_QUIET, "%s: anonymous host memory does not keep rising (%s now)", x->who,
                     al_say_bytes((double)h->last[AL_HOST_ANON]).s);
}

uint32_t al_steps_host(const struct al_settings *set, const struct al_steps_view *v, struct al_steps_verdict *ret,
                       uint32_t max) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->count && count < max; i++) {
        char who[32];
        struct host x = {.set = set, .tally = v->ranks[i].tally, .who = who};
        (void)snprintf(who, sizeof who, "rank %lld", (long long)(v->ranks[i].rank < 0 ? 0 : v->ranks[i].rank));
        al_steps_begin(&ret[count], "host", who);
        ret[count].finding.pid = v->ranks[i].pid;
        judge(&x, v->live, &ret[count++]);
    }
    return count;
}
