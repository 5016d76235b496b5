// SPDX-License-Identifier: Apache-2.0
// Every threshold, once: config path, C field, unit, default, bounds, help. config/ reads YAML into this struct.
#ifndef AL_DETECT_SETTINGS_H
#define AL_DETECT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

// X(section, key, unit, default in base unit, min, max, help). Unit BOOL is 0 or 1, written false or true.
#define AL_SETTINGS(X)                                                                                                 \
    X(sampling, interval, SECONDS, 0.5, 0.1, 3600, "time between two ticks")                                           \
    X(sampling, slow_interval, SECONDS, 2, 0.1, 3600, "time between two readings of the slow groups")                  \
    X(sampling, process_interval, SECONDS, 2, 0.1, 3600, "time between two readings of the processes' host side")      \
    X(sampling, window, SECONDS, 60, 1, 86400, "length of the sliding windows")                                        \
    X(sampling, timeout, SECONDS, 10, 0.1, 3600, "wait of a command that prints once for the driver")                  \
    X(findings, update_every, SECONDS, 10, 1, 3600, "least time between two updates of a finding whose level holds")   \
    X(findings, hold, SECONDS, 10, 0, 3600, "time for which a finding outlives the loss of its signal")                \
    X(inefficient, enabled, BOOL, 1, 0, 1, "judge running inefficiently and starved by input")                         \
    X(inefficient, utilization_below, RATIO, 0.20, 0, 1, "utilisation under which a tick counts")                      \
    X(inefficient, utilization_clear, RATIO, 0.30, 0, 1, "utilisation above which the finding ends")                   \
    X(inefficient, ticks, COUNT, 5, 1, 100000, "consecutive fresh ticks that must be low")                             \
    X(inefficient, tick, SECONDS, 0.5, 0.1, 3600, "length of a tick; shorter ones are pooled into it")                 \
    X(inefficient, warning_after, SECONDS, 10, 0, 86400, "time from which it is a warning; before, info")              \
    X(inefficient, startup, SECONDS, 60, 0, 86400, "no finding before first kernels, no warning before first load")    \
    X(inefficient, loading_above, BYTES_PER_SECOND, 33554432, 0, 1e15, "growth of GPU memory that is loading")         \
    X(inefficient, writing_above, BYTES_PER_SECOND, 52428800, 0, 1e15, "writes of the job that are a checkpoint")      \
    X(inefficient, clear_ticks, COUNT, 3, 1, 100000, "consecutive ticks above the clear limit that end it")            \
    X(inefficient, burst_ticks, COUNT, 30, 5, 120, "ticks whose mean is judged where the GPU works in bursts")         \
    X(inefficient, io_wait_above, RATIO, 0.05, 0, 1, "I/O wait of a process that makes it starved by input")           \
    X(inefficient, pressure_above, RATIO, 0.10, 0, 1, "I/O pressure of the node that backs blocked threads")           \
    X(stacks, enabled, BOOL, 1, 0, 1, "look at the Python stacks of processes whose GPU idles")                        \
    X(stacks, rate, PER_SECOND, 10, 1, 100, "samples a second of such a look")                                         \
    X(stacks, length, SECONDS, 3, 1, 60, "time that a look takes")                                                     \
    X(stacks, every, SECONDS, 30, 5, 3600, "time between the begin of two looks while the finding lasts")              \
    X(stacks, processes, COUNT, 64, 1, 256, "most processes that are looked at, DataLoader workers among them")        \
    X(stacks, share_above, RATIO, 0.25, 0.05, 1, "share of samples from which a line or kind is told")                 \
    X(memory, enabled, BOOL, 1, 0, 1, "judge memory about to run out")                                                 \
    X(memory, used_above, RATIO, 0.90, 0, 1, "used share above which rising memory is reported")                       \
    X(memory, model_size, COUNT, 0, 0, 10000, "model size in billions of parameters; 0: not known, used_above holds")  \
    X(memory, limit_7b, RATIO, 0.80, 0, 1, "limit with model_size up to 7; linear to the next row")                    \
    X(memory, limit_13b, RATIO, 0.82, 0, 1, "limit with model_size 13")                                                \
    X(memory, limit_32b, RATIO, 0.85, 0, 1, "limit with model_size 32")                                                \
    X(memory, limit_70b, RATIO, 0.90, 0, 1, "limit with model_size 70 and more")                                       \
    X(memory, window, SECONDS, 60, 2, 86400, "time over which the slope is taken")                                     \
    X(memory, slope_above, BYTES_PER_SECOND, 1048576, 0, 1e15, "smallest slope that counts as rising")                 \
    X(memory, rise_above, BYTES, 67108864, 0, 1e15, "smallest rise since the limit was crossed")                       \
    X(memory, full_within, SECONDS, 3600, 1, 864000, "report only when full within this time")                         \
    X(memory, critical_within, SECONDS, 300, 0, 864000, "full within this time is critical")                           \
    X(memory, critical_above, RATIO, 0.97, 0, 1, "rising above this share is critical")                                \
    X(memory, flat_after, SECONDS, 30, 1, 86400, "no further rise for this long ends it")                              \
    X(memory, been_here, RATIO, 0.005, 0, 1, "within this of a level that the job lived at: no warning")               \
    X(memory, clear_margin, RATIO, 0.02, 0, 1, "fall below the limit by this much ends it")                            \
    X(memory, engine_startup, SECONDS, 900, 0, 86400, "an inference engine younger than this still fills its pool")    \
    X(memory, baseline_after, SECONDS, 600, 10, 864000, "time after which a job's usual peak is learned")              \
    X(memory, baseline_margin, RATIO, 0.10, 0, 1, "rise over the learned peak that is reported")                       \
    X(uneven, enabled, BOOL, 1, 0, 1, "judge uneven GPUs of one job")                                                  \
    X(uneven, busy_above, RATIO, 0.95, 0, 1, "utilisation of the busy GPU")                                            \
    X(uneven, idle_below, RATIO, 0.30, 0, 1, "utilisation of all others")                                              \
    X(uneven, ticks, COUNT, 10, 1, 100000, "consecutive ticks")                                                        \
    X(uneven, spinning_below, RATIO, 0.50, 0, 1, "share of the power limit under which a busy GPU may only wait")      \
    X(throttled, enabled, BOOL, 1, 0, 1, "judge throttling")                                                           \
    X(throttled, share_above, RATIO, 0.20, 0, 1, "share of the window with a thermal or hardware slowdown")            \
    X(throttled, power_share_above, RATIO, 0.50, 0, 1, "share of the window at the power cap (level info)")            \
    X(throttled, ticks, COUNT, 10, 1, 100000, "ticks of the window")                                                   \
    X(throttled, busy_above, RATIO, 0.10, 0, 1, "utilisation under which throttling is only info")                     \
    X(link, enabled, BOOL, 1, 0, 1, "judge degraded links")                                                            \
    X(link, busy_above, RATIO, 0.10, 0, 1, "utilisation from which the PCIe link must be at its maximum")              \
    X(link, ticks, COUNT, 5, 1, 100000, "consecutive ticks")                                                           \
    X(link, replays_above, PER_SECOND, 1, 0, 1e9, "PCIe replays a second that are reported")                           \
    X(link, nvlink_errors_above, PER_SECOND, 1, 0, 1e9, "NVLink replays and CRC errors a second that are reported")    \
    X(hardware, enabled, BOOL, 1, 0, 1, "judge hardware errors: ECC, Xid, remapped rows")                              \
    X(hardware, after, SECONDS, 300, 0, 864000, "time for which an event stays open after it last came")               \
    X(hardware, corrected_above, PER_SECOND, 0.1, 0, 1e9, "corrected ECC errors a second that are reported (info)")    \
    X(orphan, enabled, BOOL, 1, 0, 1, "judge memory held with no living process")                                      \
    X(orphan, bytes_above, BYTES, 1073741824, 0, 1e15, "memory that counts")                                           \
    X(orphan, after, SECONDS, 10, 0, 86400, "time it must last")                                                       \
    X(contexts, enabled, BOOL, 1, 0, 1, "judge extra contexts on one GPU")                                             \
    X(contexts, after, SECONDS, 10, 0, 86400, "time it must last")                                                     \
    X(contexts, bytes_below, BYTES, 1073741824, 0, 1e15, "an extra context is smaller; larger ones are use")           \
    X(host_memory, enabled, BOOL, 1, 0, 1, "judge growing host memory")                                                \
    X(host_memory, window, SECONDS, 120, 10, 86400, "time over which the slope is taken")                              \
    X(host_memory, slope_above, BYTES_PER_SECOND, 1048576, 0, 1e15, "smallest robust slope of anonymous memory")       \
    X(host_memory, growth_above, BYTES, 536870912, 0, 1e15, "smallest growth within the window")                       \
    X(host_memory, critical_within, SECONDS, 600, 0, 864000, "limit reached within this time is critical")             \
    X(sensor, enabled, BOOL, 1, 0, 1, "report stale or lost sensors and hanging driver calls")                         \
    X(sensor, stale_after, SECONDS, 5, 0.2, 3600, "age from which a reading is stale, and a driver call hangs")         \
    X(sensor, critical_after, SECONDS, 60, 1, 86400, "a driver call that hangs for this long is critical")             \
    X(training, enabled, BOOL, 1, 0, 1, "judge a job's steps: waiting for data, communication, allocated memory")        \
    X(training, steps, COUNT, 10, 3, 1000000, "steps before anything is said of them; the first is left out")          \
    X(training, after, SECONDS, 2, 0, 86400, "time of such steps before anything is said of them")                     \
    X(training, data_above, RATIO, 0.15, 0, 1, "share of wall time waiting for data that is a bottleneck")             \
    X(training, communication_above, RATIO, 0.05, 0, 1, "share of wall time in exposed communication, likewise")       \
    X(training, save_above, RATIO, 0.1, 0, 1, "share of wall time writing checkpoints, likewise")                      \
    X(training, log_above, RATIO, 0.1, 0, 1, "share of wall time logging, likewise")                                   \
    X(training, evaluation_above, RATIO, 0.5, 0, 1, "share of wall time in evaluation that is mentioned")              \
    X(training, between_above, RATIO, 0.15, 0, 1, "share of wall time between steps that is a bottleneck")             \
    X(training, other_above, RATIO, 0.15, 0, 1, "share of wall time inside steps that no phase explains, likewise")    \
    X(training, host_above, RATIO, 0.25, 0, 1, "share of wall time in which the GPU idles for want of launched work")  \
    X(training, healthy_utilization, RATIO, 0.85, 0, 1, "GPU utilisation that is healthy")                             \
    X(training, healthy_margin, RATIO, 0.05, 0, 1, "that may be missing from it")                                      \
    X(training, healthy_data_below, RATIO, 0.05, 0, 1, "share of data waiting that is healthy")                        \
    X(training, healthy_communication_below, RATIO, 0.03, 0, 1, "share of exposed communication that is healthy")      \
    X(training, memory_readings, COUNT, 20, 10, 96, "blocks of steps with allocator figures before they are judged")   \
    X(training, memory_growth_above, BYTES, 33554432, 0, 1e15, "growth of their floor that is reported")               \
    X(training, host_growth_above, BYTES, 67108864, 0, 1e15, "growth of anonymous host memory, likewise")              \
    X(training, epoch_growth_above, BYTES, 536870912, 0, 1e15, "growth of it in one epoch behind the first, likewise") \
    X(serve, anonymous, BOOL, 0, 0, 1, "answer without credentials too, without others' processes")                    \
    X(serve, insecure_listen, BOOL, 0, 0, 1, "listen beyond loopback also without tokens or users")                    \
    X(serve, dcgm_names, BOOL, 0, 0, 1, "dcgm-exporter's names and labels in /metrics too")                            \
    X(serve, max_processes, COUNT, 64, 0, 4096, "processes with series of their own; the rest are summed")             \
    X(serve, max_connections, COUNT, 256, 4, 10000, "open connections; the longest idle one makes room")               \
    X(serve, header_timeout, SECONDS, 10, 0.1, 3600, "time from connecting to the end of the request")                 \
    X(serve, answer_timeout, SECONDS, 30, 0.1, 3600, "time in which a client must take its answer")                    \
    X(serve, idle_timeout, SECONDS, 90, 0.1, 86400, "time for which an idle connection is kept")                       \
    X(push, period, SECONDS, 10, 0.5, 3600, "time between two OTLP messages")                                          \
    X(push, timeout, SECONDS, 10, 0.1, 600, "time that a receiver has for one message")                                \
    X(push, retry_min, SECONDS, 1, 0.05, 3600, "wait behind a first failure; it doubles with each further one")        \
    X(push, retry_max, SECONDS, 60, 0.05, 3600, "longest wait between two attempts")                                   \
    X(push, flush, SECONDS, 5, 0, 600, "time for sending what waits when alula ends; the rest is kept")                \
    X(push, spool_max, BYTES, 67108864, 65536, 1e12, "most bytes that wait for a receiver; the oldest give way")       \
    X(push, gzip, BOOL, 1, 0, 1, "compress OTLP messages")                                                             \
    X(push, replay, BOOL, 0, 0, 1, "push and tell also what a recording or scenario plays")                            \
    X(webhook, repeat, SECONDS, 60, 0.5, 86400, "time between two tellings of what lasts, for Alertmanager")

struct al_settings {
#define X(section, key, unit, def, min, max, help) double section##_##key;
    AL_SETTINGS(X)
#undef X
};

struct al_setting_info {
    const char *section, *key;
    enum al_unit unit;
    bool is_bool;
    double def, min, max;
    const char *help;
    uint32_t offset; // of the double in struct al_settings
};

extern const struct al_setting_info al_setting_table[];
extern const unsigned al_setting_count;

void al_settings_default(struct al_settings *s);
// The used share from which rising memory is reported: by model size when it is known, else used_above.
double al_memory_limit(const struct al_settings *s);

#endif
