// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fake.h"

#define US(ms_ago) ((unsigned long long)((FAKE_EPOCH_NS + fake.now_ns - FAKE_START_NS) / 1000 - (ms_ago) * 1000LL))

static void fast_group_has_base_units(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_FAST, 1);
    const struct al_value *m = s->gpus[0].m;
    NUMBER(m[AL_GPU_UTIL], 0.42);
    NUMBER(m[AL_GPU_MEM_UTIL], 0.07);
    NUMBER(m[AL_GPU_UTIL_MEAN], 0.42); // without the samples the reading stands in
    NUMBER(m[AL_GPU_MEM_TOTAL], 1000);
    NUMBER(m[AL_GPU_MEM_USED], 300);
    NUMBER(m[AL_GPU_MEM_FREE], 600);
    NUMBER(m[AL_GPU_MEM_RESERVED], 100);
    NUMBER(m[AL_GPU_TEMP], 37);
    NUMBER(m[AL_GPU_POWER], 79.0);
    NUMBER(m[AL_GPU_CLOCK_GR], 345e6);
    NUMBER(m[AL_GPU_CLOCK_SM], 346e6);
    NUMBER(m[AL_GPU_CLOCK_MEM], 347e6);
    NUMBER(m[AL_GPU_CLOCK_VIDEO], 348e6);
    NUMBER(m[AL_GPU_PSTATE], 0);
    NUMBER(m[AL_GPU_THROTTLE], 1);
    assert_int_equal(m[AL_GPU_POWER].at_ns, fake.now_ns);
    STATUS(m[AL_GPU_ENERGY], UNREAD); // not asked for
    STATUS(m[AL_GPU_XID_ERRORS], UNREAD);
    assert_int_equal(s->gpus[0].process_status, AL_STATUS_UNREAD);
    fake.gpus[0]->pstate = AL_NVML_PSTATE_UNKNOWN;
    fake.gpus[0]->temp = 0xffffffff;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    STATUS(s->gpus[0].m[AL_GPU_PSTATE], UNSUPPORTED);
    STATUS(s->gpus[0].m[AL_GPU_TEMP], UNSUPPORTED);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void v1_memory_is(struct al_nvml *n, struct al_snapshot *s) {
    fake_sample(n, s, AL_GROUP_FAST, 500);
    NUMBER(s->gpus[0].m[AL_GPU_MEM_TOTAL], 1000);
    NUMBER(s->gpus[0].m[AL_GPU_MEM_USED], 400); // holds the reserve, which cannot be told apart
    STATUS(s->gpus[0].m[AL_GPU_MEM_RESERVED], UNSUPPORTED);
    assert_false(s->gpus[0].info.unified_memory);
}

// Row 1: the v2 call is absent, or does not know the version word (580.159: "function not found").
static void memory_falls_back_to_v1(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetMemoryInfo_v2] = AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    v1_memory_is(n, s);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetMemoryInfo_v2] = AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    v1_memory_is(n, s);
    n->api.nvmlDeviceGetMemoryInfo_v2 = NULL;
    v1_memory_is(n, s);
    n->api.nvmlDeviceGetMemoryInfo = NULL;
    fake_sample(n, s, AL_GROUP_FAST, 500);
    STATUS(s->gpus[0].m[AL_GPU_MEM_USED], MISSING);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 18: boards that share the host's memory.
static void unified_memory_is_told_by_the_answer(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetMemoryInfo_v2] = AL_NVML_ERROR_NOT_SUPPORTED;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetMemoryInfo] = AL_NVML_ERROR_NOT_SUPPORTED;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    STATUS(s->gpus[0].m[AL_GPU_MEM_USED], UNSUPPORTED);
    assert_true(s->gpus[0].info.unified_memory);
    memset(fake.gpus[0]->result, 0, sizeof fake.gpus[0]->result);
    fake.gpus[0]->total = fake.gpus[0]->used = fake.gpus[0]->free = fake.gpus[0]->reserved = 0;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    STATUS(s->gpus[0].m[AL_GPU_MEM_TOTAL], UNSUPPORTED);
    STATUS(s->gpus[0].m[AL_GPU_MEM_USED], UNSUPPORTED);
    assert_true(s->gpus[0].info.unified_memory);
    fake.gpus[0]->total = 10;
    fake.gpus[0]->used = 11; // nonsense
    fake_sample(n, s, AL_GROUP_FAST, 1);
    STATUS(s->gpus[0].m[AL_GPU_MEM_USED], ERROR);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 3: a missing symbol is a cell.
