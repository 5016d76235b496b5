// SPDX-License-Identifier: Apache-2.0
// alula doctor: the driver's library, the kernel's half of it, device nodes, and whether it answers.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/doctor.h"
#include "device/device.h"
#include "device/nvml_abi.h"

#define PROBE_MS 15000

// What a child that opened the driver tells.
struct probe {
    int result; // enum al_error
    char message[256];
    char library[256]; // the file that the loader mapped
    char missing[640];
    uint32_t missing_count;
};

// The library as mapped into this process, or "".
static void mapped_library(char *out, size_t size) {
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "re");
    out[0] = '\0';
    while (maps && !out[0] && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        line[strcspn(line, "\n")] = '\0';
        if (path && strstr(path, "libnvidia-ml.so"))
            (void)al_str_copy(out, size, path);
    }
    if (maps)
        (void)fclose(maps);
}

// Length of a function's name without its _v2.
static size_t base_length(const char *name) {
    size_t len = strlen(name);
    return len > 3 && name[len - 3] == '_' && name[len - 2] == 'v' ? len - 3 : len;
}

// A function is missing when the library has it in none of its versions.
static void find_missing(struct probe *p) {
    static const char *const names[] = {
#define X(name, params) #name,
        AL_NVML_FUNCTIONS(X)
#undef X
    };
    struct al_doctor_list list = {0};
    void *handle = p->library[0] ? dlopen(p->library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    const size_t count = sizeof names / sizeof *names;
    for (size_t i = 0; handle && i < count; i++) {
        size_t len = base_length(names[i]);
        bool found = false, told = false;
        for (size_t k = 0; k < count; k++) {
            if (base_length(names[k]) != len || strncmp(names[k], names[i], len) != 0)
                continue;
            found |= dlsym(handle, names[k]) != NULL;
            told |= k < i;
        }
        if (!found && !told)
            al_doctor_list_add(&list, names[i]);
    }
    p->missing_count = list.count;
    (void)al_str_copy(p->missing, sizeof p->missing, al_doctor_list_text(&list));
    if (handle)
        (void)dlclose(handle);
}

static void probe_child(int fd) {
    struct probe p = {0};
    struct al_device *device = NULL;
    struct al_device_error e = {{0}};
    const struct al_nvml_options options = {0};
    p.result = al_nvml_open(&options, &device, &e);
    (void)al_str_copy(p.message, sizeof p.message, *e.message ? e.message : al_error_text(p.result));
    if (!p.result) {
        mapped_library(p.library, sizeof p.library);
        find_missing(&p);
    }
    (void)!write(fd, &p, sizeof p);
    _exit(0);
}

// How the child ended: 0 with *ret filled, AL_E_TIMEOUT, or AL_E_IO when it died (*ret_signal).
static int probe_driver(struct probe *ret, int *ret_signal) {
    int fds[2], status = 0;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return AL_E_IO;
    pid_t child = fork();
    if (child == 0)
        probe_child(fds[1]);
    (void)close(fds[1]);
    struct pollfd poll_fd = {.fd = fds[0], .events = POLLIN};
    int ready;
    do
        ready = child < 0 ? -1 : poll(&poll_fd, 1, PROBE_MS);
    while (ready < 0 && child > 0 && errno == EINTR);
    ssize_t len = ready > 0 ? read(fds[0], ret, sizeof *ret) : -1;
    (void)close(fds[0]);
    if (ready == 0)
        (void)kill(child, SIGKILL);
    // A child that sits in the driver may not die: it is not waited for then.
    if (child > 0 && waitpid(child, &status, ready == 0 ? WNOHANG : 0) == child && WIFSIGNALED(status))
        *ret_signal = WTERMSIG(status);
    if (ready == 0)
        return AL_E_TIMEOUT;
    return len == (ssize_t)sizeof *ret ? 0 : AL_E_IO;
}

static const struct {
    int result;
    const char *todo;
} todos[] = {
    {AL_E_NOLIB, "install the NVIDIA driver; in a container start it with --gpus all (NVIDIA_DRIVER_CAPABILITIES with "
                 "utility), in Kubernetes request nvidia.com/gpu; another place is named by ALULA_NVML_LIBRARY"},
    {AL_E_NOSYM, "install libnvidia-ml.so.1 of the driver in use; a stub of the CUDA toolkit does not do"},
    {AL_E_NODRIVER, "modprobe nvidia as root, then look at dmesg for the reason if it refuses; in a container check that "
                    "/dev/nvidiactl was handed in"},
    {AL_E_DENIED, "give yourself read and write rights on /dev/nvidia* (group video or render in most places); in a "
                  "container hand the devices in"},
    {AL_E_MISMATCH, "restart the machine, or stop all GPU programs and reload the modules (rmmod nvidia_uvm nvidia_drm "
                    "nvidia_modeset nvidia; modprobe nvidia); restart containers that were begun before an update"},
    {AL_E_TIMEOUT, "look for Xid lines in dmesg; a GPU reset or a restart may be needed"},
    {AL_E_LOST, "look for Xid 79 in dmesg, check seating and power, restart the machine"},
    {AL_E_NOGPU, "see the boards on the PCI bus below; dmesg says why the driver took none of them"},
};

static const char *todo_of(int result) {
    for (size_t i = 0; i < sizeof todos / sizeof *todos; i++)
        if (todos[i].result == result)
            return todos[i].todo;
    return "look at dmesg";
}

// "580.159.04" in "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build" or in a file's name.
static void find_version(const char *text, char *out, size_t size) {
    out[0] = '\0';
    for (const char *at = text; (at = strpbrk(at, "0123456789")) != NULL; at += strspn(at, "0123456789.")) {
        size_t len = strspn(at, "0123456789."), digits = strspn(at, "0123456789");
        if (digits >= 2 && at[digits] == '.' && len > digits + 1 && (at == text || !strchr("_x", at[-1]))) {
            (void)al_str_copy_n(out, size, at, at[len - 1] == '.' ? len - 1 : len);
            return;
        }
    }
}

// Files of the library below the root, with the version that the link's target carries.
static void library_files(struct al_doctor *d, struct al_doctor_list *found) {
    char target[256], version[40];
    for (size_t i = 1; al_nvml_places[i]; i++) {
        const char *path = al_nvml_places[i];
        if (!al_doctor_exists(d, path + 1))
            continue;
        al_doctor_list_add(found, path);
        if (al_fs_link(d->root_fd, path + 1, target, sizeof target) > 0 && !d->library_version[0]) {
            find_version(target, version, sizeof version);
            (void)al_str_copy(d->library_version, sizeof d->library_version, version);
        }
    }
}

static void check_library(struct al_doctor *d, const struct probe *p) {
    struct al_doctor_list files = {0};
    library_files(d, &files);
    const char *named = getenv("ALULA_NVML_LIBRARY");
    if (d->standin) {
        al_doctor_add(d, AL_CHECK_NOTE, "driver_library", NULL, "the stand-in driver plays %s; no real GPU is read",
                      getenv("ALULA_SCENARIO"));
        return;
    }
    if (p->library[0]) {
        find_version(p->library, d->library_version, sizeof d->library_version);
        al_doctor_add(d, AL_CHECK_OK, "driver_library", NULL, "%s%s", p->library,
                      named ? " (named by ALULA_NVML_LIBRARY)" : "");
        return;
    }
    if (p->result == AL_E_NOLIB && !files.count)
        al_doctor_add(d, AL_CHECK_PROBLEM, "driver_library", todo_of(AL_E_NOLIB),
                      "libnvidia-ml.so.1 is in none of the loader's folders, /usr/lib/wsl/lib, /usr/local/nvidia/lib64, the "
                      "distributions' folders, /run/nvidia/driver");
    else if (p->result == AL_E_NOLIB)
        al_doctor_add(d, AL_CHECK_PROBLEM, "driver_library",
                      "see why the loader refuses it: another architecture, a missing dependency, rights",
                      "found at %s, but: %s", al_doctor_list_text(&files), p->message);
    else
        al_doctor_add(d, AL_CHECK_OK, "driver_library", NULL, "found%s%s", files.count ? " at " : " by the loader",
                      al_doctor_list_text(&files));
}

static void check_kernel_driver(struct al_doctor *d) {
    char text[1024];
    ssize_t len = al_fs_read(d->root_fd, "proc/driver/nvidia/version", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    d->kernel_loaded = len != AL_E_NOENT || d->wsl;
    if (len > 0)
        find_version(text, d->kernel_version, sizeof d->kernel_version);
    if (d->standin)
        return;
    if (len > 0 && d->kernel_version[0])
        al_doctor_add(d, AL_CHECK_OK, "kernel_driver", NULL, "%s%s", d->kernel_version,
                      strstr(text, "Open Kernel Module") ? " (open kernel module)" : "");
    else if (len > 0)
        al_doctor_add(d, AL_CHECK_UNKNOWN, "kernel_driver", NULL, "loaded; its version is not readable from \"%.120s\"", text);
    else if (len == AL_E_NOENT && d->wsl)
        al_doctor_add(d, AL_CHECK_OK, "kernel_driver", NULL, "WSL: the driver runs on the Windows side");
    else if (len == AL_E_NOENT)
        al_doctor_add(d, AL_CHECK_PROBLEM, "kernel_driver", todo_of(AL_E_NODRIVER),
                      "not loaded: there is no /proc/driver/nvidia/version");
    else
        al_doctor_add(d, AL_CHECK_UNKNOWN, "kernel_driver", NULL, "/proc/driver/nvidia/version: %s",
                      al_error_text((int)len));
    if (!d->kernel_version[0] || !d->library_version[0])
        return;
    if (strcmp(d->kernel_version, d->library_version) == 0)
        al_doctor_add(d, AL_CHECK_OK, "versions", NULL, "kernel driver and library are both %s", d->kernel_version);
    else
        al_doctor_add(d, AL_CHECK_PROBLEM, "versions", todo_of(AL_E_MISMATCH), "kernel driver %s, library %s",
                      d->kernel_version, d->library_version);
}

static bool is_gpu_node(const char *name) {
    uint64_t number;
    return al_str_starts(name, "nvidia") && al_str_u64(name + strlen("nvidia"), &number);
}

static void check_nodes(struct al_doctor *d) {
    struct al_doctor_list denied = {0};
    uint32_t gpus = 0;
    char path[300];
    int fd = openat(d->root_fd, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    bool control = al_doctor_exists(d, "dev/nvidiactl"), uvm = al_doctor_exists(d, "dev/nvidia-uvm");
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        bool gpu = is_gpu_node(e->d_name);
        if (!gpu && strcmp(e->d_name, "nvidiactl") != 0 && strcmp(e->d_name, "nvidia-uvm") != 0)
            continue;
        gpus += gpu;
        (void)snprintf(path, sizeof path, "dev/%s", e->d_name);
        if (faccessat(d->root_fd, path, R_OK | W_OK, AT_EACCESS) != 0)
            al_doctor_list_add(&denied, e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
    if (denied.count)
        al_doctor_add(d, AL_CHECK_PROBLEM, "device_nodes", todo_of(AL_E_DENIED), "no right to read and write: %s",
                      al_doctor_list_text(&denied));
    else if (control && gpus && uvm)
        al_doctor_add(d, AL_CHECK_OK, "device_nodes", NULL, "/dev/nvidiactl, /dev/nvidia-uvm and %u GPU%s", gpus,
                      gpus == 1 ? "" : "s");
    else if (control && gpus)
        al_doctor_add(d, AL_CHECK_NOTE, "device_nodes", "nvidia-modprobe -u -c 0 makes it (CUDA programs need it, alula "
                      "does not)", "/dev/nvidiactl and %u GPU%s, but no /dev/nvidia-uvm", gpus, gpus == 1 ? "" : "s");
    else if (control)
        al_doctor_add(d, AL_CHECK_PROBLEM, "device_nodes", "run nvidia-smi once as root to make them; in a container hand the "
                      "GPUs in", "/dev/nvidiactl, but no /dev/nvidia0, 1 ...");
    else if (d->wsl)
        al_doctor_add(d, AL_CHECK_OK, "device_nodes", NULL, "WSL: /dev/dxg");
    else
        al_doctor_add(d, AL_CHECK_PROBLEM, "device_nodes", todo_of(AL_E_NODRIVER), "there is no /dev/nvidiactl");
}

// What a missing function takes away, by the beginning of its name.
static const char *lost_with(const char *missing) {
    if (strstr(missing, "nvmlGpm"))
        return "an older driver: activity counters (GPM) among others are not shown; a newer driver has them";
    return "what they answer is shown as not available; a newer driver may have them";
}

static void check_answer(struct al_doctor *d, const struct probe *p, int outcome, int signal) {
    if (outcome == AL_E_TIMEOUT)
        al_doctor_add(d, AL_CHECK_PROBLEM, "driver_answer", todo_of(AL_E_TIMEOUT),
                      "the driver did not answer nvmlInit and the listing of GPUs within %d s", PROBE_MS / 1000);
    else if (signal)
        al_doctor_add(d, AL_CHECK_PROBLEM, "driver_answer", "reinstall the driver, or report it to its maker",
                      "the library crashed while it was initialised (signal %d)", signal);
    else if (outcome)
        al_doctor_add(d, AL_CHECK_UNKNOWN, "driver_answer", NULL, "could not be tried: %s", al_error_text(outcome));
    else if (p->result)
        al_doctor_add(d, AL_CHECK_PROBLEM, "driver_answer", todo_of(p->result), "%s", p->message);
    else
        al_doctor_add(d, AL_CHECK_OK, "driver_answer", NULL, "initialises and lists GPUs");
    d->answers = !outcome && !p->result;
    if (d->answers && p->missing_count)
        al_doctor_add(d, AL_CHECK_NOTE, "missing_functions", lost_with(p->missing), "the library lacks %u that alula knows: %s",
                      p->missing_count, p->missing);
    else if (d->answers && p->library[0])
        al_doctor_add(d, AL_CHECK_OK, "missing_functions", NULL, "none");
}

void al_doctor_driver(struct al_doctor *d) {
    struct probe p = {0};
    int signal = 0;
    int outcome = probe_driver(&p, &signal);
    if (outcome)
        p = (struct probe){.result = outcome};
    check_library(d, &p);
    check_kernel_driver(d);
    // Without a kernel driver there are no nodes: one cause, one problem.
    if (!d->standin && (d->kernel_loaded || al_doctor_exists(d, "dev/nvidiactl")))
        check_nodes(d);
    // The library's absence was told already.
    if (p.result != AL_E_NOLIB)
        check_answer(d, &p, outcome, signal);
}
