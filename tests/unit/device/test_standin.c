// SPDX-License-Identifier: Apache-2.0
// The whole way: library file, symbols, real structs. The stand-in driver plays a scenario in which every metric has a
// value of its own, and each has to arrive as it was written.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fake.h"

static char path[] = "/tmp/alula-test-device-XXXXXX";

// Steps that NVML's units can carry: percent, KiB, MHz, mW, mJ, ns.
static double made_up(int m) {
    switch (al_gpu_metrics[m].unit) {
    case AL_UNIT_RATIO:
        return 0.01 * (1 + m % 98);
    case AL_UNIT_BYTES:
    case AL_UNIT_BYTES_PER_SECOND:
        return 1048576.0 * 1000 * (1 + m);
    case AL_UNIT_CELSIUS:
        return 20 + m % 70;
    case AL_UNIT_WATTS:
        return 100 + m + 0.125;
    case AL_UNIT_JOULES:
        return 1000 + m + 0.5;
    case AL_UNIT_HERTZ:
        return 1e6 * (500 + m);
    case AL_UNIT_SECONDS:
        return 3 + m + 0.000000001;
    case AL_UNIT_STATE:
        return 1;
    default:
        return 1 + m % 15;
    }
}

static double wanted(int m) {
    switch (m) {
    case AL_GPU_MEM_TOTAL:
        return 1e9;
    case AL_GPU_MEM_USED:
        return 3e8;
    case AL_GPU_MEM_RESERVED:
        return 1e8;
    case AL_GPU_MEM_FREE:
        return 6e8;
    case AL_GPU_BAR1_TOTAL:
        return 2e9;
    case AL_GPU_BAR1_USED:
        return 1e9;
    case AL_GPU_NVLINK_LINKS:
        return 18;
    case AL_GPU_NVLINK_ACTIVE:
        return 17;
    case AL_GPU_UTIL_MEAN:
        return made_up(AL_GPU_UTIL);
    case AL_GPU_XID_ERRORS:
        return 0;
    case AL_GPU_EVENT_SW_POWER: // one counter under two names
        return made_up(AL_GPU_VIOL_POWER);
    case AL_GPU_EVENT_SYNC_BOOST:
        return made_up(AL_GPU_VIOL_SYNC_BOOST);
    case AL_GPU_PCIE_GEN_NOW_GPU:
        return made_up(AL_GPU_PCIE_GEN);
    case AL_GPU_ECC_COR_VOL_DEVICE_MEMORY:
        return made_up(AL_GPU_ECC_COR_VOL_DRAM);
    case AL_GPU_ECC_COR_AGG_DEVICE_MEMORY:
        return made_up(AL_GPU_ECC_COR_AGG_DRAM);
    case AL_GPU_ECC_UNC_VOL_DEVICE_MEMORY:
        return made_up(AL_GPU_ECC_UNC_VOL_DRAM);
    case AL_GPU_ECC_UNC_AGG_DEVICE_MEMORY:
        return made_up(AL_GPU_ECC_UNC_AGG_DRAM);
    default:
        return made_up(m);
    }
}

// "" when the tests run without the stand-in (built in another folder).
static const char *standin(void) {
    const char *library = getenv("ALULA_STANDIN");
    return library && access(library, R_OK) == 0 ? library : "";
}

static const char *suffix(enum al_unit unit) {
    switch (unit) {
    case AL_UNIT_BYTES:
        return "B";
    case AL_UNIT_BYTES_PER_SECOND:
        return "B/s";
    case AL_UNIT_HERTZ:
        return "Hz";
    case AL_UNIT_CELSIUS:
        return "C";
    case AL_UNIT_WATTS:
        return "W";
    case AL_UNIT_JOULES:
        return "J";
    case AL_UNIT_SECONDS:
        return "s";
    default:
        return "";
    }
}

static void write_scenario(const char *head) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "alula scenario 1\nstart 2026-01-01T00:00:00Z\nduration 60s\ndriver 580.159.04\ncuda 13.0\n%s", head);
    fprintf(f, "gpu 0-1 name=\"NVIDIA H200\"\nattr 0-1 brand=14 vbios_version=96.00.A5 compute_capability_major=9\n"
               "attr 0-1 compute_capability_minor=0 ecc_mode=1 ecc_mode_pending=1\n"
               "attr 0-1 fabric_state=0 inforom_checksum_valid=1\n@0s\n");
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (m != AL_GPU_XID_ERRORS && m != AL_GPU_UTIL_MEAN && m != AL_GPU_PCIE_GEN_HOST_MAX)
            fprintf(f, "gpu 0 %s=%.17g%s\n", al_gpu_metrics[m].name, wanted(m), suffix(al_gpu_metrics[m].unit));
    fprintf(f, "proc 100 comm=python\nrow 100 gpu=0 memory_bytes=250MiB sm_ratio=0.75 memory_ratio=0.5\n");
    assert_int_equal(fclose(f), 0);
}

static struct al_device *open_standin(const char *head) {
    struct al_device *d = NULL;
    struct al_device_error e = {""};
    struct al_nvml_options o = {standin(), NULL};
    write_scenario(head);
    setenv("ALULA_SCENARIO", path, 1);
    int result = al_nvml_open(&o, &d, &e);
    if (result)
        fail_msg("%s: %s", o.library, e.message);
    return d;
}

