// SPDX-License-Identifier: Apache-2.0
#include "collect/looks.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "base/thread.h"
#include "detect/look.h"
#include "stack/stack.h"

#define DEPTH 256              // frames that are read of a stack
#define SOURCE_MAX (4u << 20)  // bytes of a source file in which a line is looked for
#define SOURCE_LINE 1024

// A process that is sampled.
struct subject {
    struct al_look_target who;
    struct al_stack *stack; // NULL: it could not be opened, or has ended
    bool tried, kept;
    char problem[sizeof((struct al_look *)0)->problem];
    // Of the look under way; of a rank alone.
    struct al_look_tally own, theirs; // theirs: its workers'
    uint32_t workers, workers_now;    // most that were sampled at once
};

struct al_looks {
    struct al_looks_options o;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    // Under lock.
    bool started, quit, ended;
    uint64_t version; // of the targets
    struct al_look_target targets[AL_LOOK_TARGETS];
    uint32_t target_count;
    struct al_snapshot *shown; // its looks are the latest

    // The thread's own.
    struct subject *subjects;
    uint32_t subject_count;
    struct al_snapshot *work;
    struct al_frame frames[DEPTH];
};

// ---- subjects ----

static void close_subject(struct subject *s) {
    al_stack_free(s->stack);
    s->stack = NULL;
    al_look_tally_done(&s->own);
    al_look_tally_done(&s->theirs);
}

static void open_subject(struct subject *s) {
    const struct al_stack_settings settings = {.depth = DEPTH};
    struct al_stack_error e = {""};
    int result = al_stack_open(s->who.pid, &settings, &s->stack, &e);
    s->tried = true;
    // What is not Python, or has just ended, is no trouble: there is nothing to look at.
    if (result == AL_E_DENIED || result == AL_E_UNSUPPORTED)
        (void)al_str_copy(s->problem, sizeof s->problem, e.text);
}

static bool same_target(const struct al_look_target *a, const struct al_look_target *b) {
    return a->pid == b->pid && a->start_ticks == b->start_ticks && a->owner == b->owner;
}

// Those that are asked for now; samplers stay open from look to look.
static int follow(struct al_looks *l, const struct al_look_target *targets, uint32_t count) {
    struct subject *now = calloc(count ? count : 1, sizeof *now);
    if (!now)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        now[i].who = targets[i];
        for (uint32_t k = 0; k < l->subject_count; k++)
            if (!l->subjects[k].kept && same_target(&l->subjects[k].who, &targets[i])) {
                now[i] = l->subjects[k];
                now[i].who = targets[i];
                l->subjects[k].kept = true;
                break;
            }
        now[i].kept = false;
    }
    for (uint32_t k = 0; k < l->subject_count; k++)
        if (!l->subjects[k].kept)
            close_subject(&l->subjects[k]);
    free(l->subjects);
    l->subjects = now;
    l->subject_count = count;
    return 0;
}

// ---- samples ----

static const struct al_stack_thread *main_thread(const struct al_stack_sample *sample) {
    for (size_t i = 0; i < sample->count; i++)
        if (sample->threads[i].main && sample->threads[i].interp == 0)
            return &sample->threads[i];
    return NULL;
}

static struct subject *rank_of(struct al_looks *l, struct subject *s) {
    for (uint32_t i = 0; s->who.owner && i < l->subject_count; i++)
        if (!l->subjects[i].who.owner && l->subjects[i].who.pid == s->who.owner)
            return &l->subjects[i];
    return s->who.owner ? NULL : s;
}

static int count_thread(struct al_looks *l, struct subject *s, const struct al_stack_thread *t) {
    struct subject *rank = rank_of(l, s);
    uint32_t count = 0;
    if (!rank || (t->status != AL_STACK_OK && t->status != AL_STACK_UNSTABLE))
        return 0;
    for (uint32_t i = 0; i < t->count && count < DEPTH; i++) {
        const struct al_stack_code *code = t->frames[i].kind == AL_STACK_PYTHON ? al_stack_code(s->stack, t->frames[i].code) : NULL;
        if (code)
            l->frames[count++] = (struct al_frame){code->filename, code->name, t->frames[i].line};
    }
    rank->workers_now += s->who.owner != 0;
    return al_look_tally_add(s->who.owner ? &rank->theirs : &rank->own, l->frames, count, t->status == AL_STACK_OK,
                             t->idle == AL_STACK_YES);
}

static int sample_subject(struct al_looks *l, struct subject *s) {
    const struct al_stack_sample *sample;
    if (!s->stack && !s->tried)
        open_subject(s);
    if (!s->stack)
        return 0;
    int result = al_stack_sample(s->stack, AL_STACK_MAIN_ONLY | (s->who.owner ? 0 : AL_STACK_STATE), &sample);
    if (result == AL_E_NOMEM)
        return result;
    if (result == AL_E_AGAIN || result == AL_E_GONE || result == AL_E_DENIED) {
        al_stack_free(s->stack);
        s->stack = NULL;
        s->tried = result != AL_E_AGAIN; // another program by exec: it is opened again
        return 0;
    }
    const struct al_stack_thread *t = result ? NULL : main_thread(sample);
    return t ? count_thread(l, s, t) : 0;
}

