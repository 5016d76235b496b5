// SPDX-License-Identifier: Apache-2.0
// A library for tests/stacks/programs/local.py, which loads it into real interpreters: it takes stacks of the process that
// it is in, in calls, in hooks of the interpreter's allocators, in threads of its own and in signal handlers.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "stack/core/local.h"
#include "stack/core/walk.h"

#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wmissing-prototypes" // called by ctypes
#define DEPTH 4096u
#define TABLE (1u << 20)
#define DOMAINS 3
#define EVERY 16u // allocations, of which one is looked at
#define HOOK_DEPTH 512u

static struct al_local local;

struct counts {
    uint64_t taken, none, damaged, wrong, differ;
};

static void *symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

EXPORT int local_open(void) {
    return al_local_init(&local, symbol);
}

// From here on as if the interpreter exported no function: threads are looked for in its lists.
EXPORT void local_search(void) {
    local.own_thread = NULL;
}

static int print(const struct al_local_frame *frames, uint32_t count, char *out, size_t size) {
    static unsigned char table[TABLE];
    struct al_local_place place;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        (void)al_local_place(&local, &frames[i], table, sizeof table, &place);
        int n = snprintf(out + used, size - used, "%s\t%d\t%d\t%s\n", place.function, place.line, place.first_line, place.file);
        if (n < 0 || (size_t)n >= size - used)
            return -1;
        used += (size_t)n;
    }
    return (int)count;
}

// The calling thread's stack as lines "function TAB line TAB first line TAB file"; -2: damaged, -3: cut.
EXPORT int local_text(int how, char *out, size_t size) {
    static _Thread_local struct al_local_frame frames[DEPTH];
    struct al_local_stack s = {.frames = frames, .cap = DEPTH};
    errno = 4711;
    uint32_t count = al_local_stack(&local, (enum al_local_how)how, &s);
    if (errno != 4711)
        return -4;
    return s.damaged ? -2 : s.truncated ? -3 : print(frames, count, out, size);
}

// How many of the innermost `cap` frames there are; and whether it says that there are more.
EXPORT int local_cut(int how, uint32_t cap, int *truncated) {
    struct al_local_frame frames[64];
    struct al_local_stack s = {.frames = frames, .cap = cap < 64 ? cap : 64};
    uint32_t count = al_local_stack(&local, (enum al_local_how)how, &s);
    *truncated = s.truncated;
    return (int)count;
}

static void *in_thread(void *how) {
    static char out[65536];
    return (void *)(intptr_t)local_text((int)(intptr_t)how, out, sizeof out);
}

EXPORT int local_in_thread(int how) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, in_thread, (void *)(intptr_t)how) || pthread_join(thread, &result))
        return -5;
    return (int)(intptr_t)result;
}

// Another thread's stack, by the walker that reads it twice.
EXPORT int local_other(uint64_t thread, char *out, size_t size) {
    static unsigned char buffer[1 << 18];
    static struct al_raw_frame raw[256], second[256];
    static struct al_span spans[AL_SPANS_MOST];
    struct al_local_frame frames[256];
    struct al_plan plan = {.spans = spans, .cap = AL_SPANS_MOST};
    struct al_walk w = {.layout = &local.layout, .memory = &local.guarded, .buffer = buffer, .buffer_size = sizeof buffer,
                        .frames = raw, .second = second, .depth = 256};
    for (int i = 0; i < 3; i++) // what is a root is believed when it is seen again
        if (al_walk_thread(&w, &plan, thread) == AL_WALK_OK)
            break;
    for (uint32_t i = 0; i < w.count; i++)
        frames[i] = (struct al_local_frame){raw[i].code, raw[i].instr, raw[i].tlbc, raw[i].entry};
    return print(frames, w.count, out, size);
}

// CPU time of one stack: of the quickest of ten rounds, since others use the machine too.
EXPORT double local_nanoseconds(int how, uint32_t times, uint32_t *frames_of_each) {
    static struct al_local_frame frames[DEPTH];
    struct al_local_stack s = {.frames = frames, .cap = DEPTH};
    double least = 0;
    for (int round = 0; round < 10; round++) {
        struct timespec a, b;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
        for (uint32_t i = 0; i < times; i++)
            *frames_of_each = al_local_stack(&local, (enum al_local_how)how, &s);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
        double took = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / times;
        least = round == 0 || took < least ? took : least;
    }
    return least;
}

