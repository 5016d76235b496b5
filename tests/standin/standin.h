// SPDX-License-Identifier: Apache-2.0
// Insides of the stand-in driver: NVML's exported functions, answered from a scenario. How a real driver answers was
// recorded on an H200 with driver 580.159.04; where a comment says "580.159", that is where the behaviour comes from.
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include "device/nvml_abi.h"
#include "scenario/scenario.h"

#define EXPORT __attribute__((visibility("default")))
#define OK AL_NVML_SUCCESS

struct nvml_device {
    uint32_t gpu; // the scenario's number
};

// One call: locked from begin to end, so that the scenario's cursor has one user.
struct call {
    struct al_scenario *s;
    int64_t at_ns; // scenario time
    uint32_t gpu;
};

// Lock, and what every function checks first: initialised, hang and fault of the scenario, device there and not lost.
// With anything but OK the lock is given back already.
int standin_begin(struct call *c, const char *function, const struct nvml_device *d);
// As above for functions that take no device.
int standin_begin_system(struct call *c, const char *function);
int standin_end(int result);

int64_t standin_now(void);                  // scenario time
uint64_t standin_real_us(int64_t at_ns);    // CLOCK_REALTIME of a scenario time
int64_t standin_scenario_ns(uint64_t real_us); // and back
struct nvml_device *standin_handle(uint32_t gpu);
uint32_t standin_boards(const uint32_t **ret_gpus); // boards of the last nvmlInit, in the driver's order
const struct al_gpu_info *standin_info(const struct call *c);
uint32_t standin_children(const struct call *c, uint32_t board, uint32_t nth); // MIG device or UINT32_MAX

int standin_result(uint32_t status); // NVML's word for a status
struct al_value standin_value(const struct call *c, enum al_gpu_metric metric);
// Scaled and rounded; the result of the metric's status.
int standin_number(const struct call *c, enum al_gpu_metric metric, double scale, uint64_t *ret);
int standin_u32(const struct call *c, enum al_gpu_metric metric, double scale, unsigned *ret);
int standin_attr_u32(const struct call *c, enum al_attr attr, unsigned *ret);
// Copies with the driver's answer to a buffer that is too short.
int standin_text(char *out, unsigned size, const char *text);
int standin_attr_text(const struct call *c, enum al_attr attr, char *out, unsigned size);

// Whole functions of the simplest shapes.
int standin_metric_call(const char *function, struct nvml_device *d, enum al_gpu_metric metric, double scale,
                        unsigned *out);
int standin_attr_call(const char *function, struct nvml_device *d, enum al_attr attr, unsigned *out);
int standin_text_call(const char *function, struct nvml_device *d, enum al_attr attr, char *out, unsigned size);

// symbols.c: makes dlsym deny a function of this library.
void standin_hide_symbols(bool (*hidden)(const char *name, void *user), void *user);

// The word "version" of a struct is the one that goes with this type.
#define VERSIONED(pointer, type, number) ((pointer)->version == NVML_WORD(struct type, number))

#define X(name, params) EXPORT int name params;
AL_NVML_FUNCTIONS(X)
#undef X

// Exported functions that alula itself does not call, but others do.
EXPORT const char *nvmlErrorString(int result);
EXPORT int nvmlInitWithFlags(unsigned flags);
EXPORT int nvmlSystemGetDriverBranch(void *info, unsigned length);
EXPORT int nvmlUnitGetCount(unsigned *out);
EXPORT int nvmlGetExcludedDeviceCount(unsigned *out);
EXPORT int nvmlGetBlacklistDeviceCount(unsigned *out);
EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvml_device **out);
EXPORT int nvmlDeviceGetHandleBySerial(const char *serial, struct nvml_device **out);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct nvml_device **out);
EXPORT int nvmlDeviceGetHandleByPciBusId(const char *bus_id, struct nvml_device **out);
EXPORT int nvmlDeviceGetIndex(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetMultiGpuBoard(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceIsMigDeviceHandle(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct nvml_device *d, struct nvml_device **out);
EXPORT int nvmlDeviceGetRunningProcessDetailList(struct nvml_device *d, struct nvml_process_details *list);
EXPORT int nvmlDeviceGetClock(struct nvml_device *d, unsigned type, unsigned id, unsigned *out);
EXPORT int nvmlDeviceGetMaxCustomerBoostClock(struct nvml_device *d, unsigned type, unsigned *out);
EXPORT int nvmlDeviceGetFanSpeed_v2(struct nvml_device *d, unsigned fan, unsigned *out);
EXPORT int nvmlDeviceGetNumFans(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetPowerManagementMode(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetPowerState(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetDefaultEccMode(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetPcieLinkMaxSpeed(struct nvml_device *d, unsigned *out);
EXPORT int nvmlDeviceGetSupportedEventTypes(struct nvml_device *d, unsigned long long *out);
EXPORT int nvmlDeviceGetAccountingPids(struct nvml_device *d, unsigned *count, unsigned *pids);

#endif
