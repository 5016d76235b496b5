// SPDX-License-Identifier: Apache-2.0
// One GPU (or MIG device) as one tick saw it.
#ifndef AL_MODEL_GPU_H
#define AL_MODEL_GPU_H

#include "model/metric.h"
#include "model/status.h"

#define AL_GPU_MAX 128       // GPUs and MIG devices of one node
#define AL_XID_CODES 16      // distinct Xid codes kept per GPU
#define AL_FRESH_MAX 128     // driver samples of one tick
#define AL_UUID_MAX 96

struct al_gpu_info {
    char uuid[AL_UUID_MAX];
    char name[96];
    char pci_bus_id[32]; // 00000000:83:00.0
    char serial[32];
    uint32_t index;         // the driver's order (PCI), which is nvidia-smi's
    uint32_t minor;         // N of /dev/nvidiaN
    uint32_t architecture;  // NVML's number; 9 Hopper
    bool mig_enabled;       // MIG is on: utilisation is N/A here, see the instances
    bool is_mig;            // a MIG device; the parent is left out of sums
    int32_t parent;         // position of the parent GPU in the snapshot, -1 when none
    uint32_t gpu_instance, compute_instance; // of a MIG device
    char mig_profile[32];   // "1g.18gb"
    bool unified_memory;    // the memory calls answer NOT_SUPPORTED: memory is the host's
    uint32_t status;        // enum al_status of the whole device: OK, LOST, RESET
};

struct al_xid {
    uint32_t code;
    uint32_t count;
    int64_t last_ns;        // monotonic
};

struct al_fresh {
    int64_t at_ns; // monotonic, converted from the driver's clock
    double ratio;  // utilisation 0..1
};

struct al_gpu {
    struct al_gpu_info info;
    struct al_value m[AL_GPU_METRIC_COUNT];
    struct al_xid xid[AL_XID_CODES];
    uint32_t xid_count;      // entries in xid
    uint32_t fresh_count;    // driver utilisation samples since the last tick, each handed out once
    struct al_fresh fresh[AL_FRESH_MAX];
    uint32_t process_status; // enum al_status of the process list
    uint32_t procutil_status;
};

#endif
