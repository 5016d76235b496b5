// SPDX-License-Identifier: Apache-2.0
// Processes between two readings, by pid, their identity checked by the start time. What is read once (environment) or
// rarely (command, control group) stays here; what a reading did not see is dropped at its end.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "host/procfs.h"
#include "host/roles.h"

#define SPARE_MAX 64

static struct al_track **bucket_of(const struct al_procfs *p, pid_t pid) {
    return (struct al_track **)&p->bucket[(uint32_t)pid % AL_HOST_BUCKETS];
}

struct al_track *al_track_find(const struct al_procfs *p, pid_t pid) {
    struct al_track *t = *bucket_of(p, pid);
    while (t && t->row.pid != pid)
        t = t->next;
    return t;
}

// Back to nothing known, for a new process under this pid.
static void reset(struct al_track *t, pid_t pid) {
    struct al_track *next = t->next;
    memset(t, 0, sizeof *t);
    t->next = next;
    t->row.pid = pid;
    t->row.rank = t->row.local_rank = t->row.world_size = t->row.node_rank = -1;
}

static struct al_track *add(struct al_procfs *p, pid_t pid) {
    struct al_track *t = p->spare;
    if (t) {
        p->spare = t->next;
        p->spare_count--;
    } else if (!(t = malloc(sizeof *t))) {
        return NULL;
    }
    t->next = NULL;
    reset(t, pid);
    struct al_track **bucket = bucket_of(p, pid);
    t->next = *bucket;
    *bucket = t;
    p->track_count++;
    return t;
}

static void drop(struct al_procfs *p, struct al_track **at) {
    struct al_track *t = *at;
    *at = t->next;
    p->track_count--;
    if (p->spare_count >= SPARE_MAX) {
        free(t);
        return;
    }
    t->next = p->spare;
    p->spare = t;
    p->spare_count++;
}

void al_track_evict(struct al_procfs *p) {
    for (size_t i = 0; i < AL_HOST_BUCKETS; i++)
        for (struct al_track **at = &p->bucket[i]; *at;) {
            if ((*at)->generation != p->generation)
                drop(p, at);
            else
                at = &(*at)->next;
        }
}

void al_track_free_all(struct al_procfs *p) {
    p->generation++;
    al_track_evict(p);
    while (p->spare) {
        struct al_track *next = p->spare->next;
        free(p->spare);
        p->spare = next;
    }
    p->spare_count = 0;
}

struct al_value al_rate_next(struct al_rate *r, uint64_t value, int64_t now_ns) {
    struct al_value v = al_value_none(AL_STATUS_UNREAD);
    if (r->known && now_ns > r->at_ns && value >= r->last)
        v = al_value_ok((double)(value - r->last) * 1e9 / (double)(now_ns - r->at_ns), now_ns);
    *r = (struct al_rate){value, now_ns, true};
    return v;
}

// Last part of a path without the mark of a replaced file.
static void copy_exe(char *out, size_t size, char *path) {
    static const char deleted[] = " (deleted)";
    if (al_str_ends(path, deleted))
        path[strlen(path) - strlen(deleted)] = '\0';
    const char *slash = strrchr(path, '/');
    al_str_copy(out, size, slash ? slash + 1 : path);
    al_str_clean(out);
}

static void read_environ(struct al_procfs *p, struct al_track *t, int dir_fd) {
    struct al_host_env env;
    ssize_t len = al_procfs_read(p, dir_fd, "environ", p->scratch, AL_HOST_SCRATCH);
    al_parse_environ(p->scratch, len > 0 ? (size_t)len : 0, &env);
    t->row.rank = env.rank;
    t->row.local_rank = env.local_rank;
    t->row.world_size = env.world_size;
    t->row.node_rank = env.node_rank;
    t->row.meeting = env.meeting;
    memcpy(t->row.visible_devices, env.visible_devices, sizeof t->row.visible_devices);
    al_str_copy(t->env_job, sizeof t->env_job, env.slurm_job);
}

// Command line, executable and, when they are new, the environment: it changes by exec only, which they show.
static void read_text(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    char exe[1024], command[AL_CMD_MAX];
    ssize_t len = al_procfs_read(p, dir_fd, "cmdline", p->scratch, 16384);
    al_command_mask(p->scratch, len > 0 ? (size_t)len : 0, command, sizeof command);
    bool changed = !t->text_ns || strcmp(command, t->row.command) != 0;
    t->text_ns = now_ns;
    al_program_parse(p->scratch, len > 0 ? (size_t)len : 0, &t->program);
    memcpy(t->row.command, command, sizeof command);
    p->reads++;
    if (al_fs_link(dir_fd, "exe", exe, sizeof exe) > 0)
        copy_exe(t->row.exe, sizeof t->row.exe, exe);
    else
        al_str_copy(t->row.exe, sizeof t->row.exe, t->program.exe);
    t->boundary = al_role_is_boundary(t->row.exe[0] ? t->row.exe : t->row.comm, t->program.name);
    if (changed && (!t->boundary || t->tree))
        read_environ(p, t, dir_fd);
}

