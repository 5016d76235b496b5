// SPDX-License-Identifier: Apache-2.0
// Attributes: what a GPU is. One call for each question, as nvidia-smi asks (its calls were recorded with 580.159).
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "device/nvml_attr.h"

#define NO_FN NVML_FN_COUNT
#define MILLI 1e-3
#define SCOPE_GPU 0
#define SCOPE_MODULE 1

enum shape {
    TEXT,     // (device, char *, size)
    TEXT_ARG, // (device, arg, char *, size)
    TEXT_ANY, // (device, char *): NVML's own limit is 64 bytes
    U32,      // (device, unsigned *)
    U32_ARG,  // (device, arg, unsigned *)
    U32_1ST,  // (device, unsigned *, unsigned *): the first
    U32_2ND,  // ... the second
    U64,      // (device, unsigned long long *)
    FIELD     // a field value: fn is the id, arg the scope
};

struct row {
    uint8_t attr, shape, arg;
    uint16_t fn, older; // older: asked when fn is missing
    double scale;
};

#define ROW(attr, shape, function, arg) {AL_ATTR_##attr, shape, arg, NVML_FN_##function, NO_FN, 1}
#define ROW2(attr, shape, function, second) {AL_ATTR_##attr, shape, 0, NVML_FN_##function, NVML_FN_##second, 1}
#define FIELD_ROW(attr, id, scope, scale) {AL_ATTR_##attr, FIELD, scope, AL_NVML_FI_##id, NO_FN, scale}

static const struct row rows[] = {
    ROW(NAME, TEXT, nvmlDeviceGetName, 0),
    ROW(SERIAL, TEXT, nvmlDeviceGetSerial, 0),
    ROW(UUID, TEXT, nvmlDeviceGetUUID, 0),
    ROW(VBIOS, TEXT, nvmlDeviceGetVbiosVersion, 0),
    ROW(BOARD_PART, TEXT, nvmlDeviceGetBoardPartNumber, 0),
    ROW(INFOROM_IMAGE, TEXT, nvmlDeviceGetInforomImageVersion, 0),
    ROW(INFOROM_OEM, TEXT_ARG, nvmlDeviceGetInforomVersion, AL_NVML_INFOROM_OEM),
    ROW(INFOROM_ECC, TEXT_ARG, nvmlDeviceGetInforomVersion, AL_NVML_INFOROM_ECC),
    ROW(INFOROM_POWER, TEXT_ARG, nvmlDeviceGetInforomVersion, AL_NVML_INFOROM_POWER),
    ROW(GSP_VERSION, TEXT_ANY, nvmlDeviceGetGspFirmwareVersion, 0),
    ROW(GSP_MODE, U32_1ST, nvmlDeviceGetGspFirmwareMode, 0),
    ROW(GSP_MODE_DEFAULT, U32_2ND, nvmlDeviceGetGspFirmwareMode, 0),
    ROW(BRAND, U32, nvmlDeviceGetBrand, 0),
    ROW(MINOR, U32, nvmlDeviceGetMinorNumber, 0),
    ROW(ARCHITECTURE, U32, nvmlDeviceGetArchitecture, 0),
    ROW(BOARD_ID, U32, nvmlDeviceGetBoardId, 0),
    ROW(DISPLAY_ATTACHED, U32, nvmlDeviceGetDisplayMode, 0),
    ROW(DISPLAY_ACTIVE, U32, nvmlDeviceGetDisplayActive, 0),
    ROW(PERSISTENCE, U32, nvmlDeviceGetPersistenceMode, 0),
    ROW(ACCOUNTING, U32, nvmlDeviceGetAccountingMode, 0),
    ROW(ACCOUNTING_BUFFER, U32, nvmlDeviceGetAccountingBufferSize, 0),
    ROW2(DRIVER_MODEL, U32_1ST, nvmlDeviceGetDriverModel_v2, nvmlDeviceGetDriverModel),
    ROW2(DRIVER_MODEL_PENDING, U32_2ND, nvmlDeviceGetDriverModel_v2, nvmlDeviceGetDriverModel),
    ROW(GOM, U32_1ST, nvmlDeviceGetGpuOperationMode, 0),
    ROW(GOM_PENDING, U32_2ND, nvmlDeviceGetGpuOperationMode, 0),
    ROW(COMPUTE_MODE, U32, nvmlDeviceGetComputeMode, 0),
    ROW(ECC_MODE, U32_1ST, nvmlDeviceGetEccMode, 0),
    ROW(ECC_MODE_PENDING, U32_2ND, nvmlDeviceGetEccMode, 0),
    ROW(MIG_MODE, U32_1ST, nvmlDeviceGetMigMode, 0),
    ROW(MIG_MODE_PENDING, U32_2ND, nvmlDeviceGetMigMode, 0),
    ROW(VIRTUALIZATION, U32, nvmlDeviceGetVirtualizationMode, 0),
    ROW2(CLOCKS_SUPPORTED_REASONS, U64, nvmlDeviceGetSupportedClocksEventReasons,
         nvmlDeviceGetSupportedClocksThrottleReasons),
    ROW(VGPU_FRACTIONAL, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_FRACTIONAL),
    ROW(VGPU_TIMESLICE_PROFILE, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_TIMESLICE_PROFILES),
    ROW(VGPU_TIMESLICE_SIZES, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_TIMESLICE_SIZES),
    ROW(VGPU_PLACEMENTS, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_HOMOGENEOUS_PLACEMENTS),
    ROW(VGPU_MIG_TIMESLICING, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_MIG_TIMESLICING),
    ROW(VGPU_MIG_TIMESLICING_MODE, U32_ARG, nvmlDeviceGetVgpuCapabilities, AL_NVML_VGPU_CAP_MIG_TIMESLICING_ENABLED),
    ROW(CORES, U32, nvmlDeviceGetNumGpuCores, 0),
    ROW(BUS_WIDTH, U32, nvmlDeviceGetMemoryBusWidth, 0),
    ROW(MIG_DEVICES_MAX, U32, nvmlDeviceGetMaxMigDeviceCount, 0),
    FIELD_ROW(RECOVERY_ACTION, RECOVERY_ACTION, SCOPE_GPU, 1),
    FIELD_ROW(POWER_SMOOTHING, DELAYED_POWER_SMOOTHING, SCOPE_GPU, 1),
    FIELD_ROW(MODULE_POWER_LIMIT, POWER_REQUESTED_LIMIT, SCOPE_MODULE, MILLI),
    FIELD_ROW(MODULE_POWER_ENFORCED, POWER_CURRENT_LIMIT, SCOPE_MODULE, MILLI),
    FIELD_ROW(MODULE_POWER_DEFAULT, POWER_DEFAULT_LIMIT, SCOPE_MODULE, MILLI),
    FIELD_ROW(MODULE_POWER_MIN, POWER_MIN_LIMIT, SCOPE_MODULE, MILLI),
    FIELD_ROW(MODULE_POWER_MAX, POWER_MAX_LIMIT, SCOPE_MODULE, MILLI),
};

