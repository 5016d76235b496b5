// SPDX-License-Identifier: Apache-2.0
#include "lib/tracker.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "collect/collect.h"
#include "device/device.h"
#include "export/compat.h"
#include "model/select.h"
#include "series/window.h"

#define TIMEOUT_NS (5 * AL_NS_PER_S)
#define WINDOW_MIN 2
#define WINDOW_MAX 1000000
#define METRICS 5
// Sizes of the first version of each struct: what the oldest caller can pass.
#define SAMPLE_SIZE_1 104
#define WINDOW_SIZE_1 80
_Static_assert(sizeof(struct alula_sample) >= SAMPLE_SIZE_1 && sizeof(struct alula_window) >= WINDOW_SIZE_1,
               "public structs only grow");

struct tracked {
    char uuid[AL_UUID_MAX], name[96];
    uint32_t index;
    struct al_window windows[METRICS];
};

struct alula_tracker {
    pthread_mutex_t lock;
    pid_t owner; // the driver's thread does not live on in a forked child
    struct al_device *device;
    struct al_clock clock;
    struct al_collect *collect;
    unsigned count;
    struct tracked *gpus;
};

// --- making and freeing ---

static int add_tracked(alula_tracker *t, const struct al_gpu *gpu, unsigned window_size) {
    struct tracked *g = &t->gpus[t->count];
    (void)al_str_copy(g->uuid, sizeof g->uuid, gpu->info.uuid);
    (void)al_str_copy(g->name, sizeof g->name, gpu->info.name);
    g->index = gpu->info.index;
    t->count++;
    for (int m = 0; m < METRICS; m++) {
        int result = al_window_init(&g->windows[m], 0, window_size);
        if (result)
            return result;
    }
    return 0;
}

// The first look says which GPUs there are; nothing of it goes into a window.
static int look_around(alula_tracker *t, const char *gpus, unsigned window_size) {
    const struct al_snapshot *s;
    int result = al_collect_once(t->collect, 0, TIMEOUT_NS, &s);
    if (result)
        return al_lib_fail(result, "%s%s%s", al_error_text(result), *s->hung_call ? ": " : "", s->hung_call);
    if (!s->gpu_count)
        return gpus ? al_lib_fail(AL_E_NOENT, "no such GPU: %s", gpus) : al_lib_fail(AL_E_NOGPU, "no GPU found");
    t->gpus = calloc(s->gpu_count, sizeof *t->gpus);
    if (!t->gpus)
        return al_lib_fail(AL_E_NOMEM, "%s", al_error_text(AL_E_NOMEM));
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        result = add_tracked(t, &s->gpus[i], window_size);
        if (result)
            return al_lib_fail(result, "no memory for windows of %u readings", window_size);
    }
    return 0;
}

int al_lib_tracker_open(struct al_device *device, const struct al_clock *clock, const char *gpus, unsigned window_size,
                        alula_tracker **ret) {
    alula_tracker *t = calloc(1, sizeof *t);
    if (!t) {
        al_device_free(device);
        return al_lib_fail(AL_E_NOMEM, "%s", al_error_text(AL_E_NOMEM));
    }
    t->device = device;
    t->clock = *clock;
    t->owner = getpid();
    (void)pthread_mutex_init(&t->lock, NULL);
    const struct al_collect_options options = {.device = device, .clock = &t->clock, .groups = AL_GROUP_FAST,
                                               .interval_ns = 500 * AL_NS_PER_MS,
                                               .inline_device = clock->virtual_time};
    int result = al_collect_new(&options, &t->collect);
    if (result)
        (void)al_lib_fail(result, "%s", al_error_text(result));
    else
        result = look_around(t, gpus, window_size);
    if (result) {
        alula_tracker_free(t);
        return result;
    }
    *ret = t;
    return 0;
}

