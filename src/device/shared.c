// SPDX-License-Identifier: Apache-2.0
#include "device/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

#define BYTES_MOST (16u << 20)
#define WAIT_NS AL_NS_PER_S        // at opening, for the first view of a holder
#define RETRY_NS AL_NS_PER_S       // between tries to take over
#define OLD_NS (3 * AL_NS_PER_S)   // figures that nobody has renewed for so long are stale
#define DEAD_NS (10 * AL_NS_PER_S) // ... and for so long: the holder is stuck, each asks for itself
#define FIRST_NS (30 * AL_NS_PER_S) // a driver without persistence takes its time with eight GPUs: the first view may come late
#define WISH_NS (10 * AL_NS_PER_S) // a wish for all groups counts for so long
#define APART_NS (20 * AL_NS_PER_MS)
#define MINORS 64

struct history { // driver samples of a GPU, for readers that look at other times than the holder
    char uuid[AL_UUID_MAX];
    uint32_t count;
    struct al_fresh fresh[AL_FRESH_MAX];
};

struct seen { // the newest sample handed out
    char uuid[AL_UUID_MAX];
    int64_t at_ns;
};

struct publisher {
    struct al_sink base; // first
    struct al_sink_ops ops;
    struct shared *shared;
    struct history *history; // AL_GPU_MAX
    uint32_t history_count;
    struct al_snapshot *out;
    struct al_buf text;
};

struct shared {
    struct al_device base; // first
    struct al_nvml_options options;
    struct al_device *own; // NULL: reads the holder's view
    char place[128], key[24];
    int dir_fd, lock_fd; // lock_fd: held, or -1
    int64_t tried_ns, opened_ns, wished_ns;
    struct al_snapshot *view;
    struct al_shared_head head;
    bool viewed;
    struct seen seen[AL_GPU_MAX];
    uint32_t seen_count;
    struct publisher sink;
};

// ---- who shares with whom ----

