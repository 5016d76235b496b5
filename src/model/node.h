// SPDX-License-Identifier: Apache-2.0
// The machine around the GPUs.
#ifndef AL_MODEL_NODE_H
#define AL_MODEL_NODE_H

#include "model/status.h"

// X(ID, name, unit, kind, help)
#define AL_NODE_METRICS(X)                                                                                             \
    X(CPU, "cpu_ratio", RATIO, GAUGE, "busy share of all CPUs")                                                        \
    X(CPU_IOWAIT, "cpu_iowait_ratio", RATIO, GAUGE, "share of CPU time idle with I/O outstanding")                     \
    X(CPUS, "cpus", COUNT, GAUGE, "CPUs online")                                                                       \
    X(CPUS_ALLOWED, "cpus_allowed", COUNT, GAUGE, "CPUs that alula's cgroup and affinity leave")                       \
    X(LOAD1, "load1", NONE, GAUGE, "load average of one minute")                                                       \
    X(MEM_TOTAL, "memory_total_bytes", BYTES, GAUGE, "MemTotal")                                                       \
    X(MEM_AVAILABLE, "memory_available_bytes", BYTES, GAUGE, "MemAvailable")                                           \
    X(MEM_ANON, "memory_anonymous_bytes", BYTES, GAUGE, "AnonPages")                                                   \
    X(MEM_SHMEM, "memory_shared_bytes", BYTES, GAUGE, "Shmem")                                                         \
    X(MEM_CACHED, "memory_cached_bytes", BYTES, GAUGE, "Cached")                                                       \
    X(SWAP_USED, "swap_used_bytes", BYTES, GAUGE, "swap in use")                                                       \
    X(PSI_CPU, "pressure_cpu_some_ratio", RATIO, GAUGE, "share of the last 10 s in which some task waited for a CPU")  \
    X(PSI_MEM, "pressure_memory_some_ratio", RATIO, GAUGE, "... waited for memory")                                    \
    X(PSI_IO, "pressure_io_some_ratio", RATIO, GAUGE, "... waited for I/O")                                            \
    X(PSI_IO_FULL, "pressure_io_full_ratio", RATIO, GAUGE, "share in which all tasks waited for I/O")                  \
    X(DISK_READ, "disk_read_bytes_per_second", BYTES_PER_SECOND, GAUGE, "reads of all block devices")                  \
    X(DISK_WRITE, "disk_written_bytes_per_second", BYTES_PER_SECOND, GAUGE, "writes of all block devices")             \
    X(DISK_BUSY, "disk_busy_ratio", RATIO, GAUGE, "busy share of the busiest block device")                            \
    X(NET_RX, "network_rx_bytes_per_second", BYTES_PER_SECOND, GAUGE, "received, loopback left out")                   \
    X(NET_TX, "network_tx_bytes_per_second", BYTES_PER_SECOND, GAUGE, "sent, loopback left out")

enum al_node_metric {
#define X(id, name, unit, kind, help) AL_NODE_##id,
    AL_NODE_METRICS(X)
#undef X
        AL_NODE_METRIC_COUNT
};

struct al_node {
    char hostname[96];
    char boot_id[40];
    char driver_version[40]; // "" when no driver
    char nvml_version[40];
    char cuda_version[16];   // "13.0"
    uint64_t pid_ns;         // inode of alula's own pid namespace
    bool host_pid_ns;        // alula sees the host's pids
    struct al_value m[AL_NODE_METRIC_COUNT];
};

extern const struct al_metric_info *const al_node_metric_table; // AL_NODE_METRIC_COUNT rows

#endif
