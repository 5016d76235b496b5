// SPDX-License-Identifier: Apache-2.0
// The backend over /proc and /sys: which processes belong to the picture, and their rows.
#include "host/procfs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/roles.h"

#define CLIMB_MAX 64
#define PSS_BUDGET_NS (10 * AL_NS_PER_MS)        // of one reading
#define PSS_BUDGET_ASKED_NS (200 * AL_NS_PER_MS) // ... when somebody asked for it

ssize_t al_procfs_read(struct al_procfs *p, int dir_fd, const char *path, char *out, size_t size) {
    p->reads++;
    return al_fs_read(dir_fd, path, out, size);
}

ssize_t al_procfs_readf_at(struct al_procfs *p, int dir_fd, char *out, size_t size, const char *format, ...) {
    char path[1024];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(path, sizeof path, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof path)
        return AL_E_INVALID;
    return al_procfs_read(p, dir_fd, path, out, size);
}

enum al_status al_procfs_status(ssize_t error) {
    switch (error) {
    case AL_E_DENIED: return AL_STATUS_DENIED;
    case AL_E_NOENT: return AL_STATUS_UNSUPPORTED;
    case AL_E_GONE: return AL_STATUS_UNREAD; // the process ended; AL_STATUS_LOST is a GPU's
    default: return AL_STATUS_ERROR;
    }
}

static bool is_compute(const struct al_proc_gpu *row) {
    return !row->type || row->type & (AL_PROC_COMPUTE | AL_PROC_MPS);
}

static bool add_order(struct al_procfs *p, pid_t pid) {
    if (p->order_count == p->order_cap) {
        size_t cap = p->order_cap ? p->order_cap * 2 : 256;
        pid_t *more = realloc(p->order, cap * sizeof *more);
        if (!more)
            return false;
        p->order = more;
        p->order_cap = cap;
    }
    p->order[p->order_count++] = pid;
    return true;
}

// Shell sort: almost sorted input, and no memory as qsort() may take.
static void sort_order(struct al_procfs *p) {
    static const size_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (size_t i = gaps[g]; i < p->order_count; i++) {
            pid_t pid = p->order[i];
            size_t k = i;
            for (; k >= gaps[g] && p->order[k - gaps[g]] > pid; k -= gaps[g])
                p->order[k] = p->order[k - gaps[g]];
            p->order[k] = pid;
        }
    size_t count = 0;
    for (size_t i = 0; i < p->order_count; i++)
        if (!count || p->order[count - 1] != p->order[i])
            p->order[count++] = p->order[i];
    p->order_count = count;
}

// The driver numbers processes as the host does, or, with newer kernel modules, as the caller's namespace does. Outside
// the host's namespace a pid that we can see is the driver's process only if it has the driver's files open.
static bool is_drivers_process(struct al_procfs *p, struct al_track *t, int64_t now_ns) {
    return p->host_pid_ns || al_track_holds_device(p, t, now_ns);
}

static void visit_rows(struct al_procfs *p, const struct al_snapshot *s, int64_t now_ns) {
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        int error;
        if (row->pid <= 0)
            continue;
        struct al_track *t = al_track_visit(p, row->pid, is_compute(row), now_ns, &error);
        if (!t)
            continue;
        if (!is_drivers_process(p, t, now_ns)) {
            t->tree = false;
            continue;
        }
        t->row.holds_context = true;
        if (is_compute(row)) {
            t->gpu = true;
            t->devices |= 1ULL << (row->gpu % 64);
        }
    }
}

static void visit_told(struct al_procfs *p, const struct al_snapshot *s, int64_t now_ns) {
    int error;
    for (uint32_t i = 0; i < s->rank_count; i++) {
        const struct al_rank *r = &s->ranks[i];
        struct al_track *t = r->pid > 0 ? al_track_visit(p, r->pid, true, now_ns, &error) : NULL;
        // A launcher that loads torch tells of itself as well.
        bool trains = !al_ok(r->m[AL_RANK_TRAINING]) || r->m[AL_RANK_TRAINING].num != 0 || r->rank >= 0;
        if (t && trains && (!r->start_ticks || r->start_ticks == t->row.start_ticks))
            t->trains = true;
    }
    for (unsigned i = 0; i < p->root_count; i++) {
        struct al_track *t = al_track_visit(p, p->roots[i], true, now_ns, &error);
        if (t)
            t->root = true;
    }
}

static void visit_kid(struct al_procfs *p, struct al_parentage kid, int64_t now_ns) {
    int error;
    const struct al_track *parent = al_track_find(p, kid.ppid);
    struct al_track *known = al_track_find(p, kid.pid);
    if (!parent || !parent->tree || (known && known->generation == p->generation))
        return;
    struct al_track *t = al_track_visit(p, kid.pid, true, now_ns, &error);
    // The list may be old: another process may have the pid by now, or the parent.
    if (t && (t->row.ppid != kid.ppid || t->row.start_ticks < parent->row.start_ticks))
        t->tree = false;
}

