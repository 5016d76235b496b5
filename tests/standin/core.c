// SPDX-License-Identifier: Apache-2.0
// Loading the scenario, its time, initialisation, the lock, and what every call checks first.
//
// ALULA_SCENARIO           the scenario's file; without it there is no driver
// ALULA_SCENARIO_SPEED     scenario seconds a real second (1); 0 stops time at the start
// ALULA_SCENARIO_START     scenario time of the first nvmlInit, e.g. 12.5s (0s)
// ALULA_SCENARIO_EPOCH_NS  CLOCK_MONOTONIC of that start, so that several processes see the same moment
#include "standin.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "base/units.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct al_scenario *scenario;
static char broken[512]; // why there is none
static int initialised;
static double speed = 1;
static int64_t start_ns, epoch_ns, real_offset_ns; // offset: CLOCK_REALTIME from CLOCK_MONOTONIC
static bool epoch_known;
static struct nvml_device devices[AL_GPU_MAX];
static uint32_t boards[AL_GPU_MAX], board_count;

static void load(const char *path) {
    char *text = NULL;
    size_t len = 0;
    struct al_scenario_error where = {0};
    int error = al_fs_slurp(path, (64u << 20) + 1, &text, &len);
    if (!error)
        error = al_scenario_parse(text, len, &scenario, &where);
    if (error && where.line)
        snprintf(broken, sizeof broken, "%.200s:%d:%d: %s", path, where.line, where.column, where.message);
    else if (error)
        snprintf(broken, sizeof broken, "%.200s: %s", path, al_error_text(error));
    free(text);
}

static void read_time(void) {
    const char *text = getenv("ALULA_SCENARIO_SPEED");
    if (text && (!al_str_double(text, &speed) || !(speed >= 0) || speed > 1e6))
        snprintf(broken, sizeof broken, "ALULA_SCENARIO_SPEED is no number from 0 to 1000000");
    double seconds = 0;
    text = getenv("ALULA_SCENARIO_START");
    if (text && !al_str_double(text, &seconds) && al_unit_parse(text, AL_UNIT_SECONDS, &seconds) != 0)
        snprintf(broken, sizeof broken, "ALULA_SCENARIO_START is no time; write 12.5s");
    start_ns = llround(seconds * 1e9);
    text = getenv("ALULA_SCENARIO_EPOCH_NS");
    epoch_known = text && al_str_i64(text, &epoch_ns);
}

static bool hidden(const char *name, void *user) {
    return al_scenario_missing(user, name);
}

// 580.159 answers "uninitialized" in the child of a fork.
static void in_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    initialised = 0;
}

