// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <signal.h>
#include <stdio.h>

void al_signal_word(int number, char *out, size_t size) {
    static const char *const names[] = {
        [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",   [SIGTRAP] = "SIGTRAP",
        [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",   [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1",
        [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2", [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM",
        [SIGXCPU] = "SIGXCPU", [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS"};
    const char *name = NULL;
    for (int i = 1; i < (int)(sizeof names / sizeof *names) && !name; i++)
        if (i == number)
            name = names[i];
    if (name)
        (void)snprintf(out, size, "%s", name);
    else
        (void)snprintf(out, size, "signal %d", number);
}
