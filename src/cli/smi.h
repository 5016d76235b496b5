// SPDX-License-Identifier: Apache-2.0
// What alula smi's two halves share: reading arguments as nvidia-smi reads them, and printing tick by tick.
#ifndef AL_CLI_SMI_H
#define AL_CLI_SMI_H

#include "base/buf.h"
#include "cli/cli.h"
#include "export/smi.h"

enum al_smi_value { AL_SMI_NO_VALUE, AL_SMI_VALUE, AL_SMI_MAYBE_VALUE };

struct al_smi_option {
    const char *name; // "-i", "--id"
    int id;
    enum al_smi_value value;
};

enum { AL_SMI_END = -1, AL_SMI_UNKNOWN = -2, AL_SMI_MISSING = -3, AL_SMI_FAILED = -4 };

// Reads argv one option at a time. A value stands behind '=' or is the next argument, unless that looks like an option.
struct al_smi_args {
    int argc, at;
    char **argv;
    const struct al_smi_option *options; // ends with name NULL
    struct al_cli_options *common;
    const char *token; // the argument as it was given
    const char *value; // NULL when none was given
    int status;        // with AL_SMI_FAILED: the exit status
};

// The next option's id; END, UNKNOWN, MISSING (value) or FAILED. alula's common options are taken on the way; --help
// comes out as AL_OPT_HELP.
int al_smi_next(struct al_smi_args *a);

// A run that prints now and then: a session, the GPUs asked for, and where to.
struct al_smi_run {
    struct al_cli_session session;
    struct al_smi_view view;
    const char *ids;  // -i
    const char *file; // -f; NULL: stdout
    FILE *out;
    int64_t period_ns; // 0: once
    int64_t ticks;     // 0: for ever
    // Prints one reading; the view may be narrowed. tick counts from 0.
    void (*print)(void *user, struct al_buf *b, struct al_smi_view *view, uint64_t tick);
    void *user;
    bool none_is_fine; // no GPU: print nothing's text rather than fail (-L)
};

// Opens, prints, closes. Returns the exit status, which is nvidia-smi's where it has one for the case.
int al_smi_run(struct al_smi_run *r, const struct al_cli_options *common, uint32_t groups);

// "nvidia-smi dmon" and "pmon"; argv[0] is the word.
int al_smi_monitor_command(int argc, char **argv);

#endif