static void missing_functions_are_cells(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    n->api.nvmlDeviceGetPowerUsage = NULL;
    n->api.nvmlDeviceGetCurrentClocksEventReasons = n->api.nvmlDeviceGetCurrentClocksThrottleReasons;
    n->api.nvmlDeviceGetCurrentClocksThrottleReasons = NULL;
    n->api.nvmlDeviceGetTemperature = NULL; // withdrawn one day: the versioned one is asked
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_SLOW | AL_GROUP_ECC, 1);
    STATUS(s->gpus[0].m[AL_GPU_POWER], MISSING);
    NUMBER(s->gpus[0].m[AL_GPU_THROTTLE], 1);
    NUMBER(s->gpus[0].m[AL_GPU_TEMP], 37);
    STATUS(s->gpus[0].m[AL_GPU_BAR1_TOTAL], MISSING);
    STATUS(s->gpus[0].m[AL_GPU_TEMP_MARGIN], MISSING);
    STATUS(s->gpus[0].m[AL_GPU_SRAM_THRESHOLD], MISSING);
    STATUS(s->gpus[0].m[AL_GPU_REMAP_HIST_MAX], MISSING);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void constants_are_asked_once(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetFanSpeed] = AL_NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < 3; i++)
        fake_sample(n, s, AL_GROUP_SLOW, 1000);
    NUMBER(s->gpus[0].m[AL_GPU_CLOCK_MEM_MAX], 1982e6);
    NUMBER(s->gpus[0].m[AL_GPU_POWER_MIN], 200);
    NUMBER(s->gpus[0].m[AL_GPU_POWER_MAX], 700);
    assert_int_equal(s->gpus[0].m[AL_GPU_POWER_MAX].at_ns, fake.now_ns);
    STATUS(s->gpus[0].m[AL_GPU_FAN], UNSUPPORTED);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetMaxClockInfo], 4);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetPowerManagementLimitConstraints], 2);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetFanSpeed], 1);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetApplicationsClock], 2); // settings: every half minute
    NUMBER(s->gpus[0].m[AL_GPU_CLOCK_APP_MEM], 347e6);
    assert_int_equal(s->gpus[0].m[AL_GPU_CLOCK_APP_MEM].at_ns, FAKE_START_NS + AL_NS_PER_S);
    fake.gpus[0]->clock_mhz = 500;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetFanSpeed] = 0;
    fake_sample(n, s, AL_GROUP_SLOW, 61000);
    NUMBER(s->gpus[0].m[AL_GPU_CLOCK_APP_MEM], 502e6); // "not supported" is asked again after a minute
    NUMBER(s->gpus[0].m[AL_GPU_FAN], 1.05);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void fields_come_in_one_call_each_with_its_code(void **state) {
    (void)state;
    fake_field(AL_NVML_FI_MEMORY_TEMP, AL_NVML_VALUE_UNSIGNED_INT, 0x7ffc00000031ULL);
    fake_field(AL_NVML_FI_TOTAL_ENERGY, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 15561471);
    fake_field(AL_NVML_FI_PERF_POLICY_POWER, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 10999133408ULL);
    fake_field(AL_NVML_FI_POWER_INSTANT, AL_NVML_VALUE_UNSIGNED_INT, 704520);
    fake_field(AL_NVML_FI_EVENT_HW_THERM_SLOWDOWN, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 0);
    fake.fields[4].nvmlReturn = AL_NVML_ERROR_INVALID_ARGUMENT; // an id from after this driver
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_SLOW, 1);
    const struct al_value *m = s->gpus[0].m;
    NUMBER(m[AL_GPU_TEMP_MEM], 49);
    NUMBER(m[AL_GPU_ENERGY], 15561.471);
    NUMBER(m[AL_GPU_VIOL_POWER], 10.999133408);
    NUMBER(m[AL_GPU_EVENT_SW_POWER], 10.999133408);
    NUMBER(m[AL_GPU_POWER_INST], 704.52);
    STATUS(m[AL_GPU_EVENT_HW_THERMAL], UNSUPPORTED);
    STATUS(m[AL_GPU_POWER_AVG], UNSUPPORTED); // left as it was: never taken for 0
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetFieldValues], 1);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetFieldValues] = AL_NVML_ERROR_TIMEOUT;
    fake_sample(n, s, AL_GROUP_SLOW, 1000);
    NUMBER(s->gpus[0].m[AL_GPU_ENERGY], 15561.471); // too dear to ask each time: kept for 5 s, with its own time
    assert_int_equal(s->gpus[0].m[AL_GPU_ENERGY].at_ns, fake.now_ns - AL_NS_PER_S);
    STATUS(s->gpus[0].m[AL_GPU_VIOL_POWER], TIMEOUT);
    fake_sample(n, s, AL_GROUP_SLOW, 4000);
    STATUS(s->gpus[0].m[AL_GPU_ENERGY], TIMEOUT);
    STATUS(s->gpus[0].m[AL_GPU_POWER_AVG], UNSUPPORTED);
    n->api.nvmlDeviceGetFieldValues = NULL;
    fake_sample(n, s, AL_GROUP_SLOW, 1000);
    STATUS(s->gpus[0].m[AL_GPU_TEMP_MEM], MISSING);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void ecc_counters_land_in_their_places(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_ECC, 1);
    const struct al_value *m = s->gpus[0].m;
    NUMBER(m[AL_GPU_ECC_COR_VOL_TOTAL], 1000);
    NUMBER(m[AL_GPU_ECC_COR_AGG_TOTAL], 1010);
    NUMBER(m[AL_GPU_ECC_UNC_VOL_TOTAL], 1100);
    NUMBER(m[AL_GPU_ECC_UNC_AGG_TOTAL], 1110);
    NUMBER(m[AL_GPU_ECC_COR_VOL_DRAM], 2);
    NUMBER(m[AL_GPU_ECC_COR_AGG_SRAM], 17);
    NUMBER(m[AL_GPU_ECC_UNC_VOL_SRAM], 107);
    NUMBER(m[AL_GPU_ECC_UNC_AGG_DRAM], 112);
    NUMBER(m[AL_GPU_ECC_UNC_AGG_DEVICE_MEMORY], 112);
    STATUS(m[AL_GPU_ECC_COR_VOL_L1_CACHE], UNSUPPORTED);
    STATUS(m[AL_GPU_ECC_UNC_AGG_CBU], UNSUPPORTED);
    NUMBER(m[AL_GPU_RETIRED_SBE], 0);
    NUMBER(m[AL_GPU_RETIRED_DBE], 2);
    int asked = fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetMemoryErrorCounter];
    assert_int_equal(asked, 4 * 7);
    fake_sample(n, s, AL_GROUP_ECC, 1000);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetMemoryErrorCounter], asked + 8);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void links_are_counted_and_their_errors_summed(void **state) {
    (void)state;
    fake.gpus[0]->links = 0x3f;
    fake_field(AL_NVML_FI_NVLINK_DATA_TX, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 3);
    fake_field(AL_NVML_FI_NVLINK_CRC_FLIT_TOTAL, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 5);
    fake_field(AL_NVML_FI_NVLINK_CRC_DATA_TOTAL, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 6);
    fake_field(AL_NVML_FI_NVLINK_DL_REPLAY, AL_NVML_VALUE_UNSIGNED_LONG_LONG, 7); // each of the six links
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_LINK | AL_GROUP_PCIE, 1);
    const struct al_value *m = s->gpus[0].m;
    NUMBER(m[AL_GPU_NVLINK_LINKS], 6);
    NUMBER(m[AL_GPU_NVLINK_ACTIVE], 5);
    NUMBER(m[AL_GPU_NVLINK_TX], 3072);
    NUMBER(m[AL_GPU_NVLINK_CRC], 11);
    NUMBER(m[AL_GPU_NVLINK_REPLAY], 42);
    STATUS(m[AL_GPU_NVLINK_RECOVERY], UNSUPPORTED);
    STATUS(m[AL_GPU_PCIE_GEN_HOST_MAX], UNSUPPORTED);
    NUMBER(m[AL_GPU_PCIE_TX], 7383e3);
    NUMBER(m[AL_GPU_PCIE_RX], 16129e3);
    int asked = fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetNvLinkState];
    fake_sample(n, s, AL_GROUP_LINK, 1000);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceGetNvLinkState], asked + 6);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void give_sample(unsigned ms_ago, unsigned percent) {
    struct nvml_device *d = fake.gpus[0];
    d->samples[d->sample_count++] =
        (struct nvml_sample){US(ms_ago), {.ullVal = percent | 0xffff000000000000ULL}}; // 4 bytes are the driver's
}