static void read_cgroup(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    struct al_cgroup c;
    if (al_procfs_read(p, dir_fd, "cgroup", p->scratch, AL_HOST_SCRATCH) < 0)
        return;
    t->cgroup_ns = now_ns;
    al_cgroup_parse(p->scratch, &c);
    t->memory_v1 = c.memory[0];
    al_str_copy(t->memory_path, sizeof t->memory_path, t->memory_v1 ? c.memory : c.unified);
    al_str_copy(t->row.cgroup, sizeof t->row.cgroup, al_cgroup_show(&c));
    al_str_clean(t->row.cgroup);
    al_str_copy(t->row.container, sizeof t->row.container, c.container);
    al_str_copy(t->row.pod, sizeof t->row.pod, c.pod);
    al_str_copy(t->row.slurm_job, sizeof t->row.slurm_job, c.slurm_job[0] ? c.slurm_job : t->env_job);
}

static void set_none(struct al_track *t, const uint32_t *metrics, size_t count, enum al_status status) {
    for (size_t i = 0; i < count; i++)
        t->row.m[metrics[i]] = al_value_none(status);
}

static void read_status(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    static const char *const keys[] = {"Uid", "RssAnon", "RssFile", "RssShmem", "VmSwap", "VmRSS"};
    static const uint32_t metric[] = {AL_PROC_RSS_ANON, AL_PROC_RSS_FILE, AL_PROC_RSS_SHMEM, AL_PROC_SWAP, AL_PROC_RSS};
    char text[4096];
    uint64_t value[6];
    ssize_t len = al_procfs_read(p, dir_fd, "status", text, sizeof text);
    uint32_t found = len < 0 ? 0 : al_parse_keys(text, keys, 6, value);
    // A zombie has no memory left to report.
    enum al_status missing = len < 0 ? al_procfs_status(len) : AL_STATUS_UNSUPPORTED;
    for (unsigned i = 0; i < 5; i++)
        t->row.m[metric[i]] =
            found & (2U << i) ? al_value_ok((double)value[i + 1], now_ns) : al_value_none(missing);
    if (!(found & 1))
        t->row.uid = (uid_t)-1;
    else if (t->row.uid != (uid_t)value[0] || !t->row.user[0])
        al_str_copy(t->row.user, sizeof t->row.user, al_procfs_user(p, t->row.uid = (uid_t)value[0]));
}

static void read_io(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    static const char *const keys[] = {"read_bytes", "rchar", "write_bytes"};
    static const uint32_t metric[] = {AL_PROC_READ_RATE, AL_PROC_READ_CHARS, AL_PROC_WRITE_RATE};
    struct al_rate *const rate[] = {&t->read, &t->chars, &t->written};
    char text[512];
    uint64_t value[3];
    ssize_t len = al_procfs_read(p, dir_fd, "io", text, sizeof text);
    if (len < 0) {
        set_none(t, metric, 3, al_procfs_status(len));
        return;
    }
    uint32_t found = al_parse_keys(text, keys, 3, value);
    for (unsigned i = 0; i < 3; i++)
        t->row.m[metric[i]] =
            found & (1U << i) ? al_rate_next(rate[i], value[i], now_ns) : al_value_none(AL_STATUS_UNSUPPORTED);
}

static void read_limits(struct al_procfs *p, struct al_track *t, int64_t now_ns) {
    const struct al_limit *l = al_procfs_limit(p, t->memory_path, t->memory_v1, now_ns);
    t->row.m[AL_PROC_CGROUP_LIMIT] = l->limit;
    t->row.m[AL_PROC_CGROUP_USED] = l->used;
    t->row.m[AL_PROC_CGROUP_ANON] = l->anon;
}

static void apply_stat(struct al_procfs *p, struct al_track *t, const struct al_host_stat *s, int64_t now_ns) {
    struct al_proc *r = &t->row;
    // A process that ended and waits for its parent has lost its stack, arguments and control group, not its identity.
    bool ended = s->state == 'Z' || s->state == 'X';
    bool renamed = strcmp(r->comm, s->comm) != 0 || (!ended && t->start_stack != s->start_stack);
    if (!ended || !t->start_stack)
        t->start_stack = s->start_stack;
    al_str_copy(r->comm, sizeof r->comm, s->comm);
    if (renamed)
        t->text_ns = t->text_ns ? now_ns - AL_HOST_TEXT_NS : 0; // an exec or a new title: look again now
    r->ppid = s->ppid;
    r->state = s->state;
    r->start_ticks = s->start_ticks;
    r->pid_ns = p->pid_ns;
    r->alive = true;
    if (!r->started_realtime_ns && p->boot_s)
        r->started_realtime_ns =
            (int64_t)(p->boot_s * AL_NS_PER_S + (double)s->start_ticks * 1e9 / (double)p->ticks_per_s);
    r->m[AL_PROC_THREADS] = al_value_ok((double)s->threads, now_ns);
    struct al_value cpu = al_rate_next(&t->cpu, s->utime + s->stime, now_ns);
    cpu.num /= (double)p->ticks_per_s;
    r->m[AL_PROC_CPU] = cpu;
}

