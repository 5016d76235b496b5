// SPDX-License-Identifier: Apache-2.0
// A driver of function pointers whose every answer a test sets by hand.
#ifndef TEST_DEVICE_FAKE_H
#define TEST_DEVICE_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/nvml_backend.h"

#define FAKE_GPUS 8
#define FAKE_MIG 8
#define FAKE_START_NS 1000000000000LL       // monotonic
#define FAKE_EPOCH_NS 1700000000000000000LL // realtime at that moment

struct nvml_device {
    int number; // of fake.gpus; -1 for MIG
    struct nvml_device *parent;
    char uuid[48], name[48];
    unsigned index;
    int result[NVML_FN_COUNT]; // other than 0: the answer of that function
    int calls[NVML_FN_COUNT];
    bool gone;    // every call answers GPU_IS_LOST
    unsigned util, mem_util, temp, power_mw, clock_mhz, pstate;
    unsigned long long reasons, total, reserved, used, free;
    bool mig;
    unsigned gi, ci;
    struct nvml_device *children[FAKE_MIG]; // NULL: a hole
    struct nvml_sample samples[8];
    unsigned sample_count;
    struct nvml_process_v2 compute[200], graphics[8];
    unsigned compute_count, graphics_count;
    int growing; // processes that start at each call until it is 0
    struct nvml_process_util utils[16];
    unsigned util_count;
    double gpm_value;
    uint64_t links;
};

struct nvml_gpm_sample {
    bool filled;
    int64_t at_ns;
};

struct fake {
    struct nvml_device *gpus[FAKE_GPUS]; // by index
    unsigned count;
    int init_result;
    int inits, shutdowns, samples_alive;
    int64_t now_ns, real_shift_ns;
    struct nvml_event_data events[600];
    unsigned event_count, event_next;
    unsigned long long util_since, sample_since; // what the last call asked for
    unsigned gpm_instance;
    struct nvml_field_value fields[64]; // answers by id; all others are unknown to the driver
    unsigned field_count;
};
extern struct fake fake;

struct nvml_device *fake_gpu(unsigned index, const char *uuid);
struct nvml_device *fake_mig(struct nvml_device *parent, unsigned index, const char *uuid, unsigned gi, unsigned ci);
void fake_field(unsigned id, int type, unsigned long long value);
// A backend over the fake that is not started yet, so that functions can be taken out.
struct al_nvml *fake_backend(void);
// Resets the fake to one healthy GPU; for cmocka's setup and teardown.
int fake_setup(void **state);
int fake_teardown(void **state);
// Starts (fails the test when that fails) and samples at the fake's time, which `ms` is added to first.
struct al_nvml *fake_started(const char *filter);
void fake_sample(struct al_nvml *n, struct al_snapshot *s, uint32_t groups, int64_t ms);

#define STATUS(value, want) assert_string_equal(al_status_word((value).status), al_status_word(AL_STATUS_##want))
// Evaluates `value` twice.
#define NUMBER(value, want)                                                                                            \
    do {                                                                                                               \
        STATUS(value, OK);                                                                                             \
        assert_float_equal((value).num, (want), 1e-9);                                                                 \
    } while (0)

extern const struct CMUnitTest attr_tests[], call_tests[], discover_tests[], process_tests[], replay_tests[],
    sample_tests[];
extern const size_t attr_test_count, call_test_count, discover_test_count, process_test_count, replay_test_count,
    sample_test_count;
int shared_suite(void);
int standin_suite(void);

#endif