static uint64_t add_text(uint64_t h, const char *text) {
    for (; text && *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return (h ^ 0xff) * 1099511628211u;
}

// FNV-1a over all that decides which devices and pids this process sees. A device cgroup shows in access(2).
static void make_key(struct shared *x) {
    static const char *const names[] = {"ALULA_NVML_LIBRARY", "LD_LIBRARY_PATH", "ALULA_SCENARIO", "ALULA_SCENARIO_SPEED",
                                        "ALULA_SCENARIO_START", "ALULA_SCENARIO_EPOCH_NS"};
    uint64_t h = 14695981039346656037u;
    struct stat st;
    char path[40];
    h = add_text(h, x->options.gpus);
    h = add_text(h, x->options.library);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        h = add_text(h, getenv(names[i]));
    for (int i = 0; i < MINORS; i++) {
        (void)snprintf(path, sizeof path, "/dev/nvidia%d", i);
        h = add_text(h, access(path, R_OK | W_OK) == 0 ? "1" : "0");
    }
    (void)snprintf(path, sizeof path, "%llu", stat("/proc/self/ns/pid", &st) == 0 ? (unsigned long long)st.st_ino : 0ull);
    h = add_text(h, path);
    (void)snprintf(x->key, sizeof x->key, "%016llx", (unsigned long long)h);
}

// A folder of ours that nobody else may enter.
static bool open_folder(struct shared *x, const char *above) {
    struct stat st;
    if (snprintf(x->place, sizeof x->place, "%s/alula-devices-%u", above, (unsigned)geteuid()) >= (int)sizeof x->place)
        return false;
    (void)mkdir(x->place, 0700);
    x->dir_fd = open(x->place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (x->dir_fd >= 0 && fstat(x->dir_fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077))
        return true;
    if (x->dir_fd >= 0)
        (void)close(x->dir_fd);
    x->dir_fd = -1;
    return false;
}

static void name_of(const struct shared *x, const char *ending, char out[48]) {
    (void)snprintf(out, 48, "%s.%s", x->key, ending);
}

// Whether the lock is ours now. A lock on a file that was removed in the meantime counts for nothing.
static bool try_lock(struct shared *x) {
    char name[48];
    struct stat held, there;
    name_of(x, "lock", name);
    for (int i = 0; i < 5; i++) {
        int fd = openat(x->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return false;
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            (void)close(fd);
            return false;
        }
        if (fstat(fd, &held) == 0 && fstatat(x->dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_ino == there.st_ino && held.st_dev == there.st_dev) {
            x->lock_fd = fd;
            return true;
        }
        (void)close(fd);
    }
    return false;
}

static void give_up_lock(struct shared *x) {
    static const char *const endings[] = {"view", "new", "wish", "lock"}; // the lock last
    char name[48];
    if (x->lock_fd < 0)
        return;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        name_of(x, endings[i], name);
        (void)unlinkat(x->dir_fd, name, 0);
    }
    (void)close(x->lock_fd);
    x->lock_fd = -1;
}

// ---- reading ----

static bool read_view(struct shared *x) {
    char name[48];
    struct stat st;
    name_of(x, "view", name);
    int fd = openat(x->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool fine = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= (off_t)BYTES_MOST;
    char *bytes = fine ? malloc((size_t)st.st_size) : NULL;
    ssize_t len = bytes ? read(fd, bytes, (size_t)st.st_size) : -1;
    fine = len > 0 && al_shared_parse(bytes, (size_t)len, &x->head, x->view) == 0;
    free(bytes);
    (void)close(fd);
    x->viewed |= fine;
    return fine;
}

static struct seen *seen_of(struct shared *x, const char *uuid) {
    for (uint32_t i = 0; i < x->seen_count; i++)
        if (strcmp(x->seen[i].uuid, uuid) == 0)
            return &x->seen[i];
    if (x->seen_count == AL_GPU_MAX)
        return NULL;
    struct seen *s = &x->seen[x->seen_count++];
    (void)al_str_copy(s->uuid, sizeof s->uuid, uuid);
    s->at_ns = x->opened_ns;
    return s;
}

// Each driver sample once, and none from before this device was opened. Two processes put a sample's time a little apart.
static void take_fresh(struct shared *x, struct al_gpu *g, int64_t apart_ns) {
    struct seen *seen = seen_of(x, g->info.uuid);
    uint32_t kept = 0;
    int64_t newest = seen ? seen->at_ns : 0;
    for (uint32_t i = 0; seen && i < g->fresh_count; i++)
        if (g->fresh[i].at_ns > seen->at_ns + apart_ns) {
            newest = g->fresh[i].at_ns > newest ? g->fresh[i].at_ns : newest;
            g->fresh[kept++] = g->fresh[i];
        }
    g->fresh_count = kept;
    if (seen)
        seen->at_ns = newest;
}

static void take_xid(struct shared *x, struct al_gpu *g) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->xid_count; i++)
        if (g->xid[i].last_ns >= x->opened_ns)
            g->xid[kept++] = g->xid[i];
    g->xid_count = kept;
}

static void keep_groups(struct shared *x, struct al_gpu *g, uint32_t groups, bool stale) {
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        if (!(al_gpu_metrics[m].group & groups))
            g->m[m] = al_value_none(AL_STATUS_UNREAD);
        else if (stale && al_ok(g->m[m]))
            g->m[m].status = AL_STATUS_STALE;
    }
    if (groups & AL_GROUP_SAMPLES)
        take_fresh(x, g, 0);
    else
        g->fresh_count = 0;
    if (groups & AL_GROUP_XID)
        take_xid(x, g);
    else
        g->xid_count = 0;
}

static int hand_out(struct shared *x, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    const struct al_snapshot *v = x->view;
    memcpy(s->node.driver_version, v->node.driver_version, sizeof s->node.driver_version);
    memcpy(s->node.nvml_version, v->node.nvml_version, sizeof s->node.nvml_version);
    memcpy(s->node.cuda_version, v->node.cuda_version, sizeof s->node.cuda_version);
    s->gpu_count = s->row_count = 0;
    for (uint32_t i = 0; i < v->gpu_count; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(s);
        if (!g)
            return AL_E_NOMEM;
        *g = v->gpus[i];
        keep_groups(x, g, groups, now_ns - x->head.written_ns > OLD_NS);
    }
    for (uint32_t i = 0; i < v->row_count && groups & (AL_GROUP_PROCESS | AL_GROUP_PROCUTIL); i++) {
        struct al_proc_gpu *r = al_snapshot_add_row(s);
        if (!r)
            return AL_E_NOMEM;
        *r = v->rows[i];
    }
    return 0;
}

