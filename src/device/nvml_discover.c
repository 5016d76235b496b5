// SPDX-License-Identifier: Apache-2.0
// Which GPUs there are: enumeration by UUID, MIG devices, GPUs that fall off the bus and come back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "device/nvml_backend.h"
#include "model/select.h"

#define DISCOVER_NS (5 * AL_NS_PER_S) // MIG devices come and go; the count costs 0.3 us, the MIG mode 0.1 ms a GPU
// While something is lost: enumerate with growing pauses; from ANEW_FROM_NS on initialise anew, more seldom while other
// GPUs are fine, for which that is a gap of some 20 ms (H200) or seconds (without persistence).
#define RETRY_FIRST_NS AL_NS_PER_S
#define ANEW_FROM_NS (8 * AL_NS_PER_S)
#define RETRY_MAX_NS (30 * AL_NS_PER_S)
#define RETRY_MAX_OTHERS_NS (300 * AL_NS_PER_S)
#define MIG_MAX 64 // more than any GPU can be cut into; a bound for a driver that answers nonsense

static void text(char *out, size_t size, int result) {
    if (result != AL_NVML_SUCCESS)
        out[0] = '\0';
    out[size - 1] = '\0';
    (void)al_str_clean(out);
}

static void read_pci(struct al_nvml *n, struct al_nvml_gpu *g) {
    struct nvml_pci_info pci = {.busId = ""};
    if (NVML(n, nvmlDeviceGetPciInfo_v3, (g->handle, &pci)) == AL_NVML_SUCCESS) {
        pci.busId[sizeof pci.busId - 1] = '\0';
        (void)al_str_copy(g->info.pci_bus_id, sizeof g->info.pci_bus_id, pci.busId);
    } else {
        struct nvml_pci_info_v2 old = {.busIdLegacy = ""};
        int result = NVML(n, nvmlDeviceGetPciInfo_v2, (g->handle, &old));
        if (result != AL_NVML_SUCCESS)
            result = NVML(n, nvmlDeviceGetPciInfo, (g->handle, &old));
        if (result == AL_NVML_SUCCESS)
            (void)snprintf(g->info.pci_bus_id, sizeof g->info.pci_bus_id, "%08X:%02X:%02X.0", old.domain, old.bus,
                           old.device);
    }
    (void)al_str_clean(g->info.pci_bus_id);
}

static void read_identity(struct al_nvml *n, struct al_nvml_gpu *g) {
    struct al_gpu_info *i = &g->info;
    text(i->name, sizeof i->name, NVML(n, nvmlDeviceGetName, (g->handle, i->name, sizeof i->name)));
    text(i->serial, sizeof i->serial, NVML(n, nvmlDeviceGetSerial, (g->handle, i->serial, sizeof i->serial)));
    if (NVML(n, nvmlDeviceGetMinorNumber, (g->handle, &i->minor)))
        i->minor = 0;
    if (NVML(n, nvmlDeviceGetArchitecture, (g->handle, &i->architecture)))
        i->architecture = 0;
    read_pci(n, g);
}

// "NVIDIA H100 MIG 1g.10gb" names its profile; without that, it follows from the slices.
static void read_profile(struct al_nvml *n, struct al_nvml_gpu *g) {
    const char *mark = strstr(g->info.name, " MIG ");
    struct nvml_attributes a;
    memset(&a, 0, sizeof a);
    if (mark) {
        (void)al_str_copy(g->info.mig_profile, sizeof g->info.mig_profile, mark + strlen(" MIG "));
        return;
    }
    int result = NVML(n, nvmlDeviceGetAttributes_v2, (g->handle, &a));
    if (result != AL_NVML_SUCCESS)
        result = NVML(n, nvmlDeviceGetAttributes, (g->handle, &a));
    if (result != AL_NVML_SUCCESS || a.gpuInstanceSliceCount > 99 || a.memorySizeMB > 1U << 30)
        return;
    unsigned gib = (unsigned)((a.memorySizeMB + 512) / 1024);
    if (a.computeInstanceSliceCount && a.computeInstanceSliceCount < a.gpuInstanceSliceCount)
        (void)snprintf(g->info.mig_profile, sizeof g->info.mig_profile, "%uc.%ug.%ugb", a.computeInstanceSliceCount,
                       a.gpuInstanceSliceCount, gib);
    else
        (void)snprintf(g->info.mig_profile, sizeof g->info.mig_profile, "%ug.%ugb", a.gpuInstanceSliceCount, gib);
}