struct answer {
    char text[128];
    unsigned first, second;
    unsigned long long wide;
};

typedef int text_fn(struct nvml_device *, char *, unsigned);
typedef int text_arg_fn(struct nvml_device *, unsigned, char *, unsigned);
typedef int text_any_fn(struct nvml_device *, char *);
typedef int u32_fn(struct nvml_device *, unsigned *);
typedef int u32_arg_fn(struct nvml_device *, unsigned, unsigned *);
typedef int u32_pair_fn(struct nvml_device *, unsigned *, unsigned *);
typedef int u64_fn(struct nvml_device *, unsigned long long *);

static int ask(void (*f)(void), struct nvml_device *d, const struct row *r, struct answer *a) {
    switch ((enum shape)r->shape) {
    case TEXT:
        return ((text_fn *)f)(d, a->text, AL_ATTR_TEXT);
    case TEXT_ARG:
        return ((text_arg_fn *)f)(d, r->arg, a->text, AL_ATTR_TEXT);
    case TEXT_ANY:
        return ((text_any_fn *)f)(d, a->text);
    case U32:
        return ((u32_fn *)f)(d, &a->first);
    case U32_ARG:
        return ((u32_arg_fn *)f)(d, r->arg, &a->first);
    case U32_1ST:
        return ((u32_pair_fn *)f)(d, &a->first, &a->second);
    case U32_2ND:
        return ((u32_pair_fn *)f)(d, &a->second, &a->first);
    case U64:
        return ((u64_fn *)f)(d, &a->wide);
    case FIELD:
        break;
    }
    return AL_NVML_ERROR_UNKNOWN;
}

