// SPDX-License-Identifier: Apache-2.0
// Finding and loading the driver's library, initialising it, giving it back.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/clock.h"
#include "base/dl.h"
#include "base/err.h"
#include "base/str.h"
#include "device/nvml_backend.h"
#include "model/select.h"

#define NAME "libnvidia-ml.so.1"

// The loader's own search first; then where WSL, container toolkits, driver containers and distributions put it. Never
// an unversioned name: that is the CUDA toolkit's stub, which answers nothing.
const char *const al_nvml_places[] = {
    NAME,
    "/usr/lib/wsl/lib/" NAME,
    "/usr/local/nvidia/lib64/" NAME,
    "/usr/lib/x86_64-linux-gnu/nvidia/current/" NAME,
    "/usr/lib/x86_64-linux-gnu/" NAME,
    "/usr/lib/aarch64-linux-gnu/nvidia/current/" NAME,
    "/usr/lib/aarch64-linux-gnu/" NAME,
    "/usr/lib64/nvidia/" NAME,
    "/usr/lib64/" NAME,
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/" NAME,
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/" NAME,
    "/run/nvidia/driver/usr/lib64/" NAME,
    NULL,
};

static const struct al_device_ops nvml_ops;

static int __attribute__((format(printf, 3, 4))) fail(struct al_device_error *e, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    (void)al_str_clean(e->message);
    return code;
}

static int open_at(const char *path, void **ret_handle, char *why, size_t size) {
    const char *const paths[] = {path, NULL};
    const char *found;
    return al_dl_open(paths, ret_handle, &found, why, size);
}

// A library that exists but does not load is the more useful message than the many places where there is none.
static int open_anywhere(void **ret_handle, struct al_device_error *e) {
    char why[192], first[192] = "";
    for (size_t i = 0; al_nvml_places[i]; i++) {
        if (open_at(al_nvml_places[i], ret_handle, why, sizeof why) == 0)
            return 0;
        if (!first[0] && !strstr(why, "No such file"))
            (void)al_str_copy(first, sizeof first, why);
    }
    if (first[0])
        return fail(e, AL_E_NOLIB, "%s does not load: %s", NAME, first);
    return fail(e, AL_E_NOLIB, "%s was not found: is the NVIDIA driver installed here (or handed to this container)?",
                NAME);
}

static int open_library(const char *library, void **ret_handle, struct al_device_error *e) {
    char why[192];
    if (!library && !getauxval(AT_SECURE)) // a set-user-id binary takes no library from its caller's environment
        library = getenv("ALULA_NVML_LIBRARY");
    if (!library || !*library)
        return open_anywhere(ret_handle, e);
    if (open_at(library, ret_handle, why, sizeof why) == 0)
        return 0;
    return fail(e, AL_E_NOLIB, "%s", why);
}

static int resolve(struct al_nvml *n, struct al_device_error *e) {
    static const struct al_dl_symbol symbols[] = {
#define X(name, params) {#name, offsetof(union nvml_api, name), false},
        AL_NVML_FUNCTIONS(X)
#undef X
    };
    const char *missing = NULL;
    int result = al_dl_resolve(n->library, symbols, NVML_FN_COUNT, &n->api, &missing);
    if (!result && !n->api.nvmlInit_v2 && !n->api.nvmlInit)
        missing = "nvmlInit_v2";
    else if (!result && !n->api.nvmlDeviceGetCount_v2 && !n->api.nvmlDeviceGetCount)
        missing = "nvmlDeviceGetCount_v2";
    else if (!result && !n->api.nvmlDeviceGetHandleByIndex_v2 && !n->api.nvmlDeviceGetHandleByIndex)
        missing = "nvmlDeviceGetHandleByIndex_v2";
    if (!missing)
        return result;
    return fail(e, AL_E_NOSYM, "the driver library lacks %s: it is no NVML, or one too old", missing);
}

struct al_nvml *al_nvml_new(void) {
    struct al_nvml *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->base.ops = &nvml_ops;
    n->monotonic = al_monotonic_ns;
    n->realtime = al_realtime_ns;
    return n;
}

int al_nvml_init(struct al_nvml *n) {
    int result = NVML(n, nvmlInit_v2, ());
    if (!n->api.nvmlInit_v2)
        result = NVML(n, nvmlInit, ());
    n->initialised = result == AL_NVML_SUCCESS;
    n->lost_driver = !n->initialised;
    return result;
}

void al_nvml_shutdown(struct al_nvml *n) {
    if (!n->initialised)
        return;
    for (uint32_t i = 0; i < n->gpu_count; i++)
        al_nvml_gpu_release(n, n->gpus[i]);
    if (n->events)
        (void)NVML(n, nvmlEventSetFree, (n->events));
    n->events = NULL;
    n->events_status = AL_STATUS_UNREAD;
    (void)NVML(n, nvmlShutdown, ());
    n->initialised = false;
}

