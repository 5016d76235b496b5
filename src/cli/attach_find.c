// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/attach.h"
#include "host/command.h"
#include "host/host.h"
#include "host/roles.h"
#include "launch/end.h"

#define CLIMB_MOST 16
#define JOBS_NAMED 8

static bool added(const struct al_attach *a, pid_t pid) {
    for (uint32_t i = 0; i < a->count; i++)
        if (a->processes[i].pid == pid)
            return true;
    return false;
}

// A rank, or a shell that wraps one.
static bool leads(const struct al_proc *p) {
    return p->role == AL_ROLE_RANK || (p->role == AL_ROLE_LAUNCHER && p->rank >= 0 && al_role_is_shell(p->exe));
}

// The outermost of these that a process is, or is below, under `top`; NULL: none.
static const struct al_proc *rank_of(const struct al_snapshot *s, pid_t pid, pid_t top) {
    const struct al_proc *rank = NULL, *p = al_snapshot_proc(s, pid);
    for (int steps = 0; p && p->pid != top && steps < CLIMB_MOST; steps++) {
        rank = leads(p) ? p : rank;
        p = al_snapshot_proc(s, p->ppid);
    }
    return rank;
}

// What two ranks that one shell has started may be told apart by. Where it was not said, they count to one job.
static bool meet(const struct al_proc *a, const struct al_proc *b) {
    return a->world_size == b->world_size && a->meeting == b->meeting;
}

bool al_attach_in_job(const struct al_snapshot *s, const struct al_attach_job *job, pid_t pid) {
    if (!al_end_descends(pid, job->top))
        return false;
    if (!*job->several || !job->rank)
        return true;
    const struct al_proc *rank = rank_of(s, pid, job->top);
    return rank ? meet(rank, job->rank) : al_end_descends(job->rank->pid, pid);
}

// A zombie has no environment any more, and between fork and exec it is the launcher's.
static bool tells(const struct al_proc *p) {
    return leads(p) && p->alive && p->state != 'Z' && p->rank >= 0;
}

// "python x.py" of "/usr/bin/python x.py".
static const char *without_folder(const char *command) {
    const char *end = command + strcspn(command, " "), *slash = memrchr(command, '/', (size_t)(end - command));
    return slash ? slash + 1 : command;
}

// The jobs whose ranks are below one top, each by its first rank.
static void tell_several(const struct al_snapshot *s, struct al_attach_job *job, bool no_cmdline) {
    const struct al_proc *first[JOBS_NAMED];
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        bool known = !tells(p) || !al_end_descends(p->pid, job->top) || rank_of(s, p->pid, job->top) != p;
        for (uint32_t k = 0; k < count && !known; k++)
            known = meet(first[k], p);
        if (!known && count < JOBS_NAMED)
            first[count++] = p;
    }
    if (count < 2)
        return;
    size_t used = (size_t)snprintf(job->several, sizeof job->several, "several jobs run below process %d: name a process of one:",
                                   (int)job->top);
    for (uint32_t i = 0; i < count && used < sizeof job->several; i++)
        used += (size_t)snprintf(job->several + used, sizeof job->several - used, "%s %d (%.40s)", i ? "," : "",
                                 (int)first[i]->pid, no_cmdline ? first[i]->exe : without_folder(first[i]->command));
}

static int add_ranks(struct al_attach *a, const struct al_snapshot *s, const struct al_attach_job *job) {
    int result = 0;
    for (uint32_t i = 0; i < s->proc_count && !result; i++) {
        const struct al_proc *p = &s->procs[i];
        if (p->alive && p->state != 'Z' && p->role == AL_ROLE_RANK && !added(a, p->pid) && al_attach_in_job(s, job, p->pid))
            result = al_attach_add(a, p->pid);
    }
    return result;
}

// Where no rank is known as one: the topmost interpreters below a shell or another wrapper.
static int add_interpreters(struct al_attach *a, const struct al_snapshot *s, pid_t top) {
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        bool below = false;
        if (!p->alive || p->pid == top || !al_end_descends(p->pid, top))
            continue;
        for (uint32_t k = 0; k < a->count && !below; k++)
            below = al_end_descends(p->pid, a->processes[k].pid);
        if (below)
            continue;
        int result = al_attach_add(a, p->pid);
        if (result)
            return result;
        if (a->processes[a->count - 1].state != AL_ATTACH_FOUND)
            a->count--;
    }
    return 0;
}