// Processes known from the reading before whose parent is in the tree: found by a thread's list or a scan that is not
// repeated each time.
static void add_known_kids(struct al_procfs *p) {
    for (size_t i = 0; i < AL_HOST_BUCKETS; i++)
        for (struct al_track *t = p->bucket[i]; t; t = t->next) {
            if (t->generation == p->generation || t->tried == p->generation)
                continue;
            const struct al_track *parent = al_track_find(p, t->row.ppid);
            if (!parent || parent->generation != p->generation || !parent->tree)
                continue;
            t->tried = p->generation; // once: it may be gone
            al_track_add_kid(p, t->row.ppid, t->row.pid);
        }
}

static void visit_descendants(struct al_procfs *p, int64_t now_ns) {
    size_t next_kid = 0, next_scan = 0;
    bool more = true;
    while (more) {
        if (p->no_children_file) {
            al_scan_refresh(p, now_ns);
            for (; next_scan < p->visited_count; next_scan++)
                if (p->visited[next_scan]->tree)
                    al_scan_children(p, p->visited[next_scan]->row.pid);
        }
        more = next_kid < p->kid_count;
        for (; next_kid < p->kid_count; next_kid++)
            visit_kid(p, p->kids[next_kid], now_ns);
        if (!more) {
            add_known_kids(p);
            more = next_kid < p->kid_count;
        }
    }
}

// Above a daemon nothing is asked; above a shell a starter of ranks may stand.
static void climb(struct al_procfs *p, const struct al_track *t, int64_t now_ns) {
    for (unsigned steps = 0; steps < CLIMB_MAX && t->row.ppid > 0; steps++) {
        int error;
        const struct al_track *up = al_track_visit(p, t->row.ppid, false, now_ns, &error);
        if (!up || (up->boundary && !al_role_is_shell(up->row.exe)))
            return;
        t = up;
    }
}

static void visit_ancestors(struct al_procfs *p, int64_t now_ns) {
    size_t count = p->visited_count;
    for (size_t i = 0; i < count; i++)
        if (p->visited[i]->gpu || p->visited[i]->trains)
            climb(p, p->visited[i], now_ns);
}

static size_t assign_roles(struct al_procfs *p) {
    size_t count = 0;
    if (p->node_cap < p->visited_count) {
        struct al_role_node *more = realloc(p->nodes, p->visited_count * 2 * sizeof *more);
        if (!more)
            return 0;
        p->nodes = more;
        p->node_cap = p->visited_count * 2;
    }
    for (size_t i = 0; i < p->order_count; i++) {
        struct al_track *t = al_track_find(p, p->order[i]);
        if (!t || t->generation != p->generation)
            continue;
        const struct al_proc *r = &t->row;
        p->nodes[count++] = (struct al_role_node){
            .pid = r->pid, .ppid = r->ppid, .uid = r->uid, .gpu = t->gpu,
            .trains = t->trains, .root = t->root, .devices = t->devices, .rank = r->rank,
            .local_rank = r->local_rank, .world_size = r->world_size, .meeting = r->meeting, .comm = r->comm,
            .exe = r->exe[0] ? r->exe : r->comm, .start_stack = t->start_stack,
            .program = t->program.name, .verb = t->program.verb, .command = r->command};
    }
    al_roles_assign(p->nodes, count);
    return count;
}

// A pid that only the driver knows. Dead is said only where every process of the driver's namespace would be seen.
static int emit_unseen(struct al_procfs *p, struct al_snapshot *s, pid_t pid, bool other) {
    struct al_proc *r = al_snapshot_add_proc(s);
    if (!r)
        return AL_E_NOMEM;
    int fd = other ? 0 : al_procfs_open_process(p, pid);
    if (!other && fd >= 0)
        (void)close(fd);
    r->pid = pid;
    r->pid_ns = p->pid_ns;
    r->uid = (uid_t)-1;
    r->rank = r->local_rank = r->world_size = r->node_rank = -1;
    r->foreign = other || !p->host_pid_ns || !p->all_visible || fd != AL_E_NOENT;
    r->holds_context = true;
    r->job = pid;
    return 0;
}

static int emit(struct al_procfs *p, struct al_snapshot *s, const struct al_track *t, const struct al_role_node *n) {
    struct al_proc *r = al_snapshot_add_proc(s);
    if (!r)
        return AL_E_NOMEM;
    *r = t->row;
    r->role = n->role;
    r->job = n->job ? n->job : n->pid;
    r->owner = n->owner;
    if (p->no_cmdline)
        r->command[0] = '\0';
    return 0;
}

static int by_pid(const void *a, const void *b) {
    pid_t x = *(const pid_t *)a, y = ((const struct al_role_node *)b)->pid;
    return (x > y) - (x < y);
}

