// SPDX-License-Identifier: Apache-2.0
// Insides of alula doctor: a list of checks, filled by one file an area.
#ifndef AL_CLI_DOCTOR_H
#define AL_CLI_DOCTOR_H

#include "cli/cli.h"

enum al_check_result { AL_CHECK_OK, AL_CHECK_NOTE, AL_CHECK_PROBLEM, AL_CHECK_UNKNOWN };

struct al_check {
    enum al_check_result result;
    char name[32]; // stable: the JSON's key word
    char found[640];
    const char *todo; // NULL: nothing
};

#define AL_CHECKS_MAX 96

struct al_doctor {
    struct al_cli_options options;
    const char *root; // "/" or ALULA_HOST_ROOT: all host paths lie below
    int root_fd;
    bool scenario; // --source scenario: or replay: no driver takes part
    bool standin;  // ALULA_SCENARIO plays through the stand-in driver
    bool container, wsl;
    bool kernel_loaded; // the kernel's half of the driver is there, or may be
    bool answers;       // the driver can be opened
    uint32_t bus_gpus; // NVIDIA GPUs that the PCI bus shows with the driver bound
    char kernel_version[40], library_version[40]; // "" unknown
    struct al_cli_session session; // closed at the end: a hanging driver keeps its thread
    bool session_open;
    struct al_check check[AL_CHECKS_MAX];
    uint32_t count;
};

// Adds a check; texts are cut to fit and made one line. `todo` is a static text or NULL.
void al_doctor_add(struct al_doctor *d, enum al_check_result result, const char *name, const char *todo,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

// A list "a, b, c and 4 more" in a fixed array.
struct al_doctor_list {
    char text[400];
    uint32_t count, shown;
    uint32_t most; // items to show; 0: what fits
};
void al_doctor_list_add(struct al_doctor_list *l, const char *item);
const char *al_doctor_list_text(struct al_doctor_list *l); // adds the "and N more"

// True when the path exists below the root.
bool al_doctor_exists(const struct al_doctor *d, const char *path);

void al_doctor_place(struct al_doctor *d);   // container, WSL: first, since others word their advice by it
void al_doctor_driver(struct al_doctor *d);  // library, versions, nodes, initialisation
void al_doctor_bus(struct al_doctor *d);     // boards on the PCI bus, other vendors' too
void al_doctor_host(struct al_doctor *d);    // pid namespace, /proc, PSI, delay accounting, cgroups
void al_doctor_holders(struct al_doctor *d); // profilers and monitors that hold the counters
// One full sample: GPUs, metric groups, cost of the calls. 0, or an exit status with the message printed.
int al_doctor_session(struct al_doctor *d);

#endif
