// SPDX-License-Identifier: Apache-2.0
#include "launch/inject.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/inject_maps.h"
#include "launch/inject_parts.h"

int al_inject(const struct al_inject *t, const char *line, const char *script, char *why, size_t size) {
    *why = '\0';
    if (t->remote)
        return al_inject_by_remote(t, script, why, size);
    if (strlen(line) >= AL_INJECT_LINE_MAX)
        return AL_E_TOOBIG;
    return al_inject_by_stop(t, line, AL_INJECT_LIVES, why, size);
}

// /proc/PID/mem writes to code as a debugger does, without a stop. Some kernels are set not to let it; then the bytes stay.
void al_inject_clean(const struct al_inject *t) {
    static const uint8_t zero[AL_INJECT_ROOM];
    uint8_t found[AL_INJECT_ROOM];
    char path[40];
    pid_t pid = t->pid;
    if (!t->room || !al_memory_read(&pid, t->room, found, sizeof found) || !al_inject_is_stub(found))
        return;
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)t->pid);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)!pwrite(fd, zero, sizeof zero, (off_t)t->room);
    (void)close(fd);
}