static void compare(const struct al_gpu *g, int m) {
    struct al_value v = g->m[m];
    double want = wanted(m);
    // NVML's PCIe throughput comes in KB/s, GPM's rates as a double.
    double tolerance = al_gpu_metrics[m].unit == AL_UNIT_BYTES_PER_SECOND ? 1000 : 1e-9 * (1 + fabs(want));
    if (m == AL_GPU_PCIE_GEN_HOST_MAX) { // no public call tells it
        STATUS(v, UNSUPPORTED);
    } else if (v.status != AL_STATUS_OK || fabs(v.num - want) > tolerance) {
        fail_msg("%s is %.17g (%s), not %.17g", al_gpu_metrics[m].name, v.num, al_status_word(v.status), want);
    }
}

static void every_metric_arrives(void **state) {
    (void)state;
    if (!*standin())
        skip();
    struct al_snapshot *s = al_snapshot_new();
    struct al_device *d = open_standin("");
    int64_t now = al_monotonic_ns();
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_ALL | AL_GROUP_PCIE, now), 0);
    usleep(450000); // two driver samples and a GPM window later
    al_snapshot_clear(s);
    now = al_monotonic_ns();
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_ALL | AL_GROUP_PCIE, now), 0);
    assert_int_equal(s->gpu_count, 2);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        compare(&s->gpus[0], m);
    assert_in_range(s->gpus[0].fresh_count, 1, 4);
    for (uint32_t i = 0; i < s->gpus[0].fresh_count; i++)
        assert_in_range(s->gpus[0].fresh[i].at_ns, now - AL_NS_PER_S, al_monotonic_ns());
    assert_int_equal(s->row_count, 1);
    NUMBER(s->rows[0].memory_bytes, 250 * 1048576.0);
    NUMBER(s->rows[0].sm_ratio, 0.75);
    assert_string_equal(s->node.driver_version, "580.159.04");
    assert_string_equal(s->node.cuda_version, "13.0");
    d = al_device_free(d);
    al_snapshot_free(s);
}

static struct al_attr_value ask(struct al_device *d, enum al_attr attr) {
    struct al_attr_value v;
    assert_int_equal(d->ops->attr(d, 0, attr, &v), 0);
    return v;
}

static void attributes_arrive(void **state) {
    (void)state;
    if (!*standin())
        skip();
    struct al_snapshot *s = al_snapshot_new();
    struct al_device *d = open_standin("");
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_FAST, al_monotonic_ns()), 0);
    assert_string_equal(ask(d, AL_ATTR_NAME).text, "NVIDIA H200");
    assert_string_equal(ask(d, AL_ATTR_VBIOS).text, "96.00.A5");
    assert_string_equal(ask(d, AL_ATTR_UUID).text, s->gpus[0].info.uuid);
    assert_string_equal(ask(d, AL_ATTR_PCI_BUS_ID).text, s->gpus[0].info.pci_bus_id);
    NUMBER(ask(d, AL_ATTR_BRAND), 14);
    NUMBER(ask(d, AL_ATTR_COMPUTE_CAP_MAJOR), 9);
    NUMBER(ask(d, AL_ATTR_ECC_MODE), 1);
    NUMBER(ask(d, AL_ATTR_FABRIC_STATE), 0);
    NUMBER(ask(d, AL_ATTR_INFOROM_CHECKSUM), 1);
    STATUS(ask(d, AL_ATTR_FABRIC_CLIQUE), UNSUPPORTED); // without a fabric only its state is told
    STATUS(ask(d, AL_ATTR_GOM), UNSUPPORTED);
    d = al_device_free(d);
    al_snapshot_free(s);
}

static void a_library_without_some_functions_serves(void **state) {
    (void)state;
    if (!*standin())
        skip();
    struct al_snapshot *s = al_snapshot_new();
    struct al_device *d =
        open_standin("missing nvmlDeviceGetMemoryInfo_v2\nmissing nvmlDeviceGetPowerUsage\n"
                     "missing nvmlDeviceGetComputeRunningProcesses_v3\n"
                     "missing nvmlDeviceGetProcessesUtilizationInfo\n");
    assert_int_equal(d->ops->sample(d, s, AL_GROUP_FAST | AL_GROUP_PROCESS, al_monotonic_ns()), 0);
    NUMBER(s->gpus[0].m[AL_GPU_MEM_USED], 4e8); // v1: the reserve is in it
    STATUS(s->gpus[0].m[AL_GPU_MEM_RESERVED], UNSUPPORTED);
    STATUS(s->gpus[0].m[AL_GPU_POWER], MISSING);
    NUMBER(s->rows[0].memory_bytes, 250 * 1048576.0);
    d = al_device_free(d);
    al_snapshot_free(s);
}

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    unsetenv("ALULA_SCENARIO");
    return unlink(path);
}

static const struct CMUnitTest standin_tests[] = {
    cmocka_unit_test(every_metric_arrives),
    cmocka_unit_test(attributes_arrive),
    cmocka_unit_test(a_library_without_some_functions_serves),
};
int standin_suite(void) {
    return cmocka_run_group_tests_name("device: stand-in driver", standin_tests, make_file, remove_file);
}