static int init_error(struct al_nvml *n, int result, struct al_device_error *e) {
    char version[40] = "unknown";
    switch (result) {
    case AL_NVML_ERROR_DRIVER_NOT_LOADED:
        return fail(e, AL_E_NODRIVER, "the NVIDIA kernel driver is not loaded");
    case AL_NVML_ERROR_NO_PERMISSION:
        return fail(e, AL_E_DENIED, "no permission to use the NVIDIA driver: see the rights of /dev/nvidiactl");
    case AL_NVML_ERROR_LIB_RM_VERSION_MISMATCH: // the library's own version is told before it is initialised
        (void)NVML(n, nvmlSystemGetNVMLVersion, (version, sizeof version));
        return fail(e, AL_E_MISMATCH,
                    "the kernel driver and its library (version %s) are of different versions: restart the machine or "
                    "reload the driver",
                    version);
    case AL_NVML_ERROR_TIMEOUT:
        return fail(e, AL_E_TIMEOUT, "the NVIDIA driver did not answer in time");
    case AL_NVML_ERROR_GPU_IS_LOST:
        return fail(e, AL_E_LOST, "a GPU has fallen off the bus, and the driver cannot be initialised");
    default:
        return fail(e, AL_E_NODRIVER, "the NVIDIA driver cannot be initialised: %s (%d)", al_nvml_result_text(result),
                    result);
    }
}

static void read_versions(struct al_nvml *n) {
    int cuda = 0;
    if (NVML(n, nvmlSystemGetDriverVersion, (n->driver_version, sizeof n->driver_version)))
        n->driver_version[0] = '\0';
    if (NVML(n, nvmlSystemGetNVMLVersion, (n->nvml_version, sizeof n->nvml_version)))
        n->nvml_version[0] = '\0';
    int result = NVML(n, nvmlSystemGetCudaDriverVersion_v2, (&cuda));
    if (result)
        result = NVML(n, nvmlSystemGetCudaDriverVersion, (&cuda));
    if (result == AL_NVML_SUCCESS && cuda >= 1000 && cuda < 1000000) // 13000 is 13.0
        (void)snprintf(n->cuda_version, sizeof n->cuda_version, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    n->driver_version[sizeof n->driver_version - 1] = n->nvml_version[sizeof n->nvml_version - 1] = '\0';
    (void)al_str_clean(n->driver_version);
    (void)al_str_clean(n->nvml_version);
}

int al_nvml_start(struct al_nvml *n, const char *gpus, struct al_device_error *reterr_error) {
    if (gpus && *gpus && !(n->filter = strdup(gpus)))
        return AL_E_NOMEM;
    n->tick_ns = n->tick_mono_ns = n->monotonic();
    int result = al_nvml_init(n);
    if (result != AL_NVML_SUCCESS)
        return init_error(n, result, reterr_error);
    read_versions(n);
    result = al_nvml_discover(n);
    if (result)
        return fail(reterr_error, result, "%s", al_error_text(result));
    if (n->order_count == 0)
        return fail(reterr_error, AL_E_NOGPU, "the NVIDIA driver is loaded but names no GPU");
    for (uint32_t i = 0; i < n->order_count; i++)
        if (n->order[i]->selected)
            return 0;
    return fail(reterr_error, AL_E_NOENT, "no GPU matches \"%s\"", gpus ? gpus : "");
}

static void nvml_free(struct al_device *d) {
    struct al_nvml *n = (struct al_nvml *)d;
    al_nvml_shutdown(n);
    for (uint32_t i = 0; i < n->gpu_count; i++) {
        free(n->gpus[i]->procs);
        free(n->gpus[i]);
    }
    if (n->library)
        (void)dlclose(n->library);
    free(n->samples);
    free(n->list);
    free(n->utils);
    free(n->utils_old);
    free(n->spare);
    free(n->filter);
    free(n);
}

static const struct al_device_ops nvml_ops = {
    .name = "nvml", .sample = al_nvml_sample, .attr = al_nvml_attr, .stats = al_nvml_stats, .free = nvml_free};

int al_nvml_open(const struct al_nvml_options *options, struct al_device **ret, struct al_device_error *reterr_error) {
    char item[64];
    reterr_error->message[0] = '\0';
    if (options->gpus && al_gpu_select_check(options->gpus, item, sizeof item))
        return fail(reterr_error, AL_E_INVALID, "\"%s\" is no GPU index, UUID or PCI bus id", item);
    struct al_nvml *n = al_nvml_new();
    if (!n)
        return fail(reterr_error, AL_E_NOMEM, "%s", al_error_text(AL_E_NOMEM));
    int result = open_library(options->library, &n->library, reterr_error);
    if (!result)
        result = resolve(n, reterr_error);
    if (!result)
        result = al_nvml_start(n, options->gpus, reterr_error);
    if (result) {
        nvml_free(&n->base);
        return result;
    }
    *ret = &n->base;
    return 0;
}

struct al_device *al_device_free(struct al_device *d) {
    if (d)
        d->ops->free(d);
    return NULL;
}
