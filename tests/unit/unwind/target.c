// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 5000 // ms

// A sanitizer would put what is marked into a stack of its own.
#define PLAIN_STACK __attribute__((noinline, no_sanitize("address")))

// In a section of its own, whose borders the linker gives.
PLAIN_STACK __attribute__((section("al_spin"))) static void spin(struct target_seen *seen) {
    volatile uint64_t mark[64]; // more than the red zone below the stack pointer holds
    for (int i = 0; i < 64; i++)
        mark[i] = TARGET_MARK;
    for (;;)
        seen->turns += mark[seen->turns & 63] != 0;
}
extern const char __start_al_spin[], __stop_al_spin[];

PLAIN_STACK static void wait_here(void) {
    volatile uint64_t mark[2] = {TARGET_MARK, TARGET_MARK};
    while (mark[0] == TARGET_MARK)
        (void)pause();
}

static struct target_seen *own;

static void count(int number) {
    (void)number;
    own->signals++;
}

static void *spinner(void *seen) {
    own->spinner = (pid_t)syscall(SYS_gettid);
    spin(seen);
    return NULL;
}

static void *short_lived(void *seen) {
    for (int i = 0; i < 100000; i++)
        ((struct target_seen *)seen)->turns++;
    return NULL;
}

static void *breeder(void *seen) {
    for (;;) {
        pthread_t t;
        if (pthread_create(&t, NULL, short_lived, seen) == 0)
            (void)pthread_join(t, NULL);
        own->threads++;
    }
    return NULL;
}

_Noreturn static void run(struct target_seen *seen, enum target_work work) {
    pthread_t t;
    own = seen;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGRTMIN, count);
    if (work == TARGET_THREADS && (pthread_create(&t, NULL, spinner, seen) || pthread_create(&t, NULL, breeder, seen)))
        _exit(1);
    while (work == TARGET_THREADS && !seen->spinner)
        (void)usleep(1000);
    seen->started = true;
    if (work == TARGET_SPINS)
        spin(seen);
    wait_here();
    _exit(0);
}

void target_start(struct target *t, enum target_work work) {
    void *shared = mmap(NULL, sizeof *t->seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    t->seen = shared;
    t->pid = fork();
    if (t->pid == 0)
        run(t->seen, work);
    for (int i = 0; i < PATIENCE && !t->seen->started; i++)
        (void)usleep(1000);
}

void target_end(struct target *t) {
    (void)kill(t->pid, SIGKILL);
    (void)waitpid(t->pid, NULL, 0);
    (void)munmap(t->seen, sizeof *t->seen);
}

char target_state(pid_t tid) {
    char path[64], text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)tid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        (void)fclose(f);
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : '?';
}

bool target_becomes(pid_t tid, char state) {
    for (int i = 0; i < PATIENCE && target_state(tid) != state; i++)
        (void)usleep(1000);
    return target_state(tid) == state;
}

bool target_spins_at(uint64_t instruction) {
    return instruction >= (uintptr_t)__start_al_spin && instruction < (uintptr_t)__stop_al_spin;
}

bool target_turns(struct target *t) {
    uint64_t before = t->seen->turns;
    for (int i = 0; i < PATIENCE && t->seen->turns == before; i++)
        (void)usleep(1000);
    return t->seen->turns != before;
}

bool target_marked(const unsigned char *stack, size_t size) {
    for (size_t i = 0; i + 8 <= size && i < 4096; i += 8) {
        uint64_t word;
        memcpy(&word, stack + i, 8);
        if (word == TARGET_MARK)
            return true;
    }
    return false;
}
