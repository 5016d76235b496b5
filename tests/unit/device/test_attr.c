// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/err.h"
#include "fake.h"

static int fabric_words;

static int fabric(struct nvml_device *d, struct nvml_fabric_v3 *f) {
    (void)d;
    fabric_words++;
    if (f->version != 0x2000024) // a driver that knows v2 only
        return AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    f->state = 3;
    f->cliqueId = 7;
    f->status = AL_NVML_ERROR_NOT_READY;
    f->healthMask = 5;
    for (int i = 0; i < 16; i++)
        f->clusterUuid[i] = (unsigned char)(i * 16);
    return 0;
}

static int fabric_v1(struct nvml_device *d, struct nvml_fabric_v1 *f) {
    (void)d;
    f->state = 0;
    f->cliqueId = 9;
    return 0;
}

static int validate(struct nvml_device *d) {
    return d->result[NVML_FN_nvmlDeviceValidateInforom];
}

static int ecc_mode(struct nvml_device *d, unsigned *current, unsigned *pending) {
    *current = 1;
    *pending = 0;
    return d->parent ? AL_NVML_ERROR_INVALID_ARGUMENT : d->result[NVML_FN_nvmlDeviceGetEccMode];
}

static int platform(struct nvml_device *d, struct nvml_platform_v2 *p) {
    (void)d;
    memset(p->chassisSerialNumber, 'x', sizeof p->chassisSerialNumber); // full: no NUL behind it
    p->ibGuid[0] = 0xab;
    p->hostId = 1;
    return p->version == 0x200002c ? 0 : AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static struct al_attr_value ask(struct al_nvml *n, uint32_t gpu, enum al_attr attr) {
    struct al_attr_value v;
    assert_int_equal(n->base.ops->attr(&n->base, gpu, attr, &v), 0);
    return v;
}

static struct al_nvml *started(struct al_snapshot *s) {
    struct al_nvml *n = fake_started(NULL);
    n->api.nvmlDeviceGetGpuFabricInfoV = fabric;
    n->api.nvmlDeviceGetGpuFabricInfo = fabric_v1;
    n->api.nvmlDeviceValidateInforom = validate;
    n->api.nvmlDeviceGetEccMode = ecc_mode;
    n->api.nvmlDeviceGetPlatformInfo = platform;
    fake_sample(n, s, AL_GROUP_FAST, 1);
    return n;
}

static void attributes_carry_their_status(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    struct al_nvml *n = started(s);
    NUMBER(ask(n, 0, AL_ATTR_ECC_MODE), 1);
    NUMBER(ask(n, 0, AL_ATTR_ECC_MODE_PENDING), 0);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceGetEccMode] = AL_NVML_ERROR_NO_PERMISSION;
    STATUS(ask(n, 0, AL_ATTR_ECC_MODE), DENIED);
    STATUS(ask(n, 0, AL_ATTR_SERIAL), MISSING);
    STATUS(ask(n, 0, AL_ATTR_C2C_MODE), MISSING);
    STATUS(ask(n, 0, AL_ATTR_GPU_INSTANCE), UNSUPPORTED);
    assert_string_equal(ask(n, 0, AL_ATTR_NAME).text, "Fake GPU");
    assert_string_equal(ask(n, 0, AL_ATTR_PCI_BUS_ID).text, "00000000:00:00.0"); // from the older struct
    STATUS(ask(n, 0, AL_ATTR_PCI_BASE_CLASS), UNSUPPORTED);                      // which does not tell this
    NUMBER(ask(n, 0, AL_ATTR_INFOROM_CHECKSUM), 1);
    fake.gpus[0]->result[NVML_FN_nvmlDeviceValidateInforom] = AL_NVML_ERROR_CORRUPTED_INFOROM;
    NUMBER(ask(n, 0, AL_ATTR_INFOROM_CHECKSUM), 0);
    assert_string_equal(ask(n, 0, AL_ATTR_PLATFORM_CHASSIS).text, "xxxxxxxxxxxxxxxx");
    assert_string_equal(ask(n, 0, AL_ATTR_PLATFORM_GUID).text, "0xab00000000000000");
    NUMBER(ask(n, 0, AL_ATTR_PLATFORM_HOST), 1);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void fields_answer_by_scope(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    struct al_nvml *n = started(s);
    STATUS(ask(n, 0, AL_ATTR_MODULE_POWER_LIMIT), UNSUPPORTED); // left as it was
    fake_field(AL_NVML_FI_POWER_REQUESTED_LIMIT, AL_NVML_VALUE_UNSIGNED_INT, 812500);
    fake_field(AL_NVML_FI_RECOVERY_ACTION, AL_NVML_VALUE_UNSIGNED_INT, 2);
    NUMBER(ask(n, 0, AL_ATTR_MODULE_POWER_LIMIT), 812.5);
    NUMBER(ask(n, 0, AL_ATTR_RECOVERY_ACTION), 2);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void older_fabric_structs_are_understood(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    struct al_nvml *n = started(s);
    fabric_words = 0;
    struct al_attr_value v = ask(n, 0, AL_ATTR_FABRIC_STATE);
    NUMBER(v, 3);
    assert_int_equal(fabric_words, 2); // v3 was refused
    NUMBER(ask(n, 0, AL_ATTR_FABRIC_CLIQUE), 7);
    NUMBER(ask(n, 0, AL_ATTR_FABRIC_STATUS), AL_NVML_ERROR_NOT_READY);
    NUMBER(ask(n, 0, AL_ATTR_FABRIC_HEALTH), 5);
    assert_string_equal(ask(n, 0, AL_ATTR_FABRIC_CLUSTER).text, "00102030-4050-6070-8090-a0b0c0d0e0f0");
    n->api.nvmlDeviceGetGpuFabricInfoV = NULL;
    NUMBER(ask(n, 0, AL_ATTR_FABRIC_STATE), 0);
    STATUS(ask(n, 0, AL_ATTR_FABRIC_CLIQUE), UNSUPPORTED); // without a fabric only the state is an answer
    al_snapshot_free(s);
    al_device_free(&n->base);
}

static void a_mig_device_lacks_what_its_gpu_has(void **state) {
    (void)state;
    fake_mig(fake.gpus[0], 3, "MIG-3", 5, 1);
    struct al_snapshot *s = al_snapshot_new();
    struct al_nvml *n = started(s);
    STATUS(ask(n, 1, AL_ATTR_ECC_MODE), UNSUPPORTED);
    NUMBER(ask(n, 1, AL_ATTR_GPU_INSTANCE), 5);
    NUMBER(ask(n, 1, AL_ATTR_COMPUTE_INSTANCE), 1);
    NUMBER(ask(n, 0, AL_ATTR_MIG_MODE), 1);
    al_snapshot_free(s);
    al_device_free(&n->base);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
const struct CMUnitTest attr_tests[] = {
    TEST(attributes_carry_their_status),
    TEST(fields_answer_by_scope),
    TEST(older_fabric_structs_are_understood),
    TEST(a_mig_device_lacks_what_its_gpu_has),
};
const size_t attr_test_count = sizeof attr_tests / sizeof *attr_tests;
