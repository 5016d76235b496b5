// SPDX-License-Identifier: Apache-2.0
// alula profile --native and --blocking. Threads that run have a clock of perf's, somewhat faster than the samples: each of its
// pictures is merged at once, with Python read behind it, and counted at the next sample that finds the thread running.
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile.h"

#define FASTER 1.93 // not in step with the samples
#define LATE_NS (300 * AL_NS_PER_US) // how often threads that stop late are looked for
#define TAKEN_MOST 64u // pictures of a process at once
#define POLLS 256u  // processes whose pictures wake the sampler; of others they are taken when it wakes

static void tell(struct al_profiling *p, const char *text) {
    if (p->native_told)
        return;
    p->native_told = true;
    if (p->mute)
        (void)al_str_copy(p->said, sizeof p->said, text);
    else
        al_cli_error("%s: %s", p->name ? p->name : "profile", text);
}

int al_profiling_native_open(struct al_profiling *p, struct al_profile_target *t) {
    struct al_unwind_error error;
    struct al_native_settings settings = {.blocking = p->blocking, .python = !p->native, .all = p->native_all, .rate = p->rate * FASTER};
    int result = al_native_open(t->process.pid, t->stack, &settings, &t->native, &error);
    bool named = t->process.pid == p->pid;
    if (*error.text)
        tell(p, error.text);
    if (result && named && result != AL_E_GONE && !p->error)
        p->error = result;
    return named || result == AL_E_NOMEM ? result : 0; // of others Python alone
}

static void add(struct al_native_counts *sum, const struct al_native_counts *c) {
    sum->merged += c->merged;
    sum->part += c->part;
    sum->absent += c->absent;
    sum->unfit += c->unfit;
    sum->kept += c->kept;
    sum->pinned += c->pinned;
    sum->unpinned += c->unpinned;
    sum->capture.pictures += c->capture.pictures;
    sum->capture.missed += c->capture.missed;
    sum->capture.stopped += c->capture.stopped;
    sum->capture.no_room |= c->capture.no_room;
    sum->unwind.stacks += c->unwind.stacks;
    sum->unwind.cut += c->unwind.cut;
    sum->unwind.stuck += c->unwind.stuck;
}

void al_profiling_native_close(struct al_profile_target *t) {
    struct al_native_counts c;
    if (!t->native)
        return;
    al_native_get_counts(t->native, &c);
    add(&t->native_before, &c);
    al_native_free(t->native);
    t->native = NULL;
}

void al_profiling_native_counts(const struct al_profiling *p, struct al_native_counts *ret) {
    struct al_native_counts c;
    *ret = (struct al_native_counts){0};
    for (uint32_t i = 0; i < p->target_count; i++) {
        add(ret, &p->targets[i]->native_before);
        if (!p->targets[i]->native)
            continue;
        al_native_get_counts(p->targets[i]->native, &c);
        add(ret, &c);
    }
}

int al_profiling_native_thread(struct al_profiling *p, struct al_profile_target *t, size_t i, struct al_stack_thread *ret) {
    *ret = t->sample->threads[i];
    if (ret->status == AL_STACK_LEFT_OUT || ret->status == AL_STACK_EMPTY)
        return 0;
    if (p->blocking || ret->idle == AL_STACK_YES || !ret->tid) {
        int result = al_native_thread(t->native, t->sample, i, AL_NATIVE_NOW, ret);
        return result == AL_E_NOMEM ? result : 0;
    }
    al_native_watch(t->native, ret->tid);
    (void)al_native_pending(t->native, t->sample, i, p->gil, ret);
    return 0;
}

static void take_picture(struct al_profile_target *t, pid_t tid) {
    struct al_stack_thread thread;
    size_t i = 0;
    while (t->sample && i < t->sample->count && t->sample->threads[i].tid != tid)
        i++;
    if (t->sample && i < t->sample->count)
        (void)al_native_thread(t->native, t->sample, i, AL_NATIVE_PICTURE, &thread);
    else
        al_native_pass(t->native, tid);
}

// Those that have come; not for ever, where they come faster than they are taken.
static void take_pictures(struct al_profiling *p) {
    if (p->lock)
        pthread_mutex_lock(p->lock);
    for (uint32_t i = 0; i < p->target_count; i++) {
        struct al_profile_target *t = p->targets[i];
        pid_t tid;
        for (unsigned most = TAKEN_MOST; t->native && most && (tid = al_native_wait(t->native, 0)) != 0; most--)
            take_picture(t, tid);
    }
    if (p->lock)
        pthread_mutex_unlock(p->lock);
}

// Threads that were asked to stop and did so too late for their sample go on at once.
static bool release(const struct al_profiling *p) {
    bool late = false;
    for (uint32_t i = 0; i < p->target_count; i++)
        late |= p->targets[i]->native && al_native_release(p->targets[i]->native);
    return late;
}

bool al_profiling_native_wait(struct al_profiling *p, int64_t until_ns) {
    struct pollfd fds[POLLS + 1];
    for (;;) {
        nfds_t count = 0;
        fds[count++] = (struct pollfd){.fd = p->launched ? p->job.signal_fd : -1, .events = POLLIN};
        for (uint32_t i = 0; i < p->target_count && count <= POLLS; i++)
            if (p->targets[i]->native && al_native_fd(p->targets[i]->native) >= 0)
                fds[count++] = (struct pollfd){.fd = al_native_fd(p->targets[i]->native), .events = POLLIN};
        bool late = p->blocking && release(p);
        int64_t left = until_ns - al_monotonic_ns();
        if (left <= 0)
            return true;
        left = late && left > LATE_NS ? LATE_NS : left;
        struct timespec wait = {.tv_sec = left / AL_NS_PER_S, .tv_nsec = left % AL_NS_PER_S};
        int n = ppoll(fds, count, &wait, NULL);
        if (n < 0)
            return false;
        if (fds[0].revents)
            (void)al_job_signals(&p->job, NULL, NULL);
        if (p->launched && p->job.ended)
            return false;
        if (n > 0)
            take_pictures(p);
    }
}