static void read_mig_identity(struct al_nvml *n, struct al_nvml_gpu *g, const struct al_nvml_gpu *parent) {
    struct al_gpu_info *i = &g->info;
    unsigned id = 0;
    text(i->name, sizeof i->name, NVML(n, nvmlDeviceGetName, (g->handle, i->name, sizeof i->name)));
    int result = NVML(n, nvmlDeviceGetGpuInstanceId, (g->handle, &id));
    i->gpu_instance = result == AL_NVML_SUCCESS ? id : AL_NVML_NO_INSTANCE;
    result = NVML(n, nvmlDeviceGetComputeInstanceId, (g->handle, &id));
    i->compute_instance = result == AL_NVML_SUCCESS ? id : AL_NVML_NO_INSTANCE;
    i->is_mig = true;
    i->minor = parent->info.minor;
    i->architecture = parent->info.architecture;
    (void)al_str_copy(i->serial, sizeof i->serial, parent->info.serial);
    (void)al_str_copy(i->pci_bus_id, sizeof i->pci_bus_id, parent->info.pci_bus_id);
    read_profile(n, g);
}

void al_nvml_gpu_release(struct al_nvml *n, struct al_nvml_gpu *g) {
    for (int i = 0; i < 2; i++) {
        if (g->gpm[i])
            (void)NVML(n, nvmlGpmSampleFree, (g->gpm[i]));
        g->gpm[i] = NULL;
    }
    g->gpm_ns = 0;
    g->gpm_status = AL_STATUS_UNREAD;
    g->xid_status = AL_STATUS_UNREAD;
    g->handle = NULL;
}

// Constants and "unsupported" are learnt anew: a reset can change both.
static void forget(struct al_nvml_gpu *g) {
    memset(g->readings, 0, sizeof g->readings);
    memset(g->fields, 0, sizeof g->fields);
    memset(g->structs, 0, sizeof g->structs);
    g->links_known = false;
}

void al_nvml_mark_lost(struct al_nvml *n, struct al_nvml_gpu *g, enum al_status status) {
    g->info.status = status;
    if (!n->retry_wait_ns) {
        n->retry_wait_ns = RETRY_FIRST_NS;
        n->discover_ns = n->tick_ns + n->retry_wait_ns;
    }
}

static struct al_nvml_gpu *find(struct al_nvml *n, const char *uuid) {
    for (uint32_t i = 0; i < n->gpu_count; i++)
        if (strcmp(n->gpus[i]->info.uuid, uuid) == 0)
            return n->gpus[i];
    return NULL;
}

static struct al_nvml_gpu *add(struct al_nvml *n) {
    struct al_nvml_gpu *g = n->gpu_count < AL_GPU_MAX ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->info.parent = -1;
    g->info.gpu_instance = g->info.compute_instance = AL_NVML_NO_INSTANCE;
    g->info.status = AL_STATUS_OK;
    n->gpus[n->gpu_count++] = g;
    return g;
}

// The known GPU at an index that does not say who it is any more, or a nameless row for one never seen alive.
static struct al_nvml_gpu *unreachable(struct al_nvml *n, uint32_t index) {
    for (uint32_t i = 0; i < n->gpu_count; i++)
        if (!n->gpus[i]->info.is_mig && !n->gpus[i]->present && n->gpus[i]->info.index == index)
            return n->gpus[i];
    struct al_nvml_gpu *g = add(n);
    if (g)
        g->info.index = index;
    return g;
}

// A nameless row that turns out to be the GPU which now answers at its index is that GPU from now on.
static struct al_nvml_gpu *by_uuid(struct al_nvml *n, const char *uuid, uint32_t index, bool mig) {
    struct al_nvml_gpu *g = find(n, uuid);
    for (uint32_t i = 0; !g && !mig && i < n->gpu_count; i++)
        if (!n->gpus[i]->info.uuid[0] && n->gpus[i]->info.index == index)
            g = n->gpus[i];
    if (!g)
        g = add(n);
    return g;
}

static void attach(struct al_nvml *n, struct al_nvml_gpu *g, struct nvml_device *handle, const char *uuid,
                   const struct al_nvml_gpu *parent) {
    bool fresh = !g->info.uuid[0], changed = g->handle != handle || g->info.status != AL_STATUS_OK;
    if (changed && g->handle)
        al_nvml_gpu_release(n, g);
    g->handle = handle;
    g->info.status = AL_STATUS_OK;
    (void)al_str_copy(g->info.uuid, sizeof g->info.uuid, uuid);
    if (changed)
        forget(g);
    if (fresh && parent)
        read_mig_identity(n, g, parent);
    else if (fresh)
        read_identity(n, g);
}

