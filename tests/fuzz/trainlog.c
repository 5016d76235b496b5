// SPDX-License-Identifier: Apache-2.0
// Any bytes as lines of a trainer's log: no figure below 0 or infinite comes out, and time text is a time.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/trainlog.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool right) {
    if (!right)
        abort();
}

static void check_figure(double value) {
    check(isnan(value) || (isfinite(value) && value >= 0));
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_trainlog l;
    double seconds = 0;
    char *text = malloc(size + 1); // exactly as long, so that a byte too far is caught
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    al_trainlog_init(&l);
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(text + at, '\n', size - at);
        size_t len = newline ? (size_t)(newline - (text + at)) : size - at;
        char *line = malloc(len ? len : 1);
        if (!line)
            break;
        memcpy(line, text + at, len);
        al_trainlog_line(&l, line, len, size & 1);
        free(line);
        at += len + 1;
    }
    check(l.steps <= l.lines && l.damaged <= l.lines);
    check(l.step >= -1 && l.first_step >= -1 && l.steps_of_all >= -1);
    check_figure(l.steps_per_second);
    check_figure(l.elapsed_seconds);
    check_figure(l.remaining_seconds);
    check_figure(l.memory_gib);
    check(!isinf(l.loss));
    check_figure(l.train_runtime);
    check_figure(l.train_samples_per_second);
    check_figure(l.train_steps_per_second);
    if (al_trainlog_seconds(text, &seconds))
        check_figure(seconds);
    free(text);
    return 0;
}