static int sample_all(struct al_looks *l) {
    int result = 0;
    for (uint32_t i = 0; i < l->subject_count; i++)
        l->subjects[i].workers_now = 0;
    for (uint32_t i = 0; i < l->subject_count && !result; i++)
        result = sample_subject(l, &l->subjects[i]);
    for (uint32_t i = 0; i < l->subject_count; i++)
        if (l->subjects[i].workers < l->subjects[i].workers_now)
            l->subjects[i].workers = l->subjects[i].workers_now;
    return result;
}

// ---- source lines ----

// A file as the process sees it. What a code object calls its file may be anything: only regular ones, and none above its root.
static FILE *open_source(pid_t pid, const char *file) {
    char path[sizeof((struct al_look_line *)0)->file + 64];
    struct stat st;
    if (file[0] == '<' || strstr(file, ".."))
        return NULL;
    (void)snprintf(path, sizeof path, "/proc/%d/%s/%s", (int)pid, file[0] == '/' ? "root" : "cwd", file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    FILE *f = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0)
        (void)close(fd);
    return f;
}

static bool source_line(pid_t pid, const struct al_look_line *at, char *out, size_t size) {
    char line[SOURCE_LINE];
    size_t bytes = 0;
    FILE *f = at->line > 0 ? open_source(pid, at->file) : NULL;
    bool found = false, begins = true;
    for (int32_t n = 1; f && bytes < SOURCE_MAX && fgets(line, sizeof line, f);) {
        size_t len = strlen(line);
        bytes += len;
        if (n == at->line && begins) {
            found = al_str_copy(out, size, line);
            break;
        }
        begins = len && line[len - 1] == '\n';
        n += begins;
    }
    if (f)
        (void)fclose(f);
    return found;
}

static void read_source(const struct subject *s, struct al_look_tally *t) {
    uint32_t in_function;
    char line[SOURCE_LINE];
    struct al_look_place *top = al_look_tally_top(t, &in_function);
    if (top && top->leaf && s->stack && source_line(s->who.pid, &top->at, line, sizeof line))
        al_look_tally_source(t, top, line, s->who.rank >= 0);
}

// ---- a look ----

static int tell(struct al_looks *l, struct subject *s, double seconds, int64_t now) {
    struct al_look *look = s->own.samples || *s->problem ? al_snapshot_add_look(l->work) : NULL;
    if (!look)
        return s->own.samples ? AL_E_NOMEM : 0;
    look->pid = s->who.pid;
    look->start_ticks = s->who.start_ticks;
    look->rank = s->who.rank;
    (void)al_str_copy(look->problem, sizeof look->problem, s->problem);
    read_source(s, &s->own);
    al_look_fill(look, &s->own, &s->theirs, s->workers, seconds, now);
    return 0;
}

static int tell_all(struct al_looks *l, int64_t began) {
    int64_t now = al_monotonic_ns();
    int result = 0;
    al_snapshot_clear(l->work);
    for (uint32_t i = 0; i < l->subject_count; i++) {
        struct subject *s = &l->subjects[i];
        if (!s->who.owner && !result)
            result = tell(l, s, (double)(now - began) / AL_NS_PER_S, now);
        al_look_tally_done(&s->own);
        al_look_tally_done(&s->theirs);
        s->workers = 0;
    }
    al_snapshot_sort(l->work);
    return result;
}

// With the lock held: waits until then; false when it is to stop, or nothing is asked for any more.
static bool wait_until(struct al_looks *l, int64_t ns, const uint64_t *version) {
    struct timespec until = {.tv_sec = ns / AL_NS_PER_S, .tv_nsec = ns % AL_NS_PER_S};
    while (!l->quit && l->target_count && (!version || *version == l->version) && al_monotonic_ns() < ns)
        (void)pthread_cond_timedwait(&l->wake, &l->lock, &until);
    return !l->quit && l->target_count;
}

// Samples for as long as a look lasts. Called and left with the lock held. Workers come and go while it does.
static int look(struct al_looks *l) {
    int64_t began = al_monotonic_ns(), step = (int64_t)(AL_NS_PER_S / l->o.rate);
    int64_t samples = (int64_t)(l->o.seconds * l->o.rate + 0.5);
    uint64_t version = l->version - 1;
    int result = 0;
    for (int64_t i = 0; i < samples && !result; i++) {
        if (!wait_until(l, began + i * step, NULL))
            return 0;
        if (version != l->version)
            result = follow(l, l->targets, l->target_count);
        version = l->version;
        pthread_mutex_unlock(&l->lock);
        result = result ? result : sample_all(l);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    if (!result)
        result = tell_all(l, began);
    pthread_mutex_lock(&l->lock);
    if (!result) {
        struct al_snapshot *old = l->shown;
        l->shown = l->work;
        l->work = old;
    }
    return result;
}

static void forget(struct al_looks *l) {
    (void)follow(l, NULL, 0);
    al_snapshot_clear(l->shown);
}

// The ranks that are asked for, without their workers, which change all the time.
static uint64_t ranks_of(const struct al_looks *l) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->target_count; i++)
        sum += l->targets[i].owner ? 0 : ((uint64_t)l->targets[i].pid << 32) + l->targets[i].start_ticks + 1;
    return sum;
}

