// SPDX-License-Identifier: Apache-2.0
// Insides of the NVML backend, shared by its files and its tests. One thread calls it; stats and watch may be read from
// another.
#ifndef AL_DEVICE_NVML_BACKEND_H
#define AL_DEVICE_NVML_BACKEND_H

#include "device/device.h"
#include "device/nvml_abi.h"

#define AL_NVML_LINK_MAX AL_NVML_NVLINK_MAX_LINKS
#define AL_NVML_ROWS_MAX 96 // rows of one table of readings
#define AL_NVML_GPM_COUNT 16

struct al_nvml_cost {
    _Atomic uint64_t calls, errors;
    _Atomic int64_t total_ns, min_ns, max_ns;
};

// What is remembered of one table row of a GPU: a constant, or that the driver has no answer (asked again at until_ns).
struct al_nvml_kept {
    double num;
    int64_t until_ns;
    uint32_t status; // UNREAD: nothing kept
};

// A process of the last listing: its name and utilisation, which the driver does not tell every time.
struct al_nvml_proc {
    uint32_t pid;
    char name[256]; // what nvidia-smi asks for too: a whole path
    struct al_value util[6]; // sm memory encoder decoder jpeg ofa
};

struct al_nvml_gpu {
    struct al_gpu_info info; // parent: position in al_nvml.gpus
    struct nvml_device *handle;
    bool present;  // in the last enumeration
    bool selected;
    struct al_nvml_kept readings[AL_NVML_ROWS_MAX], fields[AL_NVML_ROWS_MAX], structs[16];
    uint64_t last_sample_us, last_procutil_us; // of the driver's clock (CLOCK_REALTIME), handed out so far
    struct al_value mean;                      // last UTIL_MEAN
    uint64_t links;                            // NVLink links that exist, bit by bit
    bool links_known;
    struct nvml_gpm_sample *gpm[2]; // [0] the older; never read before it was filled: the driver would crash
    int64_t gpm_ns;                 // when gpm[0] was taken; 0: empty
    uint32_t gpm_status;            // UNREAD until asked
    struct al_value gpm_last[AL_NVML_GPM_COUNT];
    struct al_xid xid[AL_XID_CODES];
    uint32_t xid_count, xid_status; // UNREAD: not registered
    uint64_t xid_total;
    struct al_nvml_proc *procs; // of the last listing, by pid
    uint32_t proc_count, proc_cap;
};

struct al_nvml {
    struct al_device base;
    union nvml_api api;
    void *library;
    char *filter;
    int64_t (*monotonic)(void), (*realtime)(void); // ns; tests turn them
    bool initialised;
    bool lost_driver; // the driver said that it is not initialised: initialise anew
    int64_t tick_ns, tick_mono_ns;                 // caller's time of this sample, and the clock's
    int64_t call_start_ns, call_end_ns;
    int last_result;
    uint32_t answers_ok, answers_lost, answers_reset; // of the device being sampled
    struct al_nvml_cost cost[NVML_FN_COUNT];

    struct al_nvml_gpu *gpus[AL_GPU_MAX]; // ever seen; a MIG device is dropped when it is destroyed
    struct al_nvml_gpu *order[AL_GPU_MAX], *shown[AL_GPU_MAX];
    uint32_t gpu_count, order_count, shown_count;
    int64_t discover_ns, retry_wait_ns; // next enumeration; back-off while something is lost (0: nothing is)
    int64_t anew_ns;                    // last initialised anew
    char driver_version[40], nvml_version[40], cuda_version[16];

    struct nvml_event_set *events;
    uint32_t events_status; // UNREAD: not made yet
    struct nvml_gpm_metrics gpm; // too big for the stack
    struct nvml_sample *samples;
    uint32_t sample_cap;
    void *list; // process list as the driver fills it
    uint32_t list_cap;
    struct nvml_process_util *utils;
    struct nvml_process_sample *utils_old;
    uint32_t util_cap, util_old_cap;
    struct al_nvml_proc *spare; // swapped with a GPU's procs
    uint32_t spare_cap;
};

// Every call goes through this: NVML(n, nvmlDeviceGetName, (handle, text, size)). A missing function answers as the
// driver does for one that it lacks.
#define NVML(n, function, args)                                                                                        \
    ((n)->api.function ? (al_nvml_begin((n), NVML_FN_##function),                                                      \
                          al_nvml_end((n), NVML_FN_##function, (n)->api.function args))                                \
                       : (int)AL_NVML_ERROR_FUNCTION_NOT_FOUND)

// nvml_call.c
const char *al_nvml_function_name(enum al_nvml_fn fn);
void al_nvml_begin(struct al_nvml *n, enum al_nvml_fn fn);
int al_nvml_end(struct al_nvml *n, enum al_nvml_fn fn, int result);
enum al_status al_nvml_status(int result);
const char *al_nvml_result_text(int result);
int64_t al_nvml_now(const struct al_nvml *n); // the caller's clock at the end of the last call
size_t al_nvml_stats(struct al_device *d, struct al_call_stat *ret, size_t max);
bool al_nvml_blank(uint64_t value, bool wide); // sentinels that stand for "no value"
bool al_nvml_no_answer(uint32_t status);       // unsupported, missing or withdrawn: will not change soon
// A number with the plausibility limits of the metric's unit; what cannot be is an ERROR.
// raw in the driver's unit times `scale` (1e6, 0.01, 1e-3 ...), exact to the last digit that the driver gave: 77841 mW are
// 77.841 W, which multiplying by 1e-3 does not give.
static inline double al_nvml_scaled(double raw, double scale) {
    return scale < 1 ? raw / (double)(int64_t)(1 / scale + 0.5) : raw * scale;
}
struct al_value al_nvml_value(const struct al_nvml *n, enum al_gpu_metric metric, int result, double num);
// Grows *array to hold `want` elements; keeps the old content.
int al_nvml_grow(void **array, uint32_t *cap, uint32_t want, size_t element);

// nvml_open.c: a backend over functions that are already there (tests); initialises NVML. `n->api` must be filled.
struct al_nvml *al_nvml_new(void);
int al_nvml_start(struct al_nvml *n, const char *gpus, struct al_device_error *reterr_error);
int al_nvml_init(struct al_nvml *n);
void al_nvml_shutdown(struct al_nvml *n); // also gives back what NVML holds for each GPU

// nvml_discover.c
int al_nvml_discover(struct al_nvml *n);
void al_nvml_mark_lost(struct al_nvml *n, struct al_nvml_gpu *g, enum al_status status);
void al_nvml_maintain(struct al_nvml *n); // enumerates or initialises anew when it is time
void al_nvml_gpu_release(struct al_nvml *n, struct al_nvml_gpu *g);

// nvml_sample.c, nvml_fields.c, nvml_util.c, nvml_proc.c, nvml_xid.c: one group each
int al_nvml_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns);
void al_nvml_read_fields(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out, uint32_t group);
void al_nvml_read_links(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out);
double al_nvml_union_number(const union nvml_value *v, int type, bool *ret_valid);
void al_nvml_drain(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out);
void al_nvml_read_gpm(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out);
void al_nvml_read_processes(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t position,
                            bool utilisation);
void al_nvml_read_xid(struct al_nvml *n); // once a tick for all GPUs
void al_nvml_put_xid(struct al_nvml *n, struct al_nvml_gpu *g, struct al_gpu *out);

// nvml_attr.c
int al_nvml_attr(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret);

#endif