// The kernel gives delay accounting to processes that start while it is on. It is on for this one when it is not
// switched off now and this one or an older one has been charged for a delay.
static void apply_delay(struct al_procfs *p, struct al_track *t, const struct al_host_stat *s, int64_t now_ns) {
    struct al_value wait = al_rate_next(&t->blkio, s->blkio_ticks, now_ns);
    wait.num /= (double)p->ticks_per_s;
    if (wait.num > 1)
        wait.num = 1;
    if (!p->delay_off && s->has_blkio && s->blkio_ticks && s->start_ticks < p->delay_since)
        p->delay_since = s->start_ticks;
    bool works = !p->delay_off && s->has_blkio && s->start_ticks >= p->delay_since;
    t->row.m[AL_PROC_IO_WAIT] = works ? wait : al_value_none(AL_STATUS_UNSUPPORTED);
}

static void read_details(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns) {
    static const uint32_t gone[] = {AL_PROC_CGROUP_LIMIT, AL_PROC_CGROUP_USED, AL_PROC_CGROUP_ANON, AL_PROC_PSS,
                                    AL_PROC_READ_RATE,    AL_PROC_READ_CHARS,  AL_PROC_WRITE_RATE};
    if (t->row.state == 'Z' || t->row.state == 'X') {
        set_none(t, gone, sizeof gone / sizeof *gone, AL_STATUS_UNSUPPORTED);
        al_track_tasks(p, t, dir_fd, now_ns);
        return;
    }
    if (!t->cgroup_ns || now_ns - t->cgroup_ns >= AL_HOST_CGROUP_NS)
        read_cgroup(p, t, dir_fd, now_ns);
    read_io(p, t, dir_fd, now_ns);
    read_limits(p, t, now_ns);
    al_track_pss(p, t, dir_fd, now_ns);
    al_track_tasks(p, t, dir_fd, now_ns);
}

static int read_process(struct al_procfs *p, struct al_track **track, pid_t pid, int dir_fd, bool tree, int64_t now_ns) {
    char text[1024];
    struct al_host_stat stat;
    ssize_t len = al_procfs_read(p, dir_fd, "stat", text, sizeof text);
    if (len < 0)
        return (int)len;
    int result = al_parse_stat(text, (size_t)len, &stat);
    if (result < 0)
        return result;
    if (!*track && !(*track = add(p, pid)))
        return AL_E_NOMEM;
    struct al_track *t = *track;
    if (t->row.start_ticks != stat.start_ticks && t->generation)
        reset(t, pid);
    t->generation = p->generation;
    t->tree = tree;
    t->gpu = t->trains = t->root = t->row.holds_context = false;
    t->devices = 0;
    apply_stat(p, t, &stat, now_ns);
    apply_delay(p, t, &stat, now_ns);
    read_status(p, t, dir_fd, now_ns);
    if (!t->text_ns || (now_ns - t->text_ns >= AL_HOST_TEXT_NS && stat.state != 'Z' && stat.state != 'X'))
        read_text(p, t, dir_fd, now_ns);
    if (!t->boundary || tree)
        read_details(p, t, dir_fd, now_ns);
    // Files of a process that ends meanwhile read as if they were not there: say so rather than "unsupported".
    enum al_status io = t->row.m[AL_PROC_READ_CHARS].status;
    bool whole = al_ok(t->row.m[AL_PROC_RSS_ANON]) &&
                 ((t->boundary && !tree) || io == AL_STATUS_OK || io == AL_STATUS_DENIED || t->chars.at_ns == now_ns);
    if (!whole && al_procfs_read(p, dir_fd, "stat", text, sizeof text) < 0)
        t->row.alive = false;
    return 0;
}

static bool remember(struct al_procfs *p, struct al_track *t) {
    if (p->visited_count == p->visited_cap) {
        size_t cap = p->visited_cap ? p->visited_cap * 2 : 64;
        struct al_track **more = realloc(p->visited, cap * sizeof(*more));
        if (!more)
            return false;
        p->visited = more;
        p->visited_cap = cap;
    }
    p->visited[p->visited_count++] = t;
    return true;
}

struct al_track *al_track_visit(struct al_procfs *p, pid_t pid, bool tree, int64_t now_ns, int *ret_error) {
    struct al_track *t = al_track_find(p, pid);
    *ret_error = 0;
    if (t && t->generation == p->generation)
        return t;
    if (p->visited_count >= AL_HOST_TREE) {
        *ret_error = AL_E_TOOBIG;
        return NULL;
    }
    // All files are opened below one descriptor of the process's folder: when the process ends and its pid is given to
    // another one meanwhile, they fail instead of telling of the other one.
    int dir_fd = al_procfs_open_process(p, pid);
    if (dir_fd < 0) {
        *ret_error = dir_fd;
        return NULL;
    }
    *ret_error = read_process(p, &t, pid, dir_fd, tree, now_ns);
    (void)close(dir_fd);
    return *ret_error == 0 && remember(p, t) ? t : NULL;
}
