// SPDX-License-Identifier: Apache-2.0
// The host memory of ranks and their workers, on a thread of its own: a proportional set takes its time.
#include "cli/run_host.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "host/memory.h"

#define TICK_MS 250
#define FEW 16           // processes that are read at every second tick; more are read less often
#define ALL_READINGS 4   // readings of which one tells all figures, the others what trends are made of
#define WORKERS_TICKS 8  // ticks between two looks for workers
#define WORKERS_MOST 64  // of a rank
// A proportional set is read under the process's memory lock, some 10 ms a GiB: of larger processes it is left out.
#define PSS_MOST ((uint64_t)16 << 30)

struct watched { // what the thread knows of a rank
    bool ended;
    pid_t pid;
    pid_t workers[WORKERS_MOST];
    int worker_count, looked; // looked: ticks ago
    bool epoch_due;
    int64_t epoch, step;
    uint64_t ring_bytes;
    uint32_t readings;
};

struct sums {
    bool known, pss_known, pss_anon_known;
    struct al_host_resident r;
    struct al_host_proportional p;
};

static void add_process(int root, pid_t pid, bool pss, struct sums *s) {
    struct al_host_resident r;
    struct al_host_proportional p;
    if (al_host_resident(root, pid, &r))
        return;
    bool first = !s->known;
    s->known = true;
    s->r.all += r.all;
    s->r.anon += r.anon;
    s->r.file += r.file;
    s->r.shmem += r.shmem;
    bool read = pss && r.all <= PSS_MOST && al_host_proportional(root, pid, &p) == 0;
    s->pss_known = read && (first || s->pss_known);
    s->pss_anon_known = read && p.anon_known && (first || s->pss_anon_known);
    if (read) {
        s->p.all += p.all;
        s->p.anon += p.anon;
    }
}

struct marks {
    struct al_run *run;
    uint32_t rank;
    int32_t moment;
    int64_t number; // step, or epoch
    bool all;
};

static void put(const struct marks *m, int figure, uint64_t bytes) {
    al_run_own_mark(m->run, m->rank, AL_EVENT_HOST, (uint16_t)figure, m->moment, (int64_t)bytes, m->number);
}

static void put_rank(const struct marks *m, const struct sums *s, uint64_t ring_bytes) {
    if (!s->known)
        return;
    put(m, AL_HOST_ANON, s->r.anon);
    if (!m->all)
        return;
    put(m, AL_HOST_SHMEM, s->r.shmem > ring_bytes ? s->r.shmem - ring_bytes : 0);
    put(m, AL_HOST_FILE, s->r.file);
    put(m, AL_HOST_RSS, s->r.all);
    if (s->pss_known)
        put(m, AL_HOST_PSS, s->p.all);
    if (s->pss_anon_known)
        put(m, AL_HOST_PSS_ANON, s->p.anon);
}

static void put_workers(const struct marks *m, const struct sums *s) {
    put(m, AL_HOST_WORKERS_ANON, s->r.anon);
    if (!m->all)
        return;
    put(m, AL_HOST_WORKERS_SHMEM, s->r.shmem);
    put(m, AL_HOST_WORKERS_FILE, s->r.file);
    if (s->pss_known)
        put(m, AL_HOST_WORKERS_PSS, s->p.all);
    if (s->pss_anon_known)
        put(m, AL_HOST_WORKERS_PSS_ANON, s->p.anon);
}

static void put_group(const struct marks *m, const struct al_host_group *g) {
    if (!g->known)
        return;
    put(m, AL_HOST_CGROUP_ANON, g->anon);
    put(m, AL_HOST_CGROUP_SHMEM, g->shmem);
    put(m, AL_HOST_CGROUP_FILE, g->file);
    put(m, AL_HOST_CGROUP_USED, g->used);
    if (g->limit_known)
        put(m, AL_HOST_LIMIT, g->limit);
}

static void read_rank(struct al_run *r, int root, uint32_t i, struct watched *w, bool epoch) {
    struct sums own = {0}, workers = {0};
    struct al_host_group group = {0};
    bool all = epoch || w->readings++ % ALL_READINGS == 0;
    add_process(root, w->pid, epoch, &own);
    for (int n = 0; n < w->worker_count; n++)
        add_process(root, w->workers[n], epoch, &workers);
    if (all)
        al_host_group(root, w->pid, &group);
    const struct marks m = {r, i, epoch ? AL_HOST_AT_EPOCH : AL_HOST_AT_TICK, epoch ? w->epoch : w->step, all};
    pthread_mutex_lock(&r->lock);
    put_rank(&m, &own, w->ring_bytes);
    if (workers.known)
        put_workers(&m, &workers);
    put_group(&m, &group);
    pthread_mutex_unlock(&r->lock);
}

// What the run's own thread knows of the ranks; returns how many there are.
static uint32_t look(struct al_run *r, struct watched *all, uint32_t *ret_processes) {
    pthread_mutex_lock(&r->lock);
    uint32_t count = r->book.rank_count;
    *ret_processes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct al_book_rank *k = r->ranks[i].book;
        struct watched *w = &all[i];
        w->ended = k->ended || !al_tally_trains(&k->tally);
        w->pid = k->pid;
        w->step = al_tally_steps(&k->tally) ? k->tally.step : 0;
        w->ring_bytes = al_ring_reader_bytes(r->ranks[i].ring);
        w->epoch_due = r->ranks[i].epoch_due;
        w->epoch = k->tally.epoch;
        r->ranks[i].epoch_due = false;
        *ret_processes += w->ended ? 0 : 1 + (uint32_t)w->worker_count;
    }
    pthread_mutex_unlock(&r->lock);
    return count;
}

static void look_for_workers(int root, struct watched *w) {
    if (w->looked++ % WORKERS_TICKS != 0 && !w->epoch_due)
        return;
    int count = al_host_workers(root, w->pid, w->workers, WORKERS_MOST);
    w->worker_count = count < 0 ? 0 : count > WORKERS_MOST ? WORKERS_MOST : count;
}

static void *live(void *user) {
    struct al_run *r = user;
    struct watched *all = calloc(AL_BOOK_RANKS, sizeof *all);
    int root;
    if (!all || al_fs_root("/", &root)) {
        free(all);
        return NULL;
    }
    for (uint32_t tick = 0; !atomic_load(&r->host_stop); tick++) {
        uint32_t processes, count = look(r, all, &processes), every = 2 * (1 + processes / FEW);
        for (uint32_t i = 0; i < count && !atomic_load(&r->host_stop); i++) {
            if (all[i].ended)
                continue;
            look_for_workers(root, &all[i]);
            if (all[i].epoch_due)
                read_rank(r, root, i, &all[i], true);
            if (tick % every == 0)
                read_rank(r, root, i, &all[i], false);
        }
        (void)poll(NULL, 0, TICK_MS);
    }
    free(all);
    (void)close(root);
    return NULL;
}

void al_run_host_start(struct al_run *r) {
    r->host_started = pthread_create(&r->host_thread, NULL, live, r) == 0;
}

// A process that holds its memory lock for long holds the reader: then the thread is left alone.
void al_run_host_stop(struct al_run *r) {
    struct timespec until;
    if (!r->host_started)
        return;
    atomic_store(&r->host_stop, 1);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_MS * 1000000 + 50000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_timedjoin_np(r->host_thread, NULL, &until);
    r->host_started = false;
}