static int handle_at(struct al_nvml *n, unsigned index, struct nvml_device **ret) {
    *ret = NULL;
    int result = NVML(n, nvmlDeviceGetHandleByIndex_v2, (index, ret));
    if (result == AL_NVML_ERROR_FUNCTION_NOT_FOUND)
        result = NVML(n, nvmlDeviceGetHandleByIndex, (index, ret));
    return result == AL_NVML_SUCCESS && !*ret ? AL_NVML_ERROR_UNKNOWN : result;
}

static int uuid_of(struct al_nvml *n, struct nvml_device *handle, char *out, size_t size) {
    out[0] = '\0';
    int result = NVML(n, nvmlDeviceGetUUID, (handle, out, (unsigned)size));
    out[size - 1] = '\0';
    (void)al_str_clean(out);
    return result == AL_NVML_SUCCESS && !out[0] ? AL_NVML_ERROR_UNKNOWN : result;
}

static void discover_mig(struct al_nvml *n, struct al_nvml_gpu *parent) {
    unsigned current = 0, pending = 0, max = 0;
    char uuid[AL_UUID_MAX];
    int result = NVML(n, nvmlDeviceGetMigMode, (parent->handle, &current, &pending));
    bool on = result == AL_NVML_SUCCESS && current == 1;
    if (on != parent->info.mig_enabled)
        forget(parent);
    parent->info.mig_enabled = on;
    if (!on || NVML(n, nvmlDeviceGetMaxMigDeviceCount, (parent->handle, &max)) != AL_NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < max && i < MIG_MAX; i++) { // indices are sparse: a hole is not the end
        struct nvml_device *handle = NULL;
        if (NVML(n, nvmlDeviceGetMigDeviceHandleByIndex, (parent->handle, i, &handle)) != AL_NVML_SUCCESS || !handle ||
            uuid_of(n, handle, uuid, sizeof uuid) != AL_NVML_SUCCESS)
            continue;
        struct al_nvml_gpu *g = by_uuid(n, uuid, i, true);
        if (!g)
            return;
        attach(n, g, handle, uuid, parent);
        g->present = true;
        g->info.index = i;
        for (uint32_t p = 0; p < n->gpu_count; p++)
            if (n->gpus[p] == parent)
                g->info.parent = (int32_t)p;
    }
}

static void discover_at(struct al_nvml *n, unsigned index) {
    struct nvml_device *handle;
    char uuid[AL_UUID_MAX];
    int result = handle_at(n, index, &handle);
    if (result == AL_NVML_SUCCESS && !n->api.nvmlDeviceGetUUID) // very old: the index is all the identity there is
        (void)snprintf(uuid, sizeof uuid, "index-%u", index);
    else if (result == AL_NVML_SUCCESS)
        result = uuid_of(n, handle, uuid, sizeof uuid);
    struct al_nvml_gpu *g =
        result == AL_NVML_SUCCESS ? by_uuid(n, uuid, index, false) : unreachable(n, index);
    if (!g)
        return;
    if (result != AL_NVML_SUCCESS) {
        g->present = true;
        al_nvml_mark_lost(n, g, al_nvml_status(result));
        return;
    }
    attach(n, g, handle, uuid, NULL);
    g->present = true;
    g->info.index = index;
    if (n->api.nvmlDeviceGetMigMode)
        discover_mig(n, g);
}

static void drop(struct al_nvml *n, struct al_nvml_gpu *g) {
    al_nvml_gpu_release(n, g);
    free(g->procs);
    free(g);
}

// A MIG device that is not there was destroyed, unless its GPU is lost; a GPU that is not there is lost and keeps its
// row.
static void settle(struct al_nvml *n) {
    const uint32_t count = n->gpu_count;
    uint32_t kept = 0;
    int32_t moved[AL_GPU_MAX];
    for (uint32_t i = 0; i < count; i++)
        if (!n->gpus[i]->present && !n->gpus[i]->info.is_mig)
            al_nvml_mark_lost(n, n->gpus[i], AL_STATUS_LOST);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_nvml_gpu *g = n->gpus[i];
        bool with_its_gpu = g->info.is_mig && n->gpus[g->info.parent]->info.status == AL_STATUS_LOST;
        if (!g->present && with_its_gpu)
            al_nvml_mark_lost(n, n->gpus[i], AL_STATUS_LOST);
        moved[i] = g->present || with_its_gpu || !g->info.is_mig ? (int32_t)kept++ : -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct al_nvml_gpu *g = n->gpus[i];
        if (moved[i] < 0) {
            drop(n, g);
            continue;
        }
        n->gpus[moved[i]] = g;
        if (g->info.parent >= 0)
            g->info.parent = moved[g->info.parent];
    }
    n->gpu_count = kept;
}

