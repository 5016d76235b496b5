// SPDX-License-Identifier: Apache-2.0
// many-tool ROUNDS PID...: one monitor for many processes. Prints how many it opened, the frames of the last round, the
// CPU time of a round in microseconds and the memory that it took in KiB.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "stack/stack.h"

// Peak of this program alone (getrusage counts what it was before exec, too).
static long peak_kib(void) {
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = atol(line + 6);
    if (f)
        fclose(f);
    return kib;
}

int main(int argc, char **argv) {
    struct al_stack **all = calloc((size_t)argc, sizeof *all);
    struct al_stack_error e;
    size_t count = 0, frames = 0;
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    for (int i = 2; all && i < argc; i++) {
        if (al_stack_open(atoi(argv[i]), NULL, &all[count], &e))
            fprintf(stderr, "%s\n", e.text);
        else
            count++;
    }
    int64_t start = al_thread_cpu_ns();
    for (long round = 0; round < rounds; round++) {
        frames = 0;
        for (size_t i = 0; i < count; i++) {
            const struct al_stack_sample *sample;
            if (al_stack_sample(all[i], AL_STACK_STATE | AL_STACK_NAMES, &sample) == 0)
                for (size_t k = 0; k < sample->count; k++)
                    frames += sample->threads[k].count;
        }
        usleep(10000);
    }
    double us = (double)(al_thread_cpu_ns() - start) / 1000.0 / (double)rounds;
    printf("%zu %zu %.1f %ld\n", count, frames, us, peak_kib());
    for (size_t i = 0; i < count; i++)
        al_stack_free(all[i]);
    free(all);
    return 0;
}