static void driver_samples_are_handed_out_once(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    give_sample(1500, 99); // before the first look back
    give_sample(400, 10);
    give_sample(200, 30);
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_SAMPLES, 0);
    assert_int_equal(s->gpus[0].fresh_count, 2);
    assert_float_equal(s->gpus[0].fresh[0].ratio, 0.10, 1e-9);
    assert_int_equal(s->gpus[0].fresh[0].at_ns, fake.now_ns - 400 * AL_NS_PER_MS);
    assert_int_equal(s->gpus[0].fresh[1].at_ns, fake.now_ns - 200 * AL_NS_PER_MS);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL_MEAN], 0.20);
    assert_int_equal(s->gpus[0].m[AL_GPU_UTIL_MEAN].at_ns, fake.now_ns - 200 * AL_NS_PER_MS);

    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_SAMPLES, 100); // none new
    assert_int_equal(s->gpus[0].fresh_count, 0);
    STATUS(s->gpus[0].m[AL_GPU_UTIL_MEAN], STALE);
    assert_float_equal(s->gpus[0].m[AL_GPU_UTIL_MEAN].num, 0.20, 1e-9);

    fake_sample(n, s, AL_GROUP_FAST, 100); // not asked for: nothing is consumed
    give_sample(50, 80);
    give_sample(0, 255);                    // not a percentage
    fake.gpus[0]->samples[fake.gpus[0]->sample_count++] = (struct nvml_sample){US(-60000), {.uiVal = 50}}; // the future
    fake_sample(n, s, AL_GROUP_SAMPLES, 0);
    assert_int_equal(s->gpus[0].fresh_count, 1);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL_MEAN], 0.80);
    STATUS(s->gpus[0].m[AL_GPU_UTIL], UNREAD);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 26: the driver's stamps follow the wall clock; a step back must not end the stream.
