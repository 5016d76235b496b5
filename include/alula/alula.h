/* SPDX-License-Identifier: Apache-2.0 */
/* libalula: GPUs sampled and judged over a sliding window, in your own program. See libalula(3).
 *
 * Errors: functions return 0 (or a count) or a negative enum alula_error; alula_error_message() adds the detail of the
 * calling thread's last failure. The library never prints and never exits.
 * Threads: one tracker may be used from several threads, its calls take turns; nothing may run during
 * alula_tracker_free(). After fork() the child cannot use its parent's trackers (ALULA_E_INVALID); make them anew.
 * ABI: structs begin with their size, which the caller sets; they only grow at the end.
 */
#ifndef ALULA_ALULA_H
#define ALULA_ALULA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ALULA_API __attribute__((visibility("default")))
#else
#define ALULA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum alula_error {
    ALULA_E_NOMEM = -1,
    ALULA_E_INVALID = -2,
    ALULA_E_DENIED = -4,
    ALULA_E_NOENT = -5,      /* no such GPU */
    ALULA_E_NODRIVER = -9,
    ALULA_E_NOGPU = -10,
    ALULA_E_NOLIB = -11,     /* libnvidia-ml.so.1 was not found */
    ALULA_E_NOSYM = -12,
    ALULA_E_LOST = -13,
    ALULA_E_TIMEOUT = -14,   /* the driver did not answer within 5 s */
    ALULA_E_UNSUPPORTED = -15,
    ALULA_E_AGAIN = -16,     /* too few samples yet */
    ALULA_E_MISMATCH = -19
};

/* Why a value is not known (its number is then NaN). */
enum alula_status {
    ALULA_STATUS_UNREAD = 0,
    ALULA_STATUS_OK = 1,
    ALULA_STATUS_UNSUPPORTED = 2,
    ALULA_STATUS_DENIED = 3,
    ALULA_STATUS_STALE = 4,
    ALULA_STATUS_LOST = 5
    /* others may come; alula_status_text() knows them */
};

/* One reading of one GPU. gb is 1024^3 bytes. */
struct alula_sample {
    uint32_t size; /* set to sizeof(struct alula_sample) */
    uint32_t gpu_id; /* the driver's index */
    double timestamp; /* seconds since the epoch */
    double gpu_util_percent; /* the driver's last sample; where it has none, the mean of its buffered ones */
    double mem_used_gb; /* what contexts took; without the driver's own reserve where the driver tells it */
    double mem_total_gb;
    double mem_usage_ratio;
    double pytorch_allocated_gb; /* known only with torch in reach: otherwise NaN and UNSUPPORTED */
    double pytorch_reserved_gb;
    double power_watts;
    double temperature_celsius;
    uint32_t util_status, memory_status, pytorch_status, power_status, temperature_status; /* enum alula_status */
    uint32_t reserved; /* 0 */
};

/* What has a window. */
enum alula_metric {
    ALULA_GPU_UTIL_PERCENT = 0,
    ALULA_MEM_USED_GB = 1,
    ALULA_MEM_USAGE_RATIO = 2,
    ALULA_POWER_WATTS = 3,
    ALULA_TEMPERATURE_CELSIUS = 4
};

/* A metric over the last window_size readings. A reading that the driver gave twice is counted once. */
struct alula_window {
    uint32_t size;  /* set to sizeof(struct alula_window) */
    uint32_t count; /* readings in the window */
    double seconds; /* from its first to its last */
    double last, mean, peak, min;
    double deviation;                     /* of the population */
    double slope_per_second;              /* least squares; NaN with fewer than three readings */
    double slope_low, slope_high;         /* 95 % interval of it */
};

typedef struct alula_tracker alula_tracker;

ALULA_API const char *alula_version(void);
ALULA_API const char *alula_error_text(int error);     /* never NULL */
ALULA_API const char *alula_error_message(void);       /* of this thread's last failure; "" when there was none */
ALULA_API const char *alula_status_text(uint32_t status);

/* One GPU by the driver's index, as in GPUTracker(device_index=0, window_size=120). window_size is 2 to 1000000
 * readings. */
ALULA_API int alula_tracker_new(unsigned device_index, unsigned window_size, alula_tracker **ret);
/* Several: indices, UUIDs or PCI ids separated by commas; NULL takes all. They are numbered from 0 in the driver's
 * order. */
ALULA_API int alula_tracker_new_list(const char *gpus, unsigned window_size, alula_tracker **ret);
/* Accepts NULL; always returns NULL. */
ALULA_API alula_tracker *alula_tracker_free(alula_tracker *t);

ALULA_API unsigned alula_tracker_device_count(const alula_tracker *t);
ALULA_API const char *alula_tracker_device_uuid(const alula_tracker *t, unsigned device); /* NULL: no such device */
ALULA_API const char *alula_tracker_device_name(const alula_tracker *t, unsigned device);

/* Reads all GPUs of the tracker and hands out the first one's sample. A lost GPU gives a sample of NaN and LOST. */
ALULA_API int alula_tracker_sample(alula_tracker *t, struct alula_sample *ret);
/* Likewise, one sample a GPU, at most `capacity`; returns how many. ret[0].size tells the size of all of them. */
ALULA_API int alula_tracker_sample_all(alula_tracker *t, struct alula_sample *ret, unsigned capacity);

/* ALULA_E_AGAIN while the window holds no reading. */
ALULA_API int alula_tracker_window(alula_tracker *t, unsigned device, enum alula_metric metric,
                                   struct alula_window *ret);
/* q in 0..1, linear between neighbours. */
ALULA_API int alula_tracker_quantile(alula_tracker *t, unsigned device, enum alula_metric metric, double q,
                                     double *ret);
/* The newest readings, oldest first, at most `capacity`: times (seconds since the epoch; may be NULL) and values.
 * Returns how many. */
ALULA_API int alula_tracker_history(alula_tracker *t, unsigned device, enum alula_metric metric, double *ret_times,
                                    double *ret_values, unsigned capacity);

/* JSON of a sample on one line: timestamp, gpu_id, gpu_util_percent, mem_used_gb, mem_total_gb, mem_usage_ratio,
 * pytorch_allocated_gb, pytorch_reserved_gb; gb with 2 decimals, the ratio with 3, null for what is not known.
 * Returns the length without the NUL; when that is not below `size`, the text was cut. */
ALULA_API int alula_sample_json(const struct alula_sample *sample, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