// Physical GPUs by index (of two, the one that answers first), then MIG devices by parent and index.
static int by_position(const void *a, const void *b) {
    const struct al_nvml_gpu *x = *(const struct al_nvml_gpu *const *)a, *y = *(const struct al_nvml_gpu *const *)b;
    if (x->info.is_mig != y->info.is_mig)
        return x->info.is_mig ? 1 : -1;
    if (x->info.is_mig && x->info.parent != y->info.parent)
        return x->info.parent < y->info.parent ? -1 : 1;
    if (x->info.index != y->info.index)
        return x->info.index < y->info.index ? -1 : 1;
    return (x->info.status != AL_STATUS_OK) - (y->info.status != AL_STATUS_OK);
}

static void rebuild_order(struct al_nvml *n) {
    memcpy(n->order, n->gpus, n->gpu_count * sizeof *n->order);
    n->order_count = n->gpu_count;
    qsort(n->order, n->order_count, sizeof *n->order, by_position);
    for (uint32_t i = 0; i < n->gpu_count; i++)
        n->gpus[i]->selected = al_gpu_selected(n->filter, &n->gpus[i]->info);
}

int al_nvml_discover(struct al_nvml *n) {
    unsigned count = 0;
    bool lost = false;
    int result = NVML(n, nvmlDeviceGetCount_v2, (&count));
    if (result == AL_NVML_ERROR_FUNCTION_NOT_FOUND)
        result = NVML(n, nvmlDeviceGetCount, (&count));
    n->discover_ns = n->tick_ns + DISCOVER_NS;
    if (result != AL_NVML_SUCCESS && result != AL_NVML_ERROR_UNINITIALIZED)
        return result == AL_NVML_ERROR_NO_PERMISSION ? AL_E_DENIED : AL_E_NODRIVER;
    for (uint32_t i = 0; i < n->gpu_count; i++)
        n->gpus[i]->present = false;
    for (unsigned i = 0; result == AL_NVML_SUCCESS && i < count && i < AL_GPU_MAX; i++)
        discover_at(n, i);
    settle(n);
    rebuild_order(n);
    for (uint32_t i = 0; i < n->gpu_count; i++)
        lost |= n->gpus[i]->info.status == AL_STATUS_LOST;
    if (!lost)
        n->retry_wait_ns = 0;
    else if (n->retry_wait_ns)
        n->discover_ns = n->tick_ns + n->retry_wait_ns;
    return 0;
}

static void mark_all_lost(struct al_nvml *n) {
    for (uint32_t i = 0; i < n->gpu_count; i++)
        al_nvml_mark_lost(n, n->gpus[i], AL_STATUS_LOST);
}

// NVML keeps a lost GPU lost until it is initialised anew, and holding its device node keeps others from resetting it.
static void start_anew(struct al_nvml *n) {
    n->anew_ns = n->tick_ns;
    al_nvml_shutdown(n);
    if (al_nvml_init(n) == AL_NVML_SUCCESS)
        (void)al_nvml_discover(n);
    else
        mark_all_lost(n);
}

static bool others_are_fine(const struct al_nvml *n) {
    for (uint32_t i = 0; i < n->gpu_count; i++)
        if (!n->gpus[i]->info.is_mig && n->gpus[i]->info.status == AL_STATUS_OK)
            return true;
    return false;
}

void al_nvml_maintain(struct al_nvml *n) {
    // At once; from the second attempt on with back-off, also when the driver says so again right after it was made.
    if (n->lost_driver && !n->retry_wait_ns && n->tick_ns - n->anew_ns >= RETRY_FIRST_NS) {
        n->retry_wait_ns = RETRY_FIRST_NS;
        start_anew(n);
        n->discover_ns = n->tick_ns + (n->lost_driver ? RETRY_FIRST_NS : DISCOVER_NS);
        return;
    }
    if (n->tick_ns < n->discover_ns)
        return;
    if (!n->retry_wait_ns) {
        (void)al_nvml_discover(n);
        return;
    }
    int64_t longest = others_are_fine(n) ? RETRY_MAX_OTHERS_NS : RETRY_MAX_NS;
    bool anew = n->lost_driver || n->retry_wait_ns >= ANEW_FROM_NS;
    n->retry_wait_ns = n->retry_wait_ns * 2 < longest ? n->retry_wait_ns * 2 : longest;
    n->discover_ns = n->tick_ns + n->retry_wait_ns;
    if (anew)
        start_anew(n);
    else
        (void)al_nvml_discover(n);
}