static void a_clock_step_does_not_stop_the_samples(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    give_sample(100, 40);
    fake_sample(n, s, AL_GROUP_SAMPLES, 0);
    assert_int_equal(s->gpus[0].fresh_count, 1);
    fake.real_shift_ns = -3600 * AL_NS_PER_S;
    fake.gpus[0]->samples[0].timeStamp = US(100) - 3600000000ULL;
    fake.gpus[0]->samples[0].sampleValue.uiVal = 60;
    fake_sample(n, s, AL_GROUP_SAMPLES, 0);
    assert_int_equal(s->gpus[0].fresh_count, 1);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL_MEAN], 0.60);
    assert_int_equal(s->gpus[0].fresh[0].at_ns, fake.now_ns - 100 * AL_NS_PER_MS); // monotonic does not step
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void without_samples_the_reading_stands_in(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetSamples] = AL_NVML_ERROR_NOT_SUPPORTED;
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_SAMPLES, 1);
    NUMBER(s->gpus[0].m[AL_GPU_UTIL_MEAN], 0.42);
    assert_int_equal(s->gpus[0].fresh_count, 0);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetSamples] = AL_NVML_ERROR_UNKNOWN;
    fake_sample(n, s, AL_GROUP_FAST | AL_GROUP_SAMPLES, 1);
    STATUS(s->gpus[0].m[AL_GPU_UTIL_MEAN], ERROR);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

// Row 19.
static void gpm_needs_100_ms_and_a_fresh_pair(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->gpm_value = 50;
    fake_sample(n, s, AL_GROUP_GPM, 1);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], UNREAD); // the first: nothing to compare with
    fake_sample(n, s, AL_GROUP_GPM, 99);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], UNREAD);
    fake_sample(n, s, AL_GROUP_GPM, 1);
    NUMBER(s->gpus[0].m[AL_GPU_GPM_SM], 0.5);
    NUMBER(s->gpus[0].m[AL_GPU_GPM_TENSOR], 0.5);
    NUMBER(s->gpus[0].m[AL_GPU_GPM_PCIE_RX], 50 * 1048576.0);
    fake.gpus[0]->gpm_value = 60;
    fake_sample(n, s, AL_GROUP_GPM, 50);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], STALE);
    assert_float_equal(s->gpus[0].m[AL_GPU_GPM_SM].num, 0.5, 1e-9);
    fake.gpus[0]->gpm_value = NAN; // ratios NaN, rates 0
    fake_sample(n, s, AL_GROUP_GPM, 100);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], STALE);
    STATUS(s->gpus[0].m[AL_GPU_GPM_PCIE_RX], STALE);
    assert_float_equal(s->gpus[0].m[AL_GPU_GPM_PCIE_RX].num, 50 * 1048576.0, 1e-3);
    fake.gpus[0]->gpm_value = 0; // an idle GPU is 0
    fake_sample(n, s, AL_GROUP_GPM, 100);
    NUMBER(s->gpus[0].m[AL_GPU_GPM_SM], 0);
    fake.gpus[0]->gpm_value = 100.0001;
    fake_sample(n, s, AL_GROUP_GPM, 100);
    NUMBER(s->gpus[0].m[AL_GPU_GPM_SM], 1);
    assert_int_equal(fake.samples_alive, 2);
    al_snapshot_free(s);
    al_device_free(&n->base);
    assert_int_equal(fake.samples_alive, 0);
}

