// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/attach.h"
#include "host/host.h"
#include "host/parse.h"
#include "host/roles.h"
#include "launch/end.h"
#include "stack/stack.h"

#define YOUNG_NS (2 * AL_NS_PER_S) // time that a program may take until its interpreter is up
#define YOUNG_LOOK_NS (10 * AL_NS_PER_MS)
#define CLIMB_MOST 16
#define RATE_MOST 10000.0 // samples a second
#define FIRST_WITH_VERSION 0x030b0000u // Py_Version, which holds the whole of it, is in 3.11 and later

static int add(struct al_stacks_who *who, pid_t pid, struct al_stacks_process **ret) {
    struct al_stacks_process *more = realloc(who->list, (who->count + 1) * sizeof *more);
    if (!more)
        return AL_E_NOMEM;
    who->list = more;
    *ret = &more[who->count++];
    **ret = (struct al_stacks_process){.pid = pid, .rank = -1, .world = -1, .local_rank = -1};
    return 0;
}

// The top of a tree that was asked for is called its launcher; it is none without a rank.
static bool launches(const struct al_snapshot *s, pid_t pid) {
    bool ranks = false;
    for (uint32_t i = 0; i < s->proc_count && !ranks; i++)
        ranks = s->procs[i].role == AL_ROLE_RANK && al_end_descends(s->procs[i].pid, pid);
    return ranks;
}

// What the fork server forks keeps its command line.
static bool is_helper(const struct al_snapshot *s, const struct al_proc *p) {
    static const char server[] = "multiprocessing.forkserver";
    const struct al_proc *up = al_snapshot_proc(s, p->ppid);
    return strstr(p->command, "multiprocessing.resource_tracker") ||
           (strstr(p->command, server) && !(up && strstr(up->command, server)));
}

static int add_known(struct al_stacks_who *who, const struct al_snapshot *s, const struct al_proc *p, bool no_cmdline) {
    struct al_stacks_process *to;
    int result = add(who, p->pid, &to);
    if (result)
        return result;
    to->role = p->role == AL_ROLE_LAUNCHER && !launches(s, p->pid) ? AL_ROLE_UNKNOWN : p->role;
    to->owner = p->owner;
    to->parent = p->ppid;
    to->state = p->state;
    to->helper = is_helper(s, p);
    if (p->role == AL_ROLE_RANK)
        to->local_rank = p->local_rank;
    const struct al_proc *rank = p->role == AL_ROLE_RANK ? p : p->owner > 0 ? al_snapshot_proc(s, p->owner) : NULL;
    if (rank) { // others inherited their rank's variables
        to->rank = rank->rank;
        to->world = rank->world_size;
    }
    if (!no_cmdline)
        (void)al_str_copy(to->command, sizeof to->command, p->command);
    return 0;
}

static int add_ended(struct al_stacks_who *who, const struct al_proc *p) {
    struct al_stacks_ended *more = realloc(who->ended, (who->ended_count + 1) * sizeof *more);
    if (!more)
        return AL_E_NOMEM;
    who->ended = more;
    more[who->ended_count++] = (struct al_stacks_ended){p->pid, p->ppid};
    return 0;
}

// Where no launcher is known: from a spawned rank, an engine's worker or a DataLoader's up to the program that made it.
static int climb(struct al_host **host, struct al_snapshot *s, pid_t *top) {
    for (int steps = 0; steps < CLIMB_MOST; steps++) {
        pid_t ignored;
        const struct al_proc *p = al_snapshot_proc(s, *top), *up;
        if (!p || p->ppid <= 1)
            return 0;
        struct al_proc child = *p; // the next look forgets it
        int result = al_attach_top(child.ppid, false, host, s, &ignored);
        up = result ? NULL : al_snapshot_proc(s, child.ppid);
        if (!up || !al_role_is_made(&child, up))
            return al_attach_top(*top, false, host, s, &ignored);
        *top = child.ppid;
    }
    return 0;
}

// What is a rank, and whose worker a process is, shows beside the launcher above: what has a rank's variables is looked at
// from there, even where not the whole job is wanted. *top: where the look before began, 0 none; where this one did.
static int look(pid_t pid, enum al_stacks_reach reach, struct al_host **host, struct al_snapshot *s, pid_t *top) {
    bool job = reach == AL_STACKS_JOB;
    pid_t before = *top;
    if (before && al_attach_top(before, false, host, s, top) == 0 && al_snapshot_proc(s, pid))
        return 0;
    int result = al_attach_top(pid, job, host, s, top);
    if (!result && job && *top == pid && !launches(s, pid))
        result = climb(host, s, top);
    const struct al_proc *p = result || job ? NULL : al_snapshot_proc(s, pid);
    if (p && (p->rank >= 0 || p->local_rank >= 0))
        result = al_attach_top(pid, true, host, s, top);
    return result;
}