// Asks the holder for groups that it does not read for itself.
static void wish(struct shared *x, int64_t now_ns) {
    char name[48];
    if (x->wished_ns && now_ns - x->wished_ns < WISH_NS / 4)
        return;
    x->wished_ns = now_ns;
    name_of(x, "wish", name);
    int fd = openat(x->dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)futimens(fd, NULL);
    (void)close(fd);
}

// ---- as a device ----

static int ask_self(struct shared *x, struct al_device_error *ret_error) {
    int result = al_nvml_open(&x->options, &x->own, ret_error);
    atomic_store(&x->base.inner, result ? NULL : x->own);
    if (result) {
        x->own = NULL;
        give_up_lock(x);
    }
    return result;
}

static int sample_self(struct shared *x, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    int result = x->own->ops->sample(x->own, s, groups, now_ns);
    // The driver hands back its last seconds: what was read from the view before is left out.
    for (uint32_t i = 0; x->viewed && groups & AL_GROUP_SAMPLES && i < s->gpu_count; i++)
        take_fresh(x, &s->gpus[i], APART_NS);
    return result;
}

static int shared_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    struct shared *x = (struct shared *)d;
    struct al_device_error e;
    if (!x->own && now_ns - x->tried_ns >= RETRY_NS) {
        x->tried_ns = now_ns;
        if (try_lock(x))
            (void)ask_self(x, &e);
    }
    if (!x->own) {
        (void)read_view(x);
        if (now_ns - (x->viewed ? x->head.written_ns : x->opened_ns) > (x->viewed ? DEAD_NS : FIRST_NS))
            (void)ask_self(x, &e);
    }
    if (x->own)
        return sample_self(x, s, groups, now_ns);
    uint32_t host = AL_GROUP_HOST | AL_GROUP_NODE | AL_GROUP_PSS;
    if (groups & ~x->head.groups & ~host)
        wish(x, now_ns);
    return hand_out(x, s, groups, now_ns);
}

static int shared_attr(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct shared *x = (struct shared *)d;
    return x->own ? x->own->ops->attr(x->own, gpu, attr, ret) : AL_E_UNSUPPORTED;
}

static size_t shared_stats(struct al_device *d, struct al_call_stat *ret, size_t max) {
    struct al_device *inner = atomic_load(&d->inner);
    return inner ? inner->ops->stats(inner, ret, max) : 0;
}

static void shared_free(struct al_device *d) {
    struct shared *x = (struct shared *)d;
    if (x->own)
        x->own->ops->free(x->own);
    give_up_lock(x);
    if (x->dir_fd >= 0)
        (void)close(x->dir_fd);
    (void)rmdir(x->place); // stays while others are in it
    al_snapshot_free(x->view);
    al_snapshot_free(x->sink.out);
    al_buf_free(&x->sink.text);
    free(x->sink.history);
    free(x);
}

static const struct al_device_ops shared_ops = {"nvml, shared", shared_sample, shared_attr, shared_stats, shared_free};

// ---- leaving the view for others ----

static struct history *history_of(struct shared *x, const char *uuid) {
    for (uint32_t i = 0; x->sink.history && i < x->sink.history_count; i++)
        if (strcmp(x->sink.history[i].uuid, uuid) == 0)
            return &x->sink.history[i];
    if (!x->sink.history || x->sink.history_count == AL_GPU_MAX)
        return NULL;
    struct history *h = &x->sink.history[x->sink.history_count++];
    (void)al_str_copy(h->uuid, sizeof h->uuid, uuid);
    return h;
}