static void gpm_says_why_not(void **state) {
    (void)state;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake.gpus[0]->result[NVML_FN_nvmlGpmQueryDeviceSupport] = AL_NVML_ERROR_NOT_SUPPORTED;
    fake_sample(n, s, AL_GROUP_GPM, 1);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], UNSUPPORTED);
    al_device_free(&n->base);
    n = fake_started(NULL);
    memset(fake.gpus[0]->result, 0, sizeof fake.gpus[0]->result);
    fake.gpus[0]->result[NVML_FN_nvmlGpmSampleGet] = AL_NVML_ERROR_NO_PERMISSION;
    fake_sample(n, s, AL_GROUP_GPM, 1);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], DENIED);
    n->api.nvmlGpmMetricsGet = NULL;
    al_nvml_gpu_release(n, n->gpus[0]);
    n->gpus[0]->handle = fake.gpus[0];
    fake_sample(n, s, AL_GROUP_GPM, 1);
    STATUS(s->gpus[0].m[AL_GPU_GPM_SM], MISSING);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void xid(uint64_t code, uint64_t type) {
    fake.events[fake.event_count++] =
        (struct nvml_event_data){.device = fake.gpus[0], .eventType = type, .eventData = code};
}

// Row 21: a burst, the same twice, more codes than are kept.
static void xids_are_counted_by_code(void **state) {
    (void)state;
    fake_gpu(1, "GPU-bbbb");
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_XID, 1);
    NUMBER(s->gpus[0].m[AL_GPU_XID_ERRORS], 0);
    xid(79, 8);
    xid(31, 8);
    xid(79, 8);
    xid(5, 16); // a clock change, not an Xid
    fake_sample(n, s, AL_GROUP_XID, 500);
    NUMBER(s->gpus[0].m[AL_GPU_XID_ERRORS], 3);
    NUMBER(s->gpus[1].m[AL_GPU_XID_ERRORS], 0);
    assert_int_equal(s->gpus[0].xid_count, 2);
    assert_int_equal(s->gpus[0].xid[0].code, 79);
    assert_int_equal(s->gpus[0].xid[0].count, 2);
    assert_int_equal(s->gpus[0].xid[0].last_ns, fake.now_ns);
    fake_sample(n, s, AL_GROUP_XID, 500); // stays
    assert_int_equal(s->gpus[0].xid[1].code, 31);
    NUMBER(s->gpus[0].m[AL_GPU_XID_ERRORS], 3);
    for (int i = 0; i < 300; i++)
        xid(100 + (uint64_t)i % 20, 8);
    fake_sample(n, s, AL_GROUP_XID, 500);
    fake_sample(n, s, AL_GROUP_XID, 500);
    NUMBER(s->gpus[0].m[AL_GPU_XID_ERRORS], 303);
    assert_int_equal(s->gpus[0].xid_count, AL_XID_CODES);
    assert_int_equal(fake.gpus[0]->calls[NVML_FN_nvmlDeviceRegisterEvents], 1);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void xids_that_are_denied_say_so(void **state) {
    (void)state;
    fake.gpus[0]->result[NVML_FN_nvmlDeviceRegisterEvents] = AL_NVML_ERROR_NO_PERMISSION;
    struct al_nvml *n = fake_started(NULL);
    struct al_snapshot *s = al_snapshot_new();
    fake_sample(n, s, AL_GROUP_XID, 1);
    STATUS(s->gpus[0].m[AL_GPU_XID_ERRORS], DENIED);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
const struct CMUnitTest sample_tests[] = {
    TEST(fast_group_has_base_units),
    TEST(memory_falls_back_to_v1),
    TEST(unified_memory_is_told_by_the_answer),
    TEST(missing_functions_are_cells),
    TEST(constants_are_asked_once),
    TEST(fields_come_in_one_call_each_with_its_code),
    TEST(ecc_counters_land_in_their_places),
    TEST(links_are_counted_and_their_errors_summed),
    TEST(driver_samples_are_handed_out_once),
    TEST(a_clock_step_does_not_stop_the_samples),
    TEST(without_samples_the_reading_stands_in),
    TEST(gpm_needs_100_ms_and_a_fresh_pair),
    TEST(gpm_says_why_not),
    TEST(xids_are_counted_by_code),
    TEST(xids_that_are_denied_say_so),
};
const size_t sample_test_count = sizeof sample_tests / sizeof *sample_tests;
