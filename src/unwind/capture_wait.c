// SPDX-License-Identifier: Apache-2.0
// A thread that waits in the kernel: /proc tells where its code and its stack stand, and its memory lies still.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "unwind/capture_parts.h"

// 0, or the error; the line without its end, "" when there is none.
static int read_line(const struct al_capture *c, pid_t tid, char *out, size_t size) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%d/task/%d/syscall", c->procfs, (int)c->pid, (int)tid);
    ssize_t n = al_fs_head(path, out, size);
    int error = errno;
    out[strcspn(out, "\n")] = '\0';
    if (n > 0)
        return 0;
    return n == 0 || error == ENOENT || error == ESRCH ? AL_E_GONE : AL_E_DENIED;
}

int al_waiting_try(struct al_capture *c, struct al_unwind_error *error) {
    char line[256], path[160];
    int result = read_line(c, c->pid, line, sizeof line);
    if (!result)
        return 0;
    (void)snprintf(path, sizeof path, "%s/%d", c->procfs, (int)c->pid);
    if (result == AL_E_GONE && access(path, F_OK) != 0) {
        (void)snprintf(error->text, sizeof error->text, "process %d has ended", (int)c->pid);
        return AL_E_GONE;
    }
    (void)snprintf(error->text, sizeof error->text,
                   "threads that wait have no native frames: /proc/%d/task/*/syscall %s", (int)c->pid,
                   result == AL_E_GONE ? "is not there (a kernel without CONFIG_HAVE_ARCH_TRACEHOOK, or a sandbox such as gVisor)"
                                       : "cannot be read: alula needs to be root, or CAP_SYS_PTRACE");
    return result == AL_E_GONE ? AL_E_UNSUPPORTED : AL_E_DENIED;
}

// "NUMBER 0x.. (6 arguments) 0xSP 0xPC", or "-1 0xSP 0xPC" outside of a system call. False: "running".
static bool parse(const char *line, uint64_t *sp, uint64_t *pc) {
    char *end;
    errno = 0;
    uint64_t last[2] = {0, 0};
    (void)strtol(line, &end, 10);
    if (end == line)
        return false;
    unsigned count = 0;
    for (const char *at = end; *at == ' '; at = end, count++) {
        uint64_t value = strtoull(at + 1, &end, 16);
        if (end == at + 1)
            return false;
        last[0] = last[1];
        last[1] = value;
    }
    *sp = last[0];
    *pc = last[1];
    return !*end && !errno && (count == 2 || count == 8) && *sp >= 4096 && *pc >= 4096;
}

int al_waiting_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found) {
    char now[sizeof c->last_wait];
    *ret_found = false;
    *c->last_wait = '\0';
    int result = read_line(c, tid, c->last_wait, sizeof c->last_wait);
    if (result == AL_E_GONE)
        return result;
    if (result || !parse(c->last_wait, &ret->regs[AL_REG_SP], &ret->regs[AL_REG_PC]))
        return 0;
    ret->known = 1ULL << AL_REG_SP | 1ULL << AL_REG_PC;
    ret->stopped = true;
    al_capture_copy_stack(c, ret);
    result = read_line(c, tid, now, sizeof now);
    *ret_found = !result && strcmp(now, c->last_wait) == 0; // it has not moved meanwhile
    return result == AL_E_GONE ? result : 0;
}

bool al_waiting_stands(struct al_capture *c) {
    char now[sizeof c->last_wait];
    return read_line(c, c->last_tid, now, sizeof now) == 0 && strcmp(now, c->last_wait) == 0;
}