static void remember(struct shared *x, struct al_gpu *g) {
    struct history *h = history_of(x, g->info.uuid);
    if (!h)
        return;
    for (uint32_t i = 0; i < g->fresh_count; i++) {
        if (h->count == AL_FRESH_MAX)
            memmove(h->fresh, h->fresh + 1, --h->count * sizeof *h->fresh);
        h->fresh[h->count++] = g->fresh[i];
    }
    g->fresh_count = h->count;
    memcpy(g->fresh, h->fresh, h->count * sizeof *h->fresh);
}

static void write_view(struct shared *x) {
    char name[48], fresh[48];
    name_of(x, "view", name);
    name_of(x, "new", fresh);
    int fd = openat(x->dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    const struct al_buf *b = &x->sink.text;
    bool fine = !b->failed && write(fd, b->data, b->len) == (ssize_t)b->len;
    if (close(fd) == 0 && fine)
        (void)renameat(x->dir_fd, fresh, x->dir_fd, name);
}

static bool somebody_wishes(const struct shared *x) {
    char name[48];
    struct stat st;
    name_of(x, "wish", name);
    return fstatat(x->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           al_realtime_ns() - ((int64_t)st.st_mtim.tv_sec * AL_NS_PER_S + st.st_mtim.tv_nsec) < WISH_NS;
}

static int publish(struct al_sink *sink, const struct al_snapshot *s) {
    struct shared *x = ((struct publisher *)sink)->shared;
    if (x->lock_fd < 0 || al_snapshot_copy(x->sink.out, s))
        return 0; // the job matters more than who else looks on
    for (uint32_t i = 0; i < x->sink.out->gpu_count; i++)
        remember(x, &x->sink.out->gpus[i]);
    al_buf_clear(&x->sink.text);
    al_shared_format(&x->sink.text, &(struct al_shared_head){al_monotonic_ns(), s->groups}, x->sink.out);
    write_view(x);
    x->sink.ops.groups = somebody_wishes(x) ? AL_GROUP_ALL : 0;
    return 0;
}

struct al_sink *al_shared_sink(struct al_device *d) {
    return d && d->ops == &shared_ops ? &((struct shared *)d)->sink.base : NULL;
}

bool al_shared_holds(const struct al_device *d) {
    return d && (d->ops != &shared_ops || ((const struct shared *)d)->own);
}

// ---- opening ----

static int meet(struct shared *x, struct al_device_error *ret_error) {
    int64_t until = al_monotonic_ns() + WAIT_NS;
    do {
        if (try_lock(x))
            return ask_self(x, ret_error);
        if (read_view(x) && al_monotonic_ns() - x->head.written_ns < OLD_NS)
            return 0;
        (void)usleep(20000);
    } while (al_monotonic_ns() < until);
    return 0; // no GPU is seen until the holder has opened the driver
}

static struct shared *make(const struct al_nvml_options *options) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct shared *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->base.ops = &shared_ops;
    x->options = *options;
    x->dir_fd = x->lock_fd = -1;
    x->opened_ns = al_monotonic_ns();
    x->view = al_snapshot_new();
    x->sink.out = al_snapshot_new();
    x->sink.history = calloc(AL_GPU_MAX, sizeof *x->sink.history);
    x->sink.shared = x;
    x->sink.ops = (struct al_sink_ops){.name = "shared view", .tick = publish};
    x->sink.base.ops = &x->sink.ops;
    make_key(x);
    bool placed = (runtime && *runtime == '/' && open_folder(x, runtime)) || open_folder(x, "/tmp");
    if (placed && x->view && x->sink.out && x->sink.history)
        return x;
    x->place[0] = '\0';
    shared_free(&x->base);
    return NULL;
}

int al_shared_open(const struct al_nvml_options *options, struct al_device **ret, struct al_device_error *ret_error) {
    struct shared *x = make(options);
    if (!x)
        return al_nvml_open(options, ret, ret_error);
    int result = meet(x, ret_error);
    if (result) {
        shared_free(&x->base);
        return result;
    }
    *ret = &x->base;
    return 0;
}
