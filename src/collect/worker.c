// SPDX-License-Identifier: Apache-2.0
#include "collect/worker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"

struct al_worker {
    struct al_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;

    // Under lock.
    bool quit, ended;
    bool sample_wanted, sample_busy, slow_busy;
    uint32_t fast_groups, slow_groups;
    bool attr_wanted, attr_busy;
    uint64_t attr_ticket; // tells an answer that nobody waits for any more
    uint32_t attr_gpu;
    enum al_attr attr;
    struct al_attr_value attr_value;
    int attr_result;
    struct al_snapshot *fast, *slow; // published
    int64_t fast_ns, slow_ns;
    int result;

    // The thread's own.
    struct al_snapshot *work;
    _Atomic int64_t cpu_ns;
};

// Samples into `work` and publishes by swapping, so that the lock is never held over a driver call.
static void sample(struct al_worker *w, uint32_t groups, struct al_snapshot **published, int64_t *published_ns) {
    al_snapshot_clear(w->work);
    int64_t now = al_monotonic_ns();
    int result = w->device->ops->sample(w->device, w->work, groups, now);
    al_snapshot_sort(w->work);
    w->work->groups = groups;
    pthread_mutex_lock(&w->lock);
    w->result = result;
    if (result == 0) {
        struct al_snapshot *old = *published;
        *published = w->work;
        w->work = old;
        *published_ns = now;
    }
    pthread_mutex_unlock(&w->lock);
}

static void finish(struct al_worker *w, bool *flag) {
    atomic_store_explicit(&w->cpu_ns, al_thread_cpu_ns(), memory_order_relaxed);
    pthread_mutex_lock(&w->lock);
    *flag = false;
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
}

static void do_sample(struct al_worker *w, uint32_t fast, uint32_t slow) {
    if (fast)
        sample(w, fast, &w->fast, &w->fast_ns);
    finish(w, &w->sample_busy);
    if (!slow)
        return;
    sample(w, slow, &w->slow, &w->slow_ns);
    finish(w, &w->slow_busy);
}

static void do_attr(struct al_worker *w, uint32_t gpu, enum al_attr attr, uint64_t ticket) {
    struct al_attr_value value = {0};
    int result = w->device->ops->attr(w->device, gpu, attr, &value);
    pthread_mutex_lock(&w->lock);
    if (ticket == w->attr_ticket) {
        w->attr_value = value;
        w->attr_result = result;
    }
    pthread_mutex_unlock(&w->lock);
    finish(w, &w->attr_busy);
}

static void *worker_main(void *user) {
    struct al_worker *w = user;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->quit && !w->sample_wanted && !w->attr_wanted)
            pthread_cond_wait(&w->wake, &w->lock);
        if (w->quit)
            break;
        bool attr_first = w->attr_wanted;
        uint32_t fast = w->fast_groups, slow = w->slow_groups, gpu = w->attr_gpu;
        enum al_attr attr = w->attr;
        uint64_t ticket = w->attr_ticket;
        if (attr_first)
            w->attr_wanted = false;
        else
            w->sample_wanted = false;
        pthread_mutex_unlock(&w->lock);
        if (attr_first)
            do_attr(w, gpu, attr, ticket);
        else
            do_sample(w, fast, slow);
        pthread_mutex_lock(&w->lock);
    }
    w->ended = true;
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void release(struct al_worker *w) {
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->done);
    al_snapshot_free(w->fast);
    al_snapshot_free(w->slow);
    al_snapshot_free(w->work);
    free(w);
}

int al_worker_new(struct al_device *device, struct al_worker **ret) {
    struct al_worker *w = calloc(1, sizeof *w);
    if (!w)
        return AL_E_NOMEM;
    pthread_mutex_init(&w->lock, NULL);
    al_thread_cond(&w->wake);
    al_thread_cond(&w->done);
    w->device = device;
    w->fast = al_snapshot_new();
    w->slow = al_snapshot_new();
    w->work = al_snapshot_new();
    if (!w->fast || !w->slow || !w->work || al_thread_start(&w->thread, worker_main, w) < 0) {
        release(w);
        return AL_E_NOMEM;
    }
    *ret = w;
    return 0;
}