static void ask_field(struct al_nvml *n, struct nvml_device *d, const struct row *r, struct al_attr_value *ret) {
    struct nvml_field_value f = {
        .fieldId = r->fn, .scopeId = r->arg, .valueType = -1, .nvmlReturn = AL_NVML_ERROR_NOT_SUPPORTED};
    bool valid = false;
    int result = NVML(n, nvmlDeviceGetFieldValues, (d, 1, &f));
    if (result == AL_NVML_SUCCESS)
        result = f.nvmlReturn == AL_NVML_ERROR_INVALID_ARGUMENT ? AL_NVML_ERROR_NOT_SUPPORTED : f.nvmlReturn;
    ret->num = al_nvml_scaled(al_nvml_union_number(&f.value, f.valueType, &valid), r->scale);
    ret->status = result == AL_NVML_SUCCESS && !valid ? AL_STATUS_UNSUPPORTED : al_nvml_status(result);
}

void al_nvml_attr_number(struct al_attr_value *ret, int result, uint64_t raw, bool wide) {
    ret->num = (double)raw;
    bool blank = result == AL_NVML_SUCCESS && al_nvml_blank(raw, wide);
    ret->status = blank ? AL_STATUS_UNSUPPORTED : al_nvml_status(result);
}

void al_nvml_attr_text(struct al_attr_value *ret, int result, const char *text) {
    ret->status = al_nvml_status(result);
    if (result == AL_NVML_SUCCESS)
        (void)al_str_copy(ret->text, sizeof ret->text, text);
    (void)al_str_clean(ret->text);
}

static void ask_row(struct al_nvml *n, struct nvml_device *d, const struct row *r, struct al_attr_value *ret) {
    struct answer a;
    if (r->shape == FIELD) {
        ask_field(n, d, r, ret);
        return;
    }
    uint16_t fn = n->api.by_number[r->fn] || r->older == NO_FN ? r->fn : r->older;
    int result = AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    memset(&a, 0, sizeof a);
    if (n->api.by_number[fn]) {
        al_nvml_begin(n, (enum al_nvml_fn)fn);
        result = al_nvml_end(n, (enum al_nvml_fn)fn, ask(n->api.by_number[fn], d, r, &a));
    }
    a.text[sizeof a.text - 1] = '\0';
    if (r->shape == TEXT || r->shape == TEXT_ARG || r->shape == TEXT_ANY)
        al_nvml_attr_text(ret, result, a.text);
    else
        al_nvml_attr_number(ret, result, r->shape == U64 ? a.wide : a.first, r->shape == U64);
}

// What is remembered of a GPU that does not answer any more.
static bool identity(const struct al_gpu_info *i, enum al_attr attr, struct al_attr_value *ret) {
    const char *text = attr == AL_ATTR_NAME         ? i->name
                       : attr == AL_ATTR_UUID       ? i->uuid
                       : attr == AL_ATTR_SERIAL     ? i->serial
                       : attr == AL_ATTR_PCI_BUS_ID ? i->pci_bus_id
                                                    : "";
    if (!*text)
        return false;
    al_nvml_attr_text(ret, AL_NVML_SUCCESS, text);
    return true;
}

static void instance(const struct al_gpu_info *i, enum al_attr attr, struct al_attr_value *ret) {
    uint32_t id = attr == AL_ATTR_GPU_INSTANCE ? i->gpu_instance : i->compute_instance;
    al_nvml_attr_number(ret, i->is_mig ? AL_NVML_SUCCESS : AL_NVML_ERROR_NOT_SUPPORTED, id, false);
}

static void answer(struct al_nvml *n, const struct al_nvml_gpu *g, enum al_attr attr, struct al_attr_value *ret) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].attr == attr) {
            ask_row(n, g->handle, &rows[i], ret);
            return;
        }
    if (attr == AL_ATTR_GPU_INSTANCE || attr == AL_ATTR_COMPUTE_INSTANCE)
        instance(&g->info, attr, ret);
    else
        al_nvml_attr_struct(n, g->handle, attr, ret);
}

int al_nvml_attr(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct al_nvml *n = (struct al_nvml *)d;
    memset(ret, 0, sizeof *ret);
    ret->status = AL_STATUS_UNSUPPORTED;
    if (gpu >= n->shown_count || (unsigned)attr >= AL_ATTR_COUNT)
        return AL_E_NOENT;
    struct al_nvml_gpu *g = n->shown[gpu];
    if (!g->handle || g->info.status == AL_STATUS_LOST) {
        if (!identity(&g->info, attr, ret))
            ret->status = g->info.status;
        return 0;
    }
    n->last_result = AL_NVML_SUCCESS;
    answer(n, g, attr, ret);
    // What only a whole GPU has, a MIG device answers with "invalid argument".
    if (g->info.is_mig && ret->status == AL_STATUS_ERROR && n->last_result == AL_NVML_ERROR_INVALID_ARGUMENT)
        ret->status = AL_STATUS_UNSUPPORTED;
    return 0;
}