int alula_tracker_new_list(const char *gpus, unsigned window_size, alula_tracker **ret) {
    const struct al_nvml_options options = {.gpus = gpus};
    struct al_device_error e = {{0}};
    struct al_device *device = NULL;
    struct al_clock clock;
    char item[AL_UUID_MAX];
    if (!ret || window_size < WINDOW_MIN || window_size > WINDOW_MAX)
        return al_lib_fail(AL_E_INVALID, "window_size must lie between %d and %d", WINDOW_MIN, WINDOW_MAX);
    if (gpus && (!*gpus || al_gpu_select_check(gpus, item, sizeof item) < 0))
        return al_lib_fail(AL_E_INVALID, "expected indices, UUIDs or PCI ids separated by commas, not \"%s\"", gpus);
    int result = al_nvml_open(&options, &device, &e);
    if (result)
        return al_lib_fail(result, "%s", *e.message ? e.message : al_error_text(result));
    al_clock_real(&clock);
    return al_lib_tracker_open(device, &clock, gpus, window_size, ret);
}

int alula_tracker_new(unsigned device_index, unsigned window_size, alula_tracker **ret) {
    char gpus[16];
    (void)snprintf(gpus, sizeof gpus, "%u", device_index);
    return alula_tracker_new_list(gpus, window_size, ret);
}

alula_tracker *alula_tracker_free(alula_tracker *t) {
    if (!t)
        return NULL;
    // In a forked child there is no driver thread to end; while a call hangs, the thread keeps what it uses.
    bool ours = t->owner == getpid() && !(t->collect && al_collect_stop(t->collect) == AL_E_TIMEOUT);
    if (ours) {
        t->collect = al_collect_free(t->collect);
        t->device = al_device_free(t->device);
    }
    for (unsigned i = 0; i < t->count; i++)
        for (int m = 0; m < METRICS; m++)
            al_window_done(&t->gpus[i].windows[m]);
    free(t->gpus);
    if (ours) {
        (void)pthread_mutex_destroy(&t->lock);
        free(t);
    }
    return NULL;
}

unsigned alula_tracker_device_count(const alula_tracker *t) {
    return t ? t->count : 0;
}

const char *alula_tracker_device_uuid(const alula_tracker *t, unsigned device) {
    return t && device < t->count ? t->gpus[device].uuid : NULL;
}

const char *alula_tracker_device_name(const alula_tracker *t, unsigned device) {
    return t && device < t->count ? t->gpus[device].name : NULL;
}

// --- sampling ---

static double number(struct al_value v) {
    return al_ok(v) ? v.num : (double)NAN;
}

static void fill(struct alula_sample *ret, const struct al_snapshot *s, uint32_t position) {
    const struct al_gpu *gpu = &s->gpus[position];
    struct al_value util = gpu->m[AL_GPU_UTIL], used = gpu->m[AL_GPU_MEM_USED], total = gpu->m[AL_GPU_MEM_TOTAL];
    struct al_compat c;
    al_compat_fill(&c, s, position);
    *ret = (struct alula_sample){
        .gpu_id = c.gpu_id,
        .timestamp = c.timestamp,
        .gpu_util_percent = c.gpu_util_percent,
        .mem_used_gb = c.mem_used_gb,
        .mem_total_gb = c.mem_total_gb,
        .mem_usage_ratio = c.mem_usage_ratio,
        .pytorch_allocated_gb = c.pytorch_allocated_gb,
        .pytorch_reserved_gb = c.pytorch_reserved_gb,
        .power_watts = number(gpu->m[AL_GPU_POWER]),
        .temperature_celsius = number(gpu->m[AL_GPU_TEMP]),
        .util_status = al_ok(util) || !isfinite(c.gpu_util_percent) ? util.status : AL_STATUS_OK,
        .memory_status = al_ok(used) ? total.status : used.status,
        .pytorch_status = AL_STATUS_UNSUPPORTED,
        .power_status = gpu->m[AL_GPU_POWER].status,
        .temperature_status = gpu->m[AL_GPU_TEMP].status,
    };
}

static void fill_lost(struct alula_sample *ret, const struct al_snapshot *s, const struct tracked *g) {
    double none = (double)NAN;
    *ret = (struct alula_sample){
        .gpu_id = g->index,
        .timestamp = (double)s->realtime_ns / AL_NS_PER_S,
        .gpu_util_percent = none,
        .mem_used_gb = none,
        .mem_total_gb = none,
        .mem_usage_ratio = none,
        .pytorch_allocated_gb = none,
        .pytorch_reserved_gb = none,
        .power_watts = none,
        .temperature_celsius = none,
        .util_status = AL_STATUS_LOST,
        .memory_status = AL_STATUS_LOST,
        .pytorch_status = AL_STATUS_UNSUPPORTED,
        .power_status = AL_STATUS_LOST,
        .temperature_status = AL_STATUS_LOST,
    };
}