static bool in_rows(const struct al_snapshot *s, pid_t pid) {
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].pid == pid)
            return true;
    return false;
}

static int emit_all(struct al_procfs *p, struct al_snapshot *s) {
    p->order_count = 0;
    for (size_t i = 0; i < p->visited_count; i++)
        if (!add_order(p, p->visited[i]->row.pid))
            return AL_E_NOMEM;
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].pid > 0 && !add_order(p, s->rows[i].pid))
            return AL_E_NOMEM;
    sort_order(p);
    size_t count = assign_roles(p);
    for (size_t i = 0; i < p->order_count; i++) {
        pid_t pid = p->order[i];
        const struct al_role_node *n = count ? bsearch(&pid, p->nodes, count, sizeof *p->nodes, by_pid) : NULL;
        const struct al_track *t = n ? al_track_find(p, pid) : NULL;
        bool row = (!t || !n->member || !t->row.holds_context) && in_rows(s, pid);
        int result = 0;
        if (row && (!t || !t->row.holds_context))
            result = emit_unseen(p, s, pid, t != NULL);
        else if (t && (n->member || row))
            result = emit(p, s, t, n);
        if (result < 0)
            return result;
    }
    return 0;
}

static void look_for_delay_accounting(struct al_procfs *p) {
    char text[1024];
    struct al_host_stat stat;
    uint64_t on;
    ssize_t len = al_procfs_read(p, p->root_fd, "proc/sys/kernel/task_delayacct", text, sizeof text);
    // The switch exists since 5.14; before, only a charged delay tells.
    p->delay_off = len > 0 && al_parse_number(text, &on) && !on;
    if (p->delay_off)
        p->delay_since = UINT64_MAX;
    else if (p->delay_since == UINT64_MAX &&
             (len = al_procfs_read(p, p->root_fd, "proc/1/stat", text, sizeof text)) > 0 &&
             al_parse_stat(text, (size_t)len, &stat) == 0 && stat.has_blkio && stat.blkio_ticks)
        p->delay_since = stat.start_ticks;
}

static int processes(struct al_host *h, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    struct al_procfs *p = (struct al_procfs *)h;
    p->generation++;
    p->visited_count = p->kid_count = 0;
    p->groups = groups;
    p->tasks_ran_out = p->generation > 1 && !p->task_budget;
    p->task_budget = AL_HOST_TASKS;
    p->pss_budget_ns = groups & AL_GROUP_PSS ? PSS_BUDGET_ASKED_NS : PSS_BUDGET_NS;
    s->proc_count = 0;
    if (s->row_count || s->rank_count || p->root_count)
        look_for_delay_accounting(p);
    visit_rows(p, s, now_ns);
    visit_told(p, s, now_ns);
    visit_descendants(p, now_ns);
    visit_ancestors(p, now_ns);
    int result = emit_all(p, s);
    al_track_evict(p);
    return result;
}

static void procfs_free(struct al_host *h) {
    struct al_procfs *p = (struct al_procfs *)h;
    al_track_free_all(p);
    if (p->root_fd >= 0)
        (void)close(p->root_fd);
    free(p->visited);
    free(p->kids);
    free(p->scan);
    free(p->nodes);
    free(p->order);
    free(p->scratch);
    free(p);
}

static const struct al_host_ops procfs_ops = {"procfs", al_procfs_node, processes, procfs_free};

int al_procfs_open(const struct al_procfs_options *options, struct al_host **ret) {
    const char *root = options && options->root ? options->root : "/";
    struct al_procfs *p = calloc(1, sizeof *p);
    if (!p)
        return AL_E_NOMEM;
    p->host.ops = &procfs_ops;
    p->root_fd = -1;
    p->real_root = strcmp(root, "/") == 0;
    p->no_cmdline = options && options->no_cmdline;
    p->ticks_per_s = sysconf(_SC_CLK_TCK) > 0 ? sysconf(_SC_CLK_TCK) : 100;
    p->delay_since = UINT64_MAX;
    p->scratch = malloc(AL_HOST_SCRATCH);
    int result = p->scratch ? al_fs_root(root, &p->root_fd) : AL_E_NOMEM;
    if (result < 0) {
        procfs_free(&p->host);
        return result;
    }
    al_procfs_probe(p);
    *ret = &p->host;
    return 0;
}

void al_procfs_roots(struct al_host *h, const pid_t *pids, size_t count) {
    if (h->ops != &procfs_ops)
        return;
    struct al_procfs *p = (struct al_procfs *)h;
    p->root_count = 0;
    for (size_t i = 0; i < count && p->root_count < AL_PROCFS_ROOTS; i++)
        if (pids[i] > 0)
            p->roots[p->root_count++] = pids[i];
}

struct al_host *al_host_free(struct al_host *h) {
    if (h)
        h->ops->free(h);
    return NULL;
}
