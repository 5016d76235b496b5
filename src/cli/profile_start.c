// SPDX-License-Identifier: Apache-2.0
// alula profile -- COMMAND: starts it, waits for Python in it, and ends as it ended.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile.h"

#define STATUS_NOT_FOUND 127
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_FAILED 125
#define LOOK_NS (20 * AL_NS_PER_MS)      // how often new processes are looked for until Python was found
#define LOOK_ALL_NS (500 * AL_NS_PER_MS) // and those that only a look at all processes finds
#define BELOW_MOST 4096

int al_profiling_start(struct al_profiling *p) {
    const struct al_job_options o = {.argv = p->argv};
    int error, result = al_job_start(&o, &p->job, &error);
    if (result)
        al_cli_error("profile: %s: %s", p->argv[0], al_job_why(p->argv[0], result, error));
    if (result)
        return result == AL_E_NOENT ? STATUS_NOT_FOUND : result == AL_E_DENIED ? STATUS_NOT_EXECUTABLE : STATUS_FAILED;
    p->pid = p->job.pid;
    p->launched = true;
    return 0;
}

bool al_profiling_wait(struct al_profiling *p, int64_t until_ns) {
    for (;;) {
        struct pollfd fd = {p->job.signal_fd, POLLIN, 0};
        int64_t left = until_ns - al_monotonic_ns();
        const struct timespec wait = {left > 0 ? left / AL_NS_PER_S : 0, left > 0 ? left % AL_NS_PER_S : 0};
        int n = ppoll(&fd, 1, &wait, NULL);
        if (n > 0)
            (void)al_job_signals(&p->job, NULL, NULL);
        if (p->job.ended || n == 0)
            return !p->job.ended;
    }
}

// The processes below `pid` that main threads started, by the kernel's lists of children: cheap enough to ask often.
static uint32_t below(pid_t pid, pid_t *list, uint32_t most) {
    char path[64], text[4096];
    uint32_t count = 1;
    list[0] = pid;
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)list[i], (int)list[i]);
        if (al_fs_head(path, text, sizeof text) <= 0)
            continue;
        for (char *rest = text, *word; count < most && (word = strsep(&rest, " \n"));)
            if (al_stacks_pid(word) > 0)
                list[count++] = al_stacks_pid(word);
    }
    return count;
}

bool al_profiling_has_new(const struct al_profiling *p) {
    pid_t list[BELOW_MOST];
    uint32_t count = below(p->pid, list, BELOW_MOST);
    for (uint32_t i = 0; i < count; i++)
        if (!al_profiling_knows(p, list[i]))
            return true;
    return false;
}

static bool found(const struct al_profiling *p, bool *ret_itself) {
    bool any = false;
    *ret_itself = false;
    for (uint32_t i = 0; i < p->target_count; i++) {
        any |= p->targets[i]->stack != NULL;
        *ret_itself |= p->targets[i]->stack && p->targets[i]->process.pid == p->pid;
    }
    return any;
}

int al_profiling_await(struct al_profiling *p) {
    enum al_stacks_reach asked = p->reach;
    bool itself = false, any = false;
    int64_t look_ns = 0, all_ns = 0, began = al_monotonic_ns();
    int result = 0;
    p->reach = AL_STACKS_BELOW;
    p->awaits = true;
    while (!result && !any && !p->job.ended) {
        int64_t now = al_monotonic_ns();
        if (now >= look_ns) {
            if (now >= all_ns || al_profiling_has_new(p)) {
                result = al_profiling_look(p);
                all_ns = now + LOOK_ALL_NS;
            }
            look_ns = now + LOOK_NS;
        }
        al_profiling_try(p, now);
        any = found(p, &itself);
        if (!any)
            (void)al_profiling_wait(p, now + 2 * AL_NS_PER_MS);
    }
    p->awaits = false;
    if (any && itself)
        p->reach = asked == AL_STACKS_ONE ? asked : AL_STACKS_BELOW;
    p->wrapped = any && !itself && asked == AL_STACKS_ONE;
    if (result)
        al_cli_error("profile: %s", al_error_text(result));
    else if (!any && p->error)
        result = p->error; // said already: one that it may not read, or does not know
    else if (!any) {
        al_cli_error("profile: the command ended after %.2f s, and no Python process was seen in it",
                     (double)(al_monotonic_ns() - began) / 1e9);
        result = AL_E_FORMAT;
    }
    return result;
}

int al_profiling_end(struct al_profiling *p, int status) {
    while (!p->job.ended)
        (void)al_profiling_wait(p, al_monotonic_ns() + 3600 * AL_NS_PER_S);
    al_job_done(&p->job);
    if (p->job.status == 0)
        return status;
    al_profiling_close(p);
    (void)al_cli_flush();
    al_job_exit_as(&p->job);
}