// Readings go in under the time that the driver or the call gave them, so that one read twice is not counted twice.
static void push(struct tracked *g, const struct al_gpu *gpu, const struct alula_sample *sample) {
    struct al_value util = al_ok(gpu->m[AL_GPU_UTIL]) ? gpu->m[AL_GPU_UTIL] : gpu->m[AL_GPU_UTIL_MEAN];
    int64_t memory_ns = gpu->m[AL_GPU_MEM_USED].at_ns;
    const struct { double value; int64_t at_ns; } readings[METRICS] = {
        [ALULA_GPU_UTIL_PERCENT] = {sample->gpu_util_percent, util.at_ns},
        [ALULA_MEM_USED_GB] = {sample->mem_used_gb, memory_ns},
        [ALULA_MEM_USAGE_RATIO] = {sample->mem_usage_ratio, memory_ns},
        [ALULA_POWER_WATTS] = {sample->power_watts, gpu->m[AL_GPU_POWER].at_ns},
        [ALULA_TEMPERATURE_CELSIUS] = {sample->temperature_celsius, gpu->m[AL_GPU_TEMP].at_ns},
    };
    for (int m = 0; m < METRICS; m++)
        if (isfinite(readings[m].value))
            (void)al_window_push(&g->windows[m], readings[m].at_ns, readings[m].value);
}

// By UUID; a GPU that was lost from the start has told only its index.
static const struct al_gpu *find_gpu(const struct al_snapshot *s, const struct tracked *g) {
    if (g->uuid[0])
        return al_snapshot_gpu(s, g->uuid);
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (!s->gpus[i].info.is_mig && s->gpus[i].info.index == g->index)
            return &s->gpus[i];
    return NULL;
}

static void sample_one(struct tracked *g, const struct al_snapshot *s, struct alula_sample *ret) {
    const struct al_gpu *gpu = find_gpu(s, g);
    if (!gpu || gpu->info.status == AL_STATUS_LOST) {
        fill_lost(ret, s, g);
        return;
    }
    fill(ret, s, (uint32_t)(gpu - s->gpus));
    push(g, gpu, ret);
}

// Called with the lock held.
static int sample_locked(alula_tracker *t, struct alula_sample *ret, unsigned capacity) {
    const struct al_snapshot *s;
    uint32_t size = ret->size;
    if (t->owner != getpid())
        return al_lib_fail(AL_E_INVALID, "the tracker was made before fork(): make one in the child");
    int result = al_collect_once(t->collect, 0, TIMEOUT_NS, &s);
    if (result)
        return al_lib_fail(result, "%s%s%s", al_error_text(result), *s->hung_call ? ": " : "", s->hung_call);
    for (unsigned i = 0; i < t->count; i++) {
        struct alula_sample sample;
        sample_one(&t->gpus[i], s, &sample);
        sample.size = size;
        if (i < capacity)
            memcpy((char *)ret + (size_t)i * size, &sample, size < sizeof sample ? size : sizeof sample);
    }
    return (int)(t->count < capacity ? t->count : capacity);
}

int alula_tracker_sample_all(alula_tracker *t, struct alula_sample *ret, unsigned capacity) {
    if (!t || !ret || !capacity || ret->size < SAMPLE_SIZE_1)
        return al_lib_fail(AL_E_INVALID, "alula_sample.size is not set, or an argument is missing");
    (void)pthread_mutex_lock(&t->lock);
    int result = sample_locked(t, ret, capacity);
    (void)pthread_mutex_unlock(&t->lock);
    return result;
}

int alula_tracker_sample(alula_tracker *t, struct alula_sample *ret) {
    int result = alula_tracker_sample_all(t, ret, 1);
    return result < 0 ? result : 0;
}

