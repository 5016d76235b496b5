// SPDX-License-Identifier: Apache-2.0
// unwind-tool PID [--waiting] [--copy BYTES] [--twice] [--bench N] [--steps N]: native stacks of a process's threads, each stopped for
// its moment. --waiting: with only what is known of a thread that waits. --copy: with so much of the stack and nothing
// beyond. --twice: once more for each line on standard input. --bench: CPU time of N unwindings of the first.
// --steps: the first goes on for N instructions, and is unwound at each.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stop.h"

static const char *const states[] = {"whole", "cut", "stuck"};

static void print(const struct al_unwind *u, pid_t tid, const struct al_unwind_stack *s) {
    printf("thread %d: %u frames, %s\n", (int)tid, s->count, states[s->status]);
    for (uint32_t i = 0; i < s->count; i++) {
        const struct al_unwind_symbol *n = al_unwind_symbol(u, s->frames[i].symbol);
        printf("  %2u %16" PRIx64 " %s%s%s (%s)", i, s->frames[i].address, n->name, s->frames[i].guessed ? " ?" : "",
               s->frames[i].kind == AL_UNWIND_INTERPRETER ? " [interpreter]" : "", n->object);
        if (n->line)
            printf(" %s:%d", n->file, n->line);
        putchar('\n');
    }
}

static void bench(struct al_unwind *u, const struct stop *s, long count) {
    struct al_unwind_stack stack;
    int64_t start = al_thread_cpu_ns();
    for (long i = 0; i < count; i++)
        (void)al_unwind_thread(u, &s->in, &stack);
    double us = (double)(al_thread_cpu_ns() - start) / 1e3 / (double)count;
    printf("%ld times %u frames: %.3f us a stack, %.1f ns a frame\n", count, stack.count, us, us * 1e3 / stack.count);
}

// A line for each instruction that the thread takes: how its stack ends, and the functions.
static void follow(struct al_unwind *u, pid_t tid, struct stop *s, long steps) {
    struct al_unwind_stack stack;
    for (long i = 0; i < steps && stop_step(tid, s) && al_unwind_thread(u, &s->in, &stack) == 0; i++) {
        printf("step %s", states[stack.status]);
        for (uint32_t k = 0; k < stack.count; k++)
            printf("%c%s%s", k ? ';' : ' ', al_unwind_symbol(u, stack.frames[k].symbol)->name, stack.frames[k].guessed ? "?" : "");
        putchar('\n');
    }
}

static void look(struct al_unwind *u, pid_t pid, bool waiting, size_t copy, long count, long steps) {
    static struct stop stop;
    struct al_unwind_stack stack;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *d; tasks && (d = readdir(tasks));) {
        pid_t tid = (pid_t)atol(d->d_name);
        if (!tid || !stop_thread(tid, copy ? copy : STOP_STACK, &stop))
            continue;
        stop.in.stopped = !copy;
        if (waiting)
            stop_forget_registers(&stop);
        if (al_unwind_thread(u, &stop.in, &stack) == 0)
            print(u, tid, &stack);
        if (count)
            bench(u, &stop, count);
        follow(u, tid, &stop, steps);
        stop_release(tid);
        count = steps = 0;
    }
    if (tasks)
        closedir(tasks);
}

int main(int argc, char **argv) {
    struct al_unwind *u;
    struct al_unwind_error error;
    struct al_unwind_counts c;
    bool waiting = false, again = false;
    long count = 0, copy = 0, steps = 0;
    for (int i = 2; i < argc; i++) {
        waiting |= !strcmp(argv[i], "--waiting");
        again |= !strcmp(argv[i], "--twice");
        if (!strcmp(argv[i], "--bench") && i + 1 < argc)
            count = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--steps") && i + 1 < argc)
            steps = atol(argv[i + 1]);
        if (!strcmp(argv[i], "--copy") && i + 1 < argc)
            copy = atol(argv[i + 1]);
    }
    pid_t pid = argc > 1 ? (pid_t)atol(argv[1]) : 0;
    int64_t start = al_monotonic_ns();
    if (al_unwind_open(pid, NULL, &u, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    do {
        look(u, pid, waiting, (size_t)copy, count, steps);
        al_unwind_get_counts(u, &c);
        printf("%" PRIu64 " stacks, %" PRIu64 " frames, %" PRIu64 " rules, %" PRIu64 " symbols, %" PRIu64 " objects; %.1f ms in all\n",
               c.stacks, c.frames, c.rules, c.symbols, c.objects, (double)(al_monotonic_ns() - start) / 1e6);
        fflush(stdout);
    } while (again && getchar() != EOF);
    al_unwind_free(u);
    return 0;
}