static int look_at_tree(pid_t pid, struct al_host **ret_host, struct al_snapshot *s) {
    const struct al_procfs_options options = {.root = "/", .no_cmdline = false};
    int result = al_procfs_open(&options, ret_host);
    if (result)
        return result;
    al_procfs_roots(*ret_host, &pid, 1);
    result = (*ret_host)->ops->processes(*ret_host, s, AL_GROUP_PROCESS, al_monotonic_ns());
    al_snapshot_sort(s);
    return result;
}

static int look_again(pid_t pid, struct al_host **host, struct al_snapshot *s) {
    *host = al_host_free(*host);
    al_snapshot_clear(s);
    return look_at_tree(pid, host, s);
}

// A launcher with its ranks below it.
static bool launches(const struct al_snapshot *s, pid_t pid) {
    const struct al_proc *p = al_snapshot_proc(s, pid);
    bool ranks = false;
    for (uint32_t i = 0; p && p->role == AL_ROLE_LAUNCHER && i < s->proc_count && !ranks; i++)
        ranks = s->procs[i].role == AL_ROLE_RANK && s->procs[i].pid != pid && al_end_descends(s->procs[i].pid, pid);
    return ranks;
}

// Process 1 is above everything and launches nothing, but where a container runs the launcher itself.
static bool first_launches(void) {
    char text[4096];
    struct al_program program;
    ssize_t len = al_fs_head("/proc/1/cmdline", text, sizeof text);
    al_program_parse(text, len > 0 ? (size_t)len : 0, &program);
    return !al_role_is_boundary(program.exe, program.name) &&
           (al_str_starts(program.exe, "python") || al_role_starts_training(program.name, program.verb));
}

int al_attach_top(pid_t pid, bool tree, struct al_host **host, struct al_snapshot *s, pid_t *ret) {
    pid_t at = pid;
    int result = look_again(pid, host, s);
    for (int steps = 0; tree && !result && steps < CLIMB_MOST; steps++) {
        const struct al_proc *p = al_snapshot_proc(s, at);
        // A shell or a test runner may stand above a job and above what has nothing to do with it: only a rank, and what
        // is below one, has its launcher there.
        if (launches(s, at) && (at == pid || rank_of(s, pid, at))) {
            *ret = at;
            return 0;
        }
        if (!p || p->ppid < 1 || (p->ppid == 1 && !first_launches()))
            break;
        at = p->ppid;
        result = look_again(at, host, s);
    }
    *ret = pid;
    return tree && !result ? look_again(pid, host, s) : result;
}

void al_attach_job(const struct al_snapshot *s, pid_t pid, pid_t top, bool no_cmdline, struct al_attach_job *ret) {
    *ret = (struct al_attach_job){.top = top, .rank = rank_of(s, pid, top)};
    tell_several(s, ret, no_cmdline);
}

int al_attach_find(struct al_attach *a, pid_t pid, bool tree, struct al_attach_job *ret) {
    struct al_snapshot *s = al_snapshot_new();
    struct al_host *host = NULL;
    pid_t top = pid;
    int result = s ? al_attach_top(pid, tree, &host, s, &top) : AL_E_NOMEM;
    const struct al_proc *p = result ? NULL : al_snapshot_proc(s, top);
    if (!result)
        al_attach_job(s, pid, top, false, ret);
    if (p && launches(s, top))
        result = *ret->several && !ret->rank ? AL_E_INVALID : add_ranks(a, s, ret);
    if (!result && !a->count)
        result = al_attach_add(a, pid);
    if (!result && p && a->count == 1 && a->processes[0].pid == pid && a->processes[0].error == AL_E_UNSUPPORTED) {
        a->count = 0;
        result = add_interpreters(a, s, pid);
        if (!result && !a->count)
            result = al_attach_add(a, pid);
    }
    al_host_free(host);
    al_snapshot_free(s);
    ret->rank = NULL; // it was the snapshot's
    return result;
}