int al_stacks_find(struct al_stacks_who *who, pid_t pid, enum al_stacks_reach reach, bool no_cmdline, pid_t top) {
    struct al_snapshot *s = al_snapshot_new();
    struct al_host *host = NULL;
    struct al_attach_job job = {0};
    bool named = false;
    *who = (struct al_stacks_who){.pid = pid, .top = top};
    int result = s ? look(pid, reach, &host, s, &who->top) : AL_E_NOMEM;
    if (!result)
        al_attach_job(s, pid, reach == AL_STACKS_JOB ? who->top : pid, no_cmdline, &job);
    for (uint32_t i = 0; !result && i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        bool wanted = p->pid == pid || (reach != AL_STACKS_ONE && al_attach_in_job(s, &job, p->pid));
        if (wanted && p->alive && p->state == 'Z')
            result = add_ended(who, p);
        if (result || !wanted || !p->alive || (p->state == 'Z' && p->pid != pid))
            continue;
        named |= p->pid == pid;
        result = add_known(who, s, p, no_cmdline);
    }
    if (!result && !job.rank)
        memcpy(who->several, job.several, sizeof who->several);
    struct al_stacks_process *unknown;
    if (!result && !named)
        result = add(who, pid, &unknown);
    al_host_free(host);
    al_snapshot_free(s);
    return result;
}

void al_stacks_free(struct al_stacks_who *who) {
    free(who->list);
    free(who->ended);
    *who = (struct al_stacks_who){0};
}

static bool is_young(pid_t pid) {
    char path[64], text[1024];
    struct al_host_stat stat;
    struct timespec now;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    ssize_t len = al_fs_head(path, text, sizeof text);
    if (len <= 0 || al_parse_stat(text, (size_t)len, &stat) || clock_gettime(CLOCK_BOOTTIME, &now))
        return false;
    double started = (double)stat.start_ticks / (double)sysconf(_SC_CLK_TCK), age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - started;
    return age > -1 && age * 1e9 < (double)YOUNG_NS; // below 0 by more than a tick: another clock
}

void al_stacks_await(pid_t pid) {
    struct al_stack *s = NULL;
    struct al_stack_error e;
    while (is_young(pid) && al_stack_open(pid, NULL, &s, &e) == AL_E_FORMAT)
        (void)nanosleep(&(struct timespec){.tv_nsec = YOUNG_LOOK_NS}, NULL);
    al_stack_free(s);
}

void al_stacks_role(const struct al_stacks_process *p, char *out, size_t size) {
    *out = '\0';
    if (p->role == AL_ROLE_RANK && p->rank >= 0 && p->world > 0)
        (void)snprintf(out, size, "rank %d of %d", (int)p->rank, (int)p->world);
    else if (p->role == AL_ROLE_RANK && p->rank >= 0)
        (void)snprintf(out, size, "rank %d", (int)p->rank);
    else if (p->owner > 0 && p->owner != p->pid && p->rank >= 0)
        (void)snprintf(out, size, "%s of rank %d (%d)", al_role_word(p->role), (int)p->rank, (int)p->owner);
    else if (p->owner > 0 && p->owner != p->pid)
        (void)snprintf(out, size, "%s of %d", al_role_word(p->role), (int)p->owner);
    else if (p->role != AL_ROLE_UNKNOWN && p->role != AL_ROLE_OTHER)
        (void)snprintf(out, size, "%s", al_role_word(p->role));
}

// PY_VERSION_HEX: level 0xa alpha, 0xb beta, 0xc candidate, 0xf final.
void al_stacks_version(uint32_t version, char *out, size_t size) {
    unsigned level = version >> 4 & 15, serial = version & 15;
    const char *word = level == 10 ? "a" : level == 11 ? "b" : level == 12 ? "rc" : "";
    if (version < FIRST_WITH_VERSION) { // only the minor version can be told from outside
        (void)snprintf(out, size, "%u.%u", version >> 24, version >> 16 & 255);
        return;
    }
    int n = snprintf(out, size, "%u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
    if (*word && n > 0 && (size_t)n < size)
        (void)snprintf(out + n, size - (size_t)n, "%s%u", word, serial);
}

pid_t al_stacks_pid(const char *text) {
    uint64_t pid;
    return text && al_str_u64(text, &pid) && pid <= INT32_MAX ? (pid_t)pid : 0;
}

bool al_stacks_rate(const char *text, double *ret) {
    return (al_str_double(text, ret) || al_unit_parse(text, AL_UNIT_HERTZ, ret) >= 0) && *ret >= 1 && *ret <= RATE_MOST;
}

bool al_stacks_seconds(const char *text, double most, double *ret) {
    return (al_unit_parse(text, AL_UNIT_SECONDS, ret) >= 0 || al_str_double(text, ret)) && *ret > 0 && *ret <= most;
}

bool al_stacks_tells(const struct al_stacks_who *who, int error) {
    return who->count == 1 || (error != AL_E_FORMAT && error != AL_E_GONE && error != AL_E_NOENT);
}