__attribute__((constructor)) static void at_load(void) {
    const char *path = getenv("ALULA_SCENARIO");
    for (uint32_t i = 0; i < AL_GPU_MAX; i++)
        devices[i].gpu = i;
    if (!path || !*path)
        return;
    load(path);
    read_time();
    real_offset_ns = al_realtime_ns() - al_monotonic_ns();
    if (scenario)
        standin_hide_symbols(hidden, scenario);
    pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void at_unload(void) {
    scenario = al_scenario_free(scenario);
}

int64_t standin_now(void) {
    return start_ns + (int64_t)((double)(al_monotonic_ns() - epoch_ns) * speed);
}

// One fixed line between the two clocks: a sample must have the same stamp whenever it is asked for.
uint64_t standin_real_us(int64_t at_ns) {
    double since = (double)(at_ns - start_ns) / (speed > 0 ? speed : 1);
    return (uint64_t)((epoch_ns + real_offset_ns + (int64_t)since) / 1000);
}

int64_t standin_scenario_ns(uint64_t real_us) {
    if (real_us == 0)
        return -1;
    double since = ((double)real_us * 1000 - (double)(epoch_ns + real_offset_ns)) * (speed > 0 ? speed : 1);
    double at = (double)start_ns + since;
    return at < -1e18 ? INT64_MIN / 2 : at > 1e18 ? INT64_MAX / 2 : (int64_t)at;
}

struct nvml_device *standin_handle(uint32_t gpu) {
    return &devices[gpu];
}

uint32_t standin_boards(const uint32_t **ret_gpus) {
    *ret_gpus = boards;
    return board_count;
}

const struct al_gpu_info *standin_info(const struct call *c) {
    return al_scenario_gpu_info(c->s, c->gpu);
}

uint32_t standin_children(const struct call *c, uint32_t board, uint32_t nth) {
    for (uint32_t g = 0; g < al_scenario_gpu_count(c->s); g++)
        if (al_scenario_gpu_info(c->s, g)->parent == (int32_t)board && nth-- == 0)
            return g;
    return UINT32_MAX;
}

static void sleep_scenario_ns(int64_t ns) {
    double real = speed > 0 ? (double)ns / speed : (double)ns;
    struct timespec t = {(time_t)(real / 1e9), (long)fmod(real, 1e9)};
    while (nanosleep(&t, &t) != 0)
        continue;
}

// The scenario's fault or hang; called and returning with the lock held, which a hanging call does not keep.
static int disturb(struct call *c, const char *function, int gpu) {
    int code;
    int64_t hang;
    al_scenario_fault(scenario, function, gpu, c->at_ns, &code, &hang);
    if (hang > 0) {
        pthread_mutex_unlock(&lock);
        sleep_scenario_ns(hang);
        pthread_mutex_lock(&lock);
        c->at_ns = standin_now();
    }
    return code;
}

// What clients cost here, for measurements: written at exit to the file that ALULA_STANDIN_STATS names. Under the lock.
static struct {
    uint64_t calls;
    int64_t began_ns, total_ns;
} stats;

static void count_call(void) {
    pthread_mutex_lock(&lock);
    stats.calls++;
    stats.began_ns = al_monotonic_ns();
}

__attribute__((destructor)) static void write_stats(void) {
    const char *path = getenv("ALULA_STANDIN_STATS");
    FILE *out = path && stats.calls ? fopen(path, "we") : NULL;
    if (!out)
        return;
    fprintf(out, "{\"calls\": %llu, \"seconds\": %lld.%09lld}\n", (unsigned long long)stats.calls,
            (long long)(stats.total_ns / AL_NS_PER_S), (long long)(stats.total_ns % AL_NS_PER_S));
    (void)fclose(out);
}

int standin_end(int result) {
    stats.total_ns += al_monotonic_ns() - stats.began_ns;
    pthread_mutex_unlock(&lock);
    return result;
}

int standin_begin_system(struct call *c, const char *function) {
    count_call();
    if (!initialised)
        return standin_end(AL_NVML_ERROR_UNINITIALIZED);
    *c = (struct call){scenario, standin_now(), UINT32_MAX};
    int result = disturb(c, function, -1);
    return result ? standin_end(result) : OK;
}

int standin_begin(struct call *c, const char *function, const struct nvml_device *d) {
    count_call();
    if (!initialised)
        return standin_end(AL_NVML_ERROR_UNINITIALIZED);
    if (d < devices || d >= devices + al_scenario_gpu_count(scenario))
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    *c = (struct call){scenario, standin_now(), d->gpu};
    int result = disturb(c, function, (int)d->gpu);
    if (!result)
        result = standin_result(al_scenario_gpu_status(scenario, d->gpu, c->at_ns, NULL));
    return result ? standin_end(result) : OK;
}

// The driver looks for boards when it is initialised; those that fell off the bus are not among them.
static void enumerate(int64_t at_ns) {
    board_count = 0;
    for (uint32_t p = 0; p < al_scenario_gpu_count(scenario); p++) {
        uint32_t gpu = al_scenario_gpu_at(scenario, p, at_ns);
        bool gone = false;
        al_scenario_gpu_status(scenario, gpu, at_ns, &gone);
        if (!gone && !al_scenario_gpu_info(scenario, gpu)->is_mig)
            boards[board_count++] = gpu;
    }
}

static int init(void) {
    struct call c = {0};
    count_call();
    if (broken[0]) {
        fprintf(stderr, "libnvidia-ml (alula's stand-in): %s\n", broken);
        return standin_end(AL_NVML_ERROR_UNKNOWN);
    }
    if (!scenario)
        return standin_end(AL_NVML_ERROR_DRIVER_NOT_LOADED);
    if (!epoch_known) {
        epoch_ns = al_monotonic_ns();
        epoch_known = true;
    }
    c.at_ns = standin_now();
    int result = disturb(&c, "nvmlInit_v2", -1);
    if (result)
        return standin_end(result);
    if (initialised++ == 0)
        enumerate(c.at_ns);
    return standin_end(OK);
}

int nvmlInit_v2(void) {
    return init();
}

int nvmlInit(void) {
    return init();
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return init();
}

int nvmlShutdown(void) {
    struct call c;
    int result = standin_begin_system(&c, "nvmlShutdown");
    if (result)
        return result;
    initialised--;
    return standin_end(OK);
}

int standin_result(uint32_t status) {
    static const int results[AL_STATUS_COUNT] = {
        [AL_STATUS_UNREAD] = AL_NVML_ERROR_NOT_SUPPORTED, [AL_STATUS_OK] = OK,
        [AL_STATUS_UNSUPPORTED] = AL_NVML_ERROR_NOT_SUPPORTED, [AL_STATUS_DENIED] = AL_NVML_ERROR_NO_PERMISSION,
        [AL_STATUS_STALE] = OK, [AL_STATUS_LOST] = AL_NVML_ERROR_GPU_IS_LOST,
        [AL_STATUS_RESET] = AL_NVML_ERROR_RESET_REQUIRED, [AL_STATUS_MISSING] = AL_NVML_ERROR_FUNCTION_NOT_FOUND,
        [AL_STATUS_DEPRECATED] = AL_NVML_ERROR_DEPRECATED, [AL_STATUS_TIMEOUT] = AL_NVML_ERROR_TIMEOUT,
        [AL_STATUS_ERROR] = AL_NVML_ERROR_UNKNOWN};
    return status < AL_STATUS_COUNT ? results[status] : AL_NVML_ERROR_UNKNOWN;
}

struct al_value standin_value(const struct call *c, enum al_gpu_metric metric) {
    return al_scenario_value(c->s, c->gpu, metric, c->at_ns);
}

int standin_number(const struct call *c, enum al_gpu_metric metric, double scale, uint64_t *ret) {
    struct al_value v = standin_value(c, metric);
    int result = standin_result(v.status);
    double scaled = floor(v.num * scale + 0.5);
    if (!result)
        *ret = scaled <= 0 ? 0 : scaled >= 1.8e19 ? UINT64_MAX : (uint64_t)scaled;
    return result;
}

int standin_u32(const struct call *c, enum al_gpu_metric metric, double scale, unsigned *ret) {
    uint64_t wide = 0;
    int result = ret ? standin_number(c, metric, scale, &wide) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        *ret = wide > UINT32_MAX ? UINT32_MAX : (unsigned)wide;
    return result;
}

int standin_attr_u32(const struct call *c, enum al_attr attr, unsigned *ret) {
    struct al_attr_value v;
    if (!ret)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    al_scenario_gpu_attr(c->s, c->gpu, attr, c->at_ns, &v);
    int result = standin_result(v.status);
    if (!result)
        *ret = v.num > 0 && v.num <= UINT32_MAX ? (unsigned)v.num : 0;
    return result;
}

int standin_text(char *out, unsigned size, const char *text) {
    if (!out)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) + 1 > size)
        return AL_NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

int standin_attr_text(const struct call *c, enum al_attr attr, char *out, unsigned size) {
    struct al_attr_value v;
    al_scenario_gpu_attr(c->s, c->gpu, attr, c->at_ns, &v);
    int result = standin_result(v.status);
    return result ? result : standin_text(out, size, v.text);
}

int standin_metric_call(const char *function, struct nvml_device *d, enum al_gpu_metric metric, double scale,
                        unsigned *out) {
    struct call c;
    int result = standin_begin(&c, function, d);
    return result ? result : standin_end(standin_u32(&c, metric, scale, out));
}

int standin_attr_call(const char *function, struct nvml_device *d, enum al_attr attr, unsigned *out) {
    struct call c;
    int result = standin_begin(&c, function, d);
    return result ? result : standin_end(standin_attr_u32(&c, attr, out));
}

int standin_text_call(const char *function, struct nvml_device *d, enum al_attr attr, char *out, unsigned size) {
    struct call c;
    int result = standin_begin(&c, function, d);
    return result ? result : standin_end(standin_attr_text(&c, attr, out, size));
}
