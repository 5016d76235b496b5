// SPDX-License-Identifier: Apache-2.0
// The costlier looks at a process: its threads, their children, its proportional set size, its device files.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/procfs.h"

#define PSS_EVERY_NS (30 * AL_NS_PER_S)
#define PSS_DEAR_NS (5 * AL_NS_PER_MS)     // beyond this the process is left alone: its mapping lock is held meanwhile
#define PSS_RETRY_NS (600 * AL_NS_PER_S)   // ... for this long
#define PSS_BUDGET_RSS (8ULL << 30)        // a first look at more than this is not risked unasked
#define DEVICE_RETRY_NS (10 * AL_NS_PER_S)
#define DEVICE_FDS 4096

int al_procfs_open_process(struct al_procfs *p, pid_t pid) {
    char path[32];
    (void)snprintf(path, sizeof path, "proc/%d", (int)pid);
    p->reads++;
    int fd = openat(p->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    return errno == ENOENT || errno == ENOTDIR || errno == ESRCH ? AL_E_NOENT
           : errno == EACCES || errno == EPERM                   ? AL_E_DENIED
                                                                 : AL_E_IO;
}

static bool add_pair(struct al_parentage **list, size_t *count, size_t *cap, pid_t ppid, pid_t pid) {
    if (*count == *cap) {
        size_t more_cap = *cap ? *cap * 2 : 256;
        struct al_parentage *more = realloc(*list, more_cap * sizeof *more);
        if (!more)
            return false;
        *list = more;
        *cap = more_cap;
    }
    (*list)[(*count)++] = (struct al_parentage){ppid, pid};
    return true;
}

void al_track_add_kid(struct al_procfs *p, pid_t ppid, pid_t pid) {
    if (p->kid_count < AL_HOST_TREE)
        (void)add_pair(&p->kids, &p->kid_count, &p->kid_cap, ppid, pid);
}

// Children that the thread forked. False when the kernel keeps no such file (CONFIG_PROC_CHILDREN).
static bool read_children(struct al_procfs *p, struct al_track *t, int dir_fd, pid_t tid) {
    pid_t pids[1024];
    ssize_t len = al_procfs_readf_at(p, dir_fd, p->scratch, AL_HOST_SCRATCH, "task/%d/children", (int)tid);
    if (len < 0)
        return len != AL_E_NOENT;
    size_t count = al_parse_pids(p->scratch, pids, sizeof pids / sizeof *pids);
    for (size_t i = 0; i < count; i++)
        al_track_add_kid(p, t->row.pid, pids[i]);
    return true;
}

static pid_t entry_pid(const struct dirent64 *e) {
    uint64_t value;
    return al_str_u64(e->d_name, &value) && value && value <= INT32_MAX ? (pid_t)value : 0;
}

typedef void number_fn(void *user, pid_t number);

// Calls fn for each numeric name of a folder, without the memory that opendir() takes each time.
static bool each_number(struct al_procfs *p, int dir_fd, const char *path, number_fn *fn, void *user) {
    _Alignas(struct dirent64) char buffer[8192];
    p->reads++;
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len;
    while ((len = getdents64(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0; at < len;) {
            const struct dirent64 *e = (const struct dirent64 *)(const void *)(buffer + at);
            pid_t number = entry_pid(e);
            if (number)
                fn(user, number);
            at += e->d_reclen;
        }
    (void)close(fd);
    return len == 0;
}

struct thread_walk {
    struct al_procfs *p;
    struct al_track *t;
    int dir_fd;
    bool children;
    unsigned blocked;
};

static void look_at_thread(void *user, pid_t tid) {
    struct thread_walk *w = user;
    char text[512];
    struct al_host_stat stat;
    if (tid == w->t->row.pid || !w->p->task_budget)
        return;
    w->p->task_budget--;
    ssize_t len = al_procfs_readf_at(w->p, w->dir_fd, text, sizeof text, "task/%d/stat", (int)tid);
    if (len > 0 && al_parse_stat(text, (size_t)len, &stat) == 0)
        w->blocked += stat.state == 'D';
    if (w->children && len > 0)
        (void)read_children(w->p, w->t, w->dir_fd, tid);
}

// The main thread's state is known from stat. Others are counted while the reading's budget lasts; processes left out
// keep their last count as stale and come first at the next reading.
void al_track_tasks(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    struct al_value *blocked = &t->row.m[AL_PROC_BLOCKED];
    double threads = t->row.m[AL_PROC_THREADS].num;
    if (t->tree && !p->no_children_file && !read_children(p, t, dir_fd, t->row.pid)) {
        char text[64];
        p->no_children_file = al_procfs_readf_at(p, dir_fd, text, sizeof text, "stat") >= 0;
    }
    if (threads <= 1) {
        *blocked = al_value_ok(t->row.state == 'D', now_ns);
        return;
    }
    bool had_its_turn = p->tasks_ran_out && t->tasks_generation + 1 == p->generation;
    if (had_its_turn || threads - 1 > p->task_budget) {
        blocked->status = al_ok(*blocked) ? AL_STATUS_STALE : blocked->status;
        if (!had_its_turn)
            p->task_budget = 0;
        return;
    }
    struct thread_walk w = {p, t, dir_fd, false, t->row.state == 'D'};
    // Few jobs fork from other threads than the first, so these are asked only now and then, or when there are new ones.
    w.children = t->tree && !p->no_children_file &&
                 (!t->kids_ns || now_ns - t->kids_ns >= AL_HOST_SCAN_NS || threads != t->kids_threads);
    if (!each_number(p, dir_fd, "task", look_at_thread, &w)) {
        *blocked = al_value_none(AL_STATUS_DENIED);
        return;
    }
    *blocked = al_value_ok(w.blocked, now_ns);
    t->tasks_generation = p->generation;
    if (w.children) {
        t->kids_ns = now_ns;
        t->kids_threads = threads;
    }
}

// Asked for, or 30 s apart; never again for a while when the last look took long, since the target cannot map memory
// during it. What one reading spends on this is bounded.
void al_track_pss(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    static const char *const key = "Pss";
    struct al_value *pss = &t->row.m[AL_PROC_PSS];
    bool asked = p->groups & AL_GROUP_PSS;
    if (!asked && t->pss_ns && now_ns - t->pss_ns < PSS_EVERY_NS)
        return;
    if (now_ns < t->pss_next_ns || p->pss_budget_ns <= 0 ||
        (!asked && !t->pss_ns && al_ok(t->row.m[AL_PROC_RSS]) &&
         t->row.m[AL_PROC_RSS].num > (double)PSS_BUDGET_RSS)) {
        pss->status = al_ok(*pss) ? AL_STATUS_STALE : pss->status;
        return;
    }
    char text[2048];
    uint64_t value;
    int64_t before = al_monotonic_ns();
    ssize_t len = al_procfs_readf_at(p, dir_fd, text, sizeof text, "smaps_rollup");
    int64_t cost = al_monotonic_ns() - before;
    p->pss_budget_ns -= cost;
    t->pss_ns = now_ns;
    t->pss_next_ns = cost > PSS_DEAR_NS ? now_ns + PSS_RETRY_NS : 0;
    if (len <= 0)
        *pss = al_value_none(len < 0 ? al_procfs_status(len) : AL_STATUS_UNSUPPORTED);
    else if (al_parse_keys(text, &key, 1, &value))
        *pss = al_value_ok((double)value, now_ns);
    else
        *pss = al_value_none(AL_STATUS_UNSUPPORTED);
}

struct device_walk {
    struct al_procfs *p;
    int dir_fd;
    unsigned left;
    bool found;
};

static void look_at_fd(void *user, pid_t number) {
    struct device_walk *w = user;
    char path[32], target[64];
    if (w->found || !w->left)
        return;
    w->left--;
    w->p->reads++;
    (void)snprintf(path, sizeof path, "fd/%d", (int)number);
    if (al_fs_link(w->dir_fd, path, target, sizeof target) > 0)
        w->found = al_str_starts(target, "/dev/nvidia") || al_str_starts(target, "/dev/dxg") ||
                   al_str_starts(target, "/dev/dri/");
}

bool al_track_holds_device(struct al_procfs *p, struct al_track *t, int64_t now_ns) {
    if (t->holds_device || (t->device_ns && now_ns - t->device_ns < DEVICE_RETRY_NS))
        return t->holds_device;
    int dir_fd = al_procfs_open_process(p, t->row.pid);
    if (dir_fd < 0)
        return false;
    struct device_walk w = {p, dir_fd, DEVICE_FDS, false};
    (void)each_number(p, dir_fd, "fd", look_at_fd, &w);
    (void)close(dir_fd);
    t->device_ns = now_ns;
    t->holds_device = w.found;
    return w.found;
}

static void scan_one(void *user, pid_t pid) {
    struct al_procfs *p = user;
    char text[512];
    struct al_host_stat stat;
    if (p->scan_count >= 1U << 20)
        return;
    ssize_t len = al_procfs_readf_at(p, p->root_fd, text, sizeof text, "proc/%d/stat", (int)pid);
    if (len > 0 && al_parse_stat(text, (size_t)len, &stat) == 0)
        (void)add_pair(&p->scan, &p->scan_count, &p->scan_cap, stat.ppid, pid);
}

static int by_parent(const void *a, const void *b) {
    const struct al_parentage *x = a, *y = b;
    if (x->ppid != y->ppid)
        return x->ppid < y->ppid ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

void al_scan_refresh(struct al_procfs *p, int64_t now_ns) {
    if (p->scan_ns && now_ns - p->scan_ns < AL_HOST_SCAN_NS)
        return;
    p->scan_ns = now_ns;
    p->scan_count = 0;
    (void)each_number(p, p->root_fd, "proc", scan_one, p);
    if (p->scan_count)
        qsort(p->scan, p->scan_count, sizeof *p->scan, by_parent);
}

void al_scan_children(struct al_procfs *p, pid_t parent) {
    size_t low = 0, high = p->scan_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (p->scan[mid].ppid < parent)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < p->scan_count && p->scan[low].ppid == parent; low++)
        al_track_add_kid(p, parent, p->scan[low].pid);
}