static struct timespec deadline(int64_t timeout_ns) {
    int64_t at = al_monotonic_ns() + timeout_ns;
    return (struct timespec){.tv_sec = at / AL_NS_PER_S, .tv_nsec = at % AL_NS_PER_S};
}

int al_worker_free(struct al_worker *w) {
    if (!w)
        return 0;
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_signal(&w->wake);
    // A healthy slow round takes milliseconds; whoever needs longer hangs in the driver.
    struct timespec until = deadline(AL_NS_PER_S / 2);
    while (!w->ended)
        if (pthread_cond_timedwait(&w->done, &w->lock, &until))
            break;
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    if (!ended) {
        pthread_detach(w->thread);
        return AL_E_TIMEOUT;
    }
    pthread_join(w->thread, NULL);
    release(w);
    return 0;
}

int al_worker_request(struct al_worker *w, uint32_t fast, uint32_t slow) {
    int result = AL_E_AGAIN;
    pthread_mutex_lock(&w->lock);
    if (!w->sample_busy) {
        // A slow round that still runs is not asked for twice; the fast one follows it.
        w->slow_groups = w->slow_busy ? 0 : slow;
        w->slow_busy = w->slow_busy || slow;
        w->fast_groups = fast;
        w->sample_wanted = w->sample_busy = true;
        pthread_cond_signal(&w->wake);
        result = 0;
    }
    pthread_mutex_unlock(&w->lock);
    return result;
}

int al_worker_wait(struct al_worker *w, bool all, int64_t timeout_ns) {
    struct timespec until = deadline(timeout_ns);
    int result = 0;
    pthread_mutex_lock(&w->lock);
    while ((w->sample_busy || (all && w->slow_busy)) && !result)
        if (pthread_cond_timedwait(&w->done, &w->lock, &until))
            result = AL_E_TIMEOUT;
    pthread_mutex_unlock(&w->lock);
    return result;
}

int al_worker_take(struct al_worker *w, struct al_snapshot *fast, struct al_snapshot *slow, int64_t *ret_fast_ns,
                   int64_t *ret_slow_ns) {
    pthread_mutex_lock(&w->lock);
    int result = al_snapshot_copy(fast, w->fast);
    if (result == 0)
        result = al_snapshot_copy(slow, w->slow);
    // Taken: the next taker must not count these driver samples again.
    for (uint32_t i = 0; i < w->fast->gpu_count; i++)
        w->fast->gpus[i].fresh_count = 0;
    *ret_fast_ns = w->fast_ns;
    *ret_slow_ns = w->slow_ns;
    if (result == 0)
        result = w->result;
    pthread_mutex_unlock(&w->lock);
    return result;
}

int al_worker_attr(struct al_worker *w, uint32_t gpu, enum al_attr attr, int64_t timeout_ns,
                   struct al_attr_value *ret) {
    struct timespec until = deadline(timeout_ns);
    int result = 0;
    pthread_mutex_lock(&w->lock);
    while (w->attr_busy && !result)
        if (pthread_cond_timedwait(&w->done, &w->lock, &until))
            result = AL_E_TIMEOUT;
    if (!result) {
        w->attr_ticket++;
        w->attr_gpu = gpu;
        w->attr = attr;
        w->attr_wanted = w->attr_busy = true;
        pthread_cond_signal(&w->wake);
        while (w->attr_busy && !result)
            if (pthread_cond_timedwait(&w->done, &w->lock, &until))
                result = AL_E_TIMEOUT;
    }
    if (!result) {
        *ret = w->attr_value;
        result = w->attr_result;
    } else {
        w->attr_ticket++;
    }
    pthread_mutex_unlock(&w->lock);
    return result;
}

int64_t al_worker_cpu_ns(const struct al_worker *w) {
    return atomic_load_explicit(&w->cpu_ns, memory_order_relaxed);
}
