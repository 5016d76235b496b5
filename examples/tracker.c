// SPDX-License-Identifier: Apache-2.0
// Samples GPUs through libalula: one JSON line a sample and GPU, then the windows.
//   cc tracker.c $(pkg-config --cflags --libs alula) -o tracker
//   ./tracker [SAMPLES [MILLISECONDS [GPUS]]]        ./tracker 120 500 0,1
#include <alula/alula.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEVICES 128

static int fail(int error) {
    fprintf(stderr, "tracker: %s (%s)\n", alula_error_message(), alula_error_text(error));
    return 1;
}

static void pause_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void print_window(alula_tracker *t, unsigned device, const char *name, enum alula_metric metric) {
    struct alula_window w = {.size = sizeof w};
    double p95;
    int error = alula_tracker_window(t, device, metric, &w);
    if (!error)
        error = alula_tracker_quantile(t, device, metric, 0.95, &p95);
    if (error)
        printf("%s %s: %s\n", alula_tracker_device_uuid(t, device), name, alula_error_message());
    else
        printf("%s %s: %u readings, mean %.2f, peak %.2f, min %.2f, deviation %.2f, p95 %.2f, slope %.4f/s\n",
               alula_tracker_device_uuid(t, device), name, w.count, w.mean, w.peak, w.min, w.deviation, p95,
               w.slope_per_second);
}

int main(int argc, char **argv) {
    int samples = argc > 1 ? atoi(argv[1]) : 10;
    long ms = argc > 2 ? atol(argv[2]) : 500;
    static struct alula_sample s[DEVICES];
    alula_tracker *t;
    int error = alula_tracker_new_list(argc > 3 ? argv[3] : NULL, 120, &t);
    if (error < 0)
        return fail(error);
    s[0].size = sizeof s[0];
    for (int i = 0; i < samples; i++) {
        char json[512];
        int count = alula_tracker_sample_all(t, s, DEVICES);
        if (count < 0) {
            alula_tracker_free(t);
            return fail(count);
        }
        for (int g = 0; g < count; g++)
            if (alula_sample_json(&s[g], json, sizeof json) > 0)
                puts(json);
        if (i + 1 < samples)
            pause_ms(ms);
    }
    for (unsigned g = 0; g < alula_tracker_device_count(t); g++) {
        print_window(t, g, "utilisation %", ALULA_GPU_UTIL_PERCENT);
        print_window(t, g, "memory GB", ALULA_MEM_USED_GB);
    }
    alula_tracker_free(t);
    return 0;
}