int alula_sample_json(const struct alula_sample *s, char *out, size_t size) {
    if (!s || s->size < SAMPLE_SIZE_1 || (!out && size))
        return al_lib_fail(AL_E_INVALID, "alula_sample.size is not set, or an argument is missing");
    const struct al_compat c = {s->timestamp, s->gpu_id, s->gpu_util_percent, s->mem_used_gb, s->mem_total_gb,
                                s->mem_usage_ratio, s->pytorch_allocated_gb, s->pytorch_reserved_gb};
    struct al_buf b = AL_BUF_INIT;
    al_compat_print(&b, &c);
    int len = b.failed ? AL_E_NOMEM : (int)b.len - 1; // without the newline
    if (len >= 0 && size)
        (void)al_str_copy_n(out, size, b.data, (size_t)len);
    al_buf_free(&b);
    return len < 0 ? al_lib_fail(len, "%s", al_error_text(len)) : len;
}

// --- windows ---

// NULL with the reason in *ret_error.
static const struct al_window *find_window(const alula_tracker *t, unsigned device, enum alula_metric metric,
                                           int *ret_error) {
    if (device >= t->count || (unsigned)metric >= METRICS) {
        *ret_error = al_lib_fail(AL_E_INVALID, "no device %u or no metric %u", device, (unsigned)metric);
        return NULL;
    }
    const struct al_window *w = &t->gpus[device].windows[metric];
    *ret_error = w->count ? 0 : al_lib_fail(AL_E_AGAIN, "no reading yet");
    return w->count ? w : NULL;
}

static void describe(const struct al_window *w, struct alula_window *ret) {
    struct al_slope slope;
    bool sloped = al_window_slope(w, INT64_MIN, &slope) == 0;
    double none = (double)NAN;
    *ret = (struct alula_window){
        .count = w->count,
        .seconds = al_window_seconds(w),
        .last = al_window_last(w)->value,
        .mean = al_window_mean(w),
        .peak = al_window_peak(w),
        .min = al_window_min(w),
        .deviation = al_window_deviation(w),
        .slope_per_second = sloped ? slope.per_second : none,
        .slope_low = sloped ? slope.low : none,
        .slope_high = sloped ? slope.high : none,
    };
}

int alula_tracker_window(alula_tracker *t, unsigned device, enum alula_metric metric, struct alula_window *ret) {
    struct alula_window window;
    if (!t || !ret || ret->size < WINDOW_SIZE_1)
        return al_lib_fail(AL_E_INVALID, "alula_window.size is not set, or an argument is missing");
    (void)pthread_mutex_lock(&t->lock);
    int result;
    const struct al_window *w = find_window(t, device, metric, &result);
    if (w) {
        describe(w, &window);
        window.size = ret->size;
        memcpy(ret, &window, ret->size < sizeof window ? ret->size : sizeof window);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return result;
}

int alula_tracker_quantile(alula_tracker *t, unsigned device, enum alula_metric metric, double q, double *ret) {
    if (!t || !ret || !(q >= 0 && q <= 1))
        return al_lib_fail(AL_E_INVALID, "q must lie between 0 and 1");
    (void)pthread_mutex_lock(&t->lock);
    int result;
    const struct al_window *w = find_window(t, device, metric, &result);
    if (w) {
        *ret = al_window_quantile(w, q);
        result = isfinite(*ret) ? 0 : al_lib_fail(AL_E_NOMEM, "%s", al_error_text(AL_E_NOMEM));
    }
    (void)pthread_mutex_unlock(&t->lock);
    return result;
}

int alula_tracker_history(alula_tracker *t, unsigned device, enum alula_metric metric, double *ret_times,
                          double *ret_values, unsigned capacity) {
    if (!t || !ret_values)
        return al_lib_fail(AL_E_INVALID, "an argument is missing");
    (void)pthread_mutex_lock(&t->lock);
    int result;
    const struct al_window *w = find_window(t, device, metric, &result);
    if (w) {
        uint32_t skip = w->count > capacity ? w->count - capacity : 0;
        double epoch = (double)(al_clock_realtime(&t->clock) - al_clock_now(&t->clock));
        for (uint32_t i = skip; i < w->count; i++) {
            const struct al_sample *sample = al_window_at(w, i);
            if (ret_times)
                ret_times[i - skip] = (epoch + (double)sample->at_ns) / AL_NS_PER_S;
            ret_values[i - skip] = sample->value;
        }
        result = (int)(w->count - skip);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return result;
}
