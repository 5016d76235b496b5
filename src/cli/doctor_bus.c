// SPDX-License-Identifier: Apache-2.0
// alula doctor: boards on the PCI bus, whoever made them.
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/doctor.h"

#define NVIDIA 0x10de
#define CLASS_DISPLAY 0x03     // PCI base classes
#define CLASS_ACCELERATOR 0x12 // "processing accelerators"

// Boards of other makers; vendor ids as in the PCI ID list. A maker's display class is taken only where it sells GPUs:
// Huawei's displays are management controllers.
static const struct {
    unsigned vendor;
    bool display, accelerator;
    const char *what;
} others[] = {
    {0x1002, true, true, "AMD"},        {0x19e5, false, true, "Huawei Ascend"}, {0x8086, true, true, "Intel"},
    {0x1da3, false, true, "Habana Gaudi"}, {0x1e52, false, true, "Tenstorrent"},
};

struct bus {
    struct al_doctor_list supported, bare, nouveau, vfio, suspended, other;
};

static unsigned read_hex(const struct al_doctor *d, const char *device, const char *file) {
    char text[32];
    if (al_fs_readf(d->root_fd, text, sizeof text, "sys/bus/pci/devices/%s/%s", device, file) <= 0)
        return 0;
    return (unsigned)strtoul(text, NULL, 16);
}

static void driver_of(const struct al_doctor *d, const char *device, char *out, size_t size) {
    char path[300], target[256];
    (void)snprintf(path, sizeof path, "sys/bus/pci/devices/%s/driver", device);
    if (al_fs_link(d->root_fd, path, target, sizeof target) <= 0)
        target[0] = '\0';
    const char *slash = strrchr(target, '/');
    (void)al_str_copy(out, size, slash ? slash + 1 : target);
}

static void nvidia_board(struct al_doctor *d, const char *device, struct bus *b) {
    char driver[64], state[32];
    driver_of(d, device, driver, sizeof driver);
    if (strcmp(driver, "nvidia") == 0) {
        al_doctor_list_add(&b->supported, device);
        if (al_fs_readf(d->root_fd, state, sizeof state, "sys/bus/pci/devices/%s/power/runtime_status", device) > 0 &&
            al_str_starts(state, "suspended"))
            al_doctor_list_add(&b->suspended, device);
    } else if (strcmp(driver, "nouveau") == 0) {
        al_doctor_list_add(&b->nouveau, device);
    } else if (strcmp(driver, "vfio-pci") == 0) {
        al_doctor_list_add(&b->vfio, device);
    } else {
        al_doctor_list_add(&b->bare, device);
    }
}

static void other_board(const char *device, unsigned vendor, unsigned base, struct bus *b) {
    char text[64];
    // Intel's on bus 0 are part of the processor.
    if (vendor == 0x8086 && al_str_starts(device, "0000:00:"))
        return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool fits = base == CLASS_DISPLAY ? others[i].display : others[i].accelerator;
        if (others[i].vendor != vendor || !fits)
            continue;
        (void)snprintf(text, sizeof text, "%s at %.32s", others[i].what, device);
        al_doctor_list_add(&b->other, text);
    }
}

static void one_device(struct al_doctor *d, const char *device, struct bus *b) {
    unsigned base = read_hex(d, device, "class") >> 16, vendor = read_hex(d, device, "vendor");
    if (base != CLASS_DISPLAY && base != CLASS_ACCELERATOR)
        return;
    if (vendor == NVIDIA)
        nvidia_board(d, device, b);
    else
        other_board(device, vendor, base, b);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void tell_nvidia(struct al_doctor *d, struct bus *b) {
    if (b->supported.count)
        al_doctor_add(d, AL_CHECK_OK, "pci_boards", NULL, "%u NVIDIA GPU%s with the driver bound: %s", b->supported.count,
                      b->supported.count == 1 ? "" : "s", al_doctor_list_text(&b->supported));
    else if (!b->bare.count && !b->nouveau.count && !b->vfio.count)
        al_doctor_add(d, AL_CHECK_NOTE, "pci_boards", NULL, "no NVIDIA GPU on the PCI bus");
    if (b->bare.count)
        al_doctor_add(d, AL_CHECK_PROBLEM, "pci_no_driver",
                      "install the driver and modprobe nvidia; dmesg says why it refuses a board",
                      "NVIDIA GPUs without a driver: %s", al_doctor_list_text(&b->bare));
    if (b->nouveau.count)
        al_doctor_add(d, AL_CHECK_PROBLEM, "pci_nouveau",
                      "install NVIDIA's driver and blacklist nouveau: it offers neither CUDA nor NVML",
                      "NVIDIA GPUs held by nouveau: %s", al_doctor_list_text(&b->nouveau));
    if (b->vfio.count)
        al_doctor_add(d, AL_CHECK_NOTE, "pci_vfio", "run alula inside the virtual machine that has them",
                      "NVIDIA GPUs set aside for virtual machines (vfio-pci): %s", al_doctor_list_text(&b->vfio));
    if (b->suspended.count)
        al_doctor_add(d, AL_CHECK_NOTE, "pci_suspended",
                      "asking a suspended GPU wakes it up: leave it out with --gpu if its rest matters",
                      "GPUs in runtime suspend: %s", al_doctor_list_text(&b->suspended));
    d->bus_gpus = b->supported.count;
}

void al_doctor_bus(struct al_doctor *d) {
    struct bus b = {0};
    struct dirent **entries = NULL;
    int count = scandirat(d->root_fd, "sys/bus/pci/devices", &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            one_device(d, entries[i]->d_name, &b);
        free(entries[i]);
    }
    free(entries);
    if (b.other.count)
        al_doctor_add(d, AL_CHECK_NOTE, "other_boards", "alula reads NVIDIA GPUs only; use the maker's own tool for these",
                      "not supported: %s", al_doctor_list_text(&b.other));
    if (d->scenario || d->standin)
        return;
    if (count >= 0)
        tell_nvidia(d, &b);
    else
        al_doctor_add(d, AL_CHECK_UNKNOWN, "pci_boards", NULL, "/sys/bus/pci/devices cannot be read here");
}