static void *looks_main(void *user) {
    struct al_looks *l = user;
    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        uint64_t version = l->version, ranks = ranks_of(l);
        int64_t next = al_monotonic_ns() + (int64_t)(l->o.every * AL_NS_PER_S);
        if (!l->target_count) {
            forget(l);
            while (!l->quit && !l->target_count)
                (void)pthread_cond_wait(&l->wake, &l->lock);
            continue;
        }
        (void)look(l); // when memory is out: later
        version = l->version;
        while (!l->quit && l->target_count && ranks == ranks_of(l) && al_monotonic_ns() < next) {
            (void)wait_until(l, next, &version);
            version = l->version;
        }
    }
    l->ended = true;
    pthread_cond_broadcast(&l->done);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

// ---- from outside ----

int al_looks_new(const struct al_looks_options *options, struct al_looks **ret) {
    struct al_looks *l = calloc(1, sizeof *l);
    if (!l)
        return AL_E_NOMEM;
    pthread_mutex_init(&l->lock, NULL);
    al_thread_cond(&l->wake);
    al_thread_cond(&l->done);
    l->o = *options;
    l->shown = al_snapshot_new();
    l->work = al_snapshot_new();
    if (!l->shown || !l->work) {
        al_looks_free(l);
        return AL_E_NOMEM;
    }
    *ret = l;
    return 0;
}

void al_looks_free(struct al_looks *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->wake);
    int64_t at = al_monotonic_ns() + AL_NS_PER_S / 2;
    struct timespec until = {.tv_sec = at / AL_NS_PER_S, .tv_nsec = at % AL_NS_PER_S};
    while (l->started && !l->ended)
        if (pthread_cond_timedwait(&l->done, &l->lock, &until))
            break;
    bool left = l->started && !l->ended;
    pthread_mutex_unlock(&l->lock);
    if (left) {
        pthread_detach(l->thread);
        return;
    }
    if (l->started)
        pthread_join(l->thread, NULL);
    (void)follow(l, NULL, 0);
    free(l->subjects);
    al_snapshot_free(l->shown);
    al_snapshot_free(l->work);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wake);
    pthread_cond_destroy(&l->done);
    free(l);
}

void al_looks_ask(struct al_looks *l, const struct al_look_target *targets, uint32_t count) {
    count = count < l->o.processes ? count : l->o.processes;
    count = count < AL_LOOK_TARGETS ? count : AL_LOOK_TARGETS;
    pthread_mutex_lock(&l->lock);
    bool same = count == l->target_count;
    for (uint32_t i = 0; same && i < count; i++)
        same = same_target(&targets[i], &l->targets[i]) && targets[i].rank == l->targets[i].rank;
    if (!same) {
        if (count)
            memcpy(l->targets, targets, count * sizeof *targets);
        l->target_count = count;
        l->version++;
        pthread_cond_broadcast(&l->wake);
    }
    if (count && !l->started)
        l->started = al_thread_start(&l->thread, looks_main, l) == 0;
    pthread_mutex_unlock(&l->lock);
}

// The ranks first, then a worker of each in turn: a limit takes from all alike.
uint32_t al_looks_targets(const struct al_snapshot *s, const pid_t *pids, size_t count, struct al_look_target *ret, uint32_t max) {
    uint32_t n = 0, ranks;
    for (size_t i = 0; i < count && n < max; i++) {
        const struct al_proc *p = al_snapshot_proc(s, pids[i]);
        if (p && p->alive && !p->foreign)
            ret[n++] = (struct al_look_target){p->pid, 0, p->start_ticks, p->rank};
    }
    ranks = n;
    for (uint32_t nth = 0, before = UINT32_MAX; n < max && n != before; nth++) {
        before = n;
        for (uint32_t r = 0; r < ranks && n < max; r++) {
            uint32_t skip = nth;
            for (uint32_t i = 0; i < s->proc_count; i++) {
                const struct al_proc *p = &s->procs[i];
                if (p->role != AL_ROLE_WORKER || p->owner != ret[r].pid || p->pid == ret[r].pid || !p->alive || skip--)
                    continue;
                ret[n++] = (struct al_look_target){p->pid, ret[r].pid, p->start_ticks, ret[r].rank};
                break;
            }
        }
    }
    return n;
}

int al_looks_take(struct al_looks *l, struct al_snapshot *s) {
    int result = 0;
    pthread_mutex_lock(&l->lock);
    for (uint32_t i = 0; l->target_count && i < l->shown->look_count && !result; i++) {
        struct al_look *to = al_snapshot_add_look(s);
        result = to ? 0 : AL_E_NOMEM;
        if (to)
            *to = l->shown->looks[i];
    }
    pthread_mutex_unlock(&l->lock);
    return result;
}

bool al_looks_running(const struct al_looks *l) {
    return l && l->started;
}