// Signals

static struct al_local_frame signal_frames[DEPTH];
static volatile uint32_t signal_count;
static struct counts signal_counts;
static uint64_t root;
static pthread_t main_thread;

static void count_one(struct counts *c, const struct al_local_stack *s) {
    c->taken++;
    c->none += s->count == 0;
    c->damaged += s->damaged;
    c->wrong += s->count && !s->damaged && !s->truncated && s->frames[s->count - 1].code != root;
}

static void on_signal(int number) {
    (void)number;
    struct al_local_stack s = {.frames = signal_frames, .cap = DEPTH};
    signal_count = al_local_stack(&local, AL_LOCAL_GUARDED, &s);
    if (pthread_equal(pthread_self(), main_thread))
        count_one(&signal_counts, &s);
}

static void note_root(void) {
    struct al_local_frame frames[64];
    struct al_local_stack s = {.frames = frames, .cap = 64};
    main_thread = pthread_self();
    if (al_local_stack(&local, AL_LOCAL_GUARDED, &s))
        root = frames[s.count - 1].code;
}

EXPORT void local_handle(int number, long every_us) {
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct itimerval timer = {.it_interval.tv_usec = every_us, .it_value.tv_usec = every_us};
    note_root();
    sigaction(number, &act, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

EXPORT int local_raise(int number, char *out, size_t size) {
    raise(number);
    return print(signal_frames, signal_count, out, size);
}

EXPORT void local_signal_counts(struct counts *ret) {
    *ret = signal_counts;
}

// Hooks of the allocators: PyMemAllocatorEx.

struct allocator {
    void *user;
    void *(*get)(void *, size_t);
    void *(*zeroed)(void *, size_t, size_t);
    void *(*again)(void *, void *, size_t);
    void (*drop)(void *, void *);
};

static struct allocator own[DOMAINS];
static struct counts hook_counts;
static uint32_t calls;

static void add_to(uint64_t *count, bool more) {
    if (more)
        __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

// Any thread's, also of one that begins or ends, and while the interpreter goes down.
static void look(void) {
    static _Thread_local struct al_local_frame plain[HOOK_DEPTH], guarded[HOOK_DEPTH];
    struct al_local_stack a = {.frames = plain, .cap = HOOK_DEPTH}, b = {.frames = guarded, .cap = HOOK_DEPTH};
    if (__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % EVERY)
        return;
    (void)al_local_stack(&local, AL_LOCAL_PLAIN, &a);
    (void)al_local_stack(&local, AL_LOCAL_GUARDED, &b);
    bool differ = a.count != b.count || a.damaged != b.damaged, own_root = pthread_equal(pthread_self(), main_thread);
    for (uint32_t i = 0; i < a.count && !differ; i++)
        differ = plain[i].code != guarded[i].code || plain[i].instr != guarded[i].instr || plain[i].entry != guarded[i].entry;
    add_to(&hook_counts.taken, true);
    add_to(&hook_counts.none, own_root && a.count == 0);
    add_to(&hook_counts.damaged, a.damaged);
    add_to(&hook_counts.wrong, own_root && a.count && !a.truncated && plain[a.count - 1].code != root);
    add_to(&hook_counts.differ, differ);
}

static void *hook_get(void *user, size_t size) {
    struct allocator *a = user;
    look();
    return a->get(a->user, size);
}
static void *hook_zeroed(void *user, size_t count, size_t size) {
    struct allocator *a = user;
    look();
    return a->zeroed(a->user, count, size);
}
static void *hook_again(void *user, void *old, size_t size) {
    struct allocator *a = user;
    look();
    return a->again(a->user, old, size);
}
static void hook_drop(void *user, void *old) {
    struct allocator *a = user;
    look();
    a->drop(a->user, old);
}

EXPORT void local_hook(int on) {
    void (*get)(int, struct allocator *), (*set)(int, struct allocator *);
    *(void **)(&get) = symbol("PyMem_GetAllocator");
    *(void **)(&set) = symbol("PyMem_SetAllocator");
    note_root();
    for (int i = 0; i < DOMAINS; i++) {
        if (on) {
            get(i, &own[i]);
            set(i, &(struct allocator){&own[i], hook_get, hook_zeroed, hook_again, hook_drop});
        } else {
            set(i, &own[i]);
        }
    }
}

EXPORT void local_hook_counts(struct counts *ret) {
    *ret = hook_counts;
}
