// SPDX-License-Identifier: Apache-2.0
#include "tui/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "tui/text.h"

#define DEPTH_MAX 24

static const char *const sort_words[] = {"GPU", "PID", "user", "role", "GPU memory", "SM", "CPU", "host memory", "time", "command", "steps/s"};

const char *al_sort_word(uint32_t sort) {
    return sort_words[sort < AL_SORT_COUNT ? sort : 0];
}

static int room(struct al_scene_proc **rows, uint32_t *cap, uint32_t count) {
    if (count <= *cap)
        return 0;
    struct al_scene_proc *more = realloc(*rows, (size_t)count * 2 * sizeof **rows);
    if (!more)
        return AL_E_NOMEM;
    *rows = more;
    *cap = count * 2;
    return 0;
}

void al_scene_free(struct al_scene *v) {
    free(v->procs);
    free(v->spare);
    *v = (struct al_scene){0};
}

// --- rows out of the snapshot ---

static struct al_scene_proc blank(pid_t pid) {
    return (struct al_scene_proc){.pid = pid,
                                 .driver_name = "",
                                 .memory = al_value_none(AL_STATUS_UNREAD),
                                 .sm = al_value_none(AL_STATUS_UNREAD),
                                 .cpu = al_value_none(AL_STATUS_UNREAD),
                                 .rss = al_value_none(AL_STATUS_UNREAD),
                                 .parent = -1,
                                 .child = -1,
                                 .sibling = -1};
}

static struct al_scene_proc *find_row(struct al_scene_proc *rows, uint32_t count, pid_t pid) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rows[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && rows[low].pid == pid ? &rows[low] : NULL;
}

// Not that of a process which had the pid before.
static const struct al_rank *rank_of(const struct al_snapshot *s, const struct al_proc *p) {
    const struct al_rank *r = al_snapshot_rank(s, p->pid);
    return r && (!r->start_ticks || !p->start_ticks || r->start_ticks == p->start_ticks) ? r : NULL;
}

static struct al_value host_memory(const struct al_proc *p) {
    return al_txt_has(p->m[AL_PROC_RSS]) ? p->m[AL_PROC_RSS] : p->m[AL_PROC_RSS_ANON];
}

static void add_memory(struct al_value *sum, struct al_value part, bool first) {
    if (first) {
        *sum = part;
    } else if (!al_txt_has(part) || !al_txt_has(*sum)) {
        sum->status = al_txt_has(part) ? sum->status : part.status; // a part is missing: the sum is not known
    } else {
        sum->num += part.num;
        if (part.status == AL_STATUS_STALE)
            sum->status = AL_STATUS_STALE;
    }
}

// While a driver call hangs, what it said of processes is as old as the rest.
static struct al_value aged(struct al_value v, const struct al_snapshot *s, uint32_t gpu) {
    if (gpu < s->gpu_count && al_ok(v) && s->gpus[gpu].m[AL_GPU_MEM_USED].status == AL_STATUS_STALE)
        v.status = AL_STATUS_STALE;
    return v;
}

static void add_device(struct al_scene_proc *row, const struct al_snapshot *s, const struct al_proc_gpu *on) {
    struct al_value sm = aged(on->sm_ratio, s, on->gpu);
    bool first = true;
    for (size_t i = 0; i < AL_GPU_MAX / 64; i++)
        first &= row->gpus[i] == 0;
    if (on->gpu < AL_GPU_MAX)
        row->gpus[on->gpu / 64] |= UINT64_C(1) << on->gpu % 64;
    add_memory(&row->memory, aged(on->memory_bytes, s, on->gpu), first);
    if (first || !al_txt_has(row->sm) || (al_txt_has(sm) && sm.num > row->sm.num))
        row->sm = sm;
    if (!*row->driver_name)
        row->driver_name = on->driver_name;
}

static int by_pid(const void *a, const void *b) {
    pid_t x = ((const struct al_scene_proc *)a)->pid, y = ((const struct al_scene_proc *)b)->pid;
    return (x > y) - (x < y);
}

// One row for every process of the host side, and for those that only the driver names; sorted by pid.
static int collect_rows(struct al_scene *v, const struct al_snapshot *s) {
    int result = room(&v->spare, &v->spare_cap, s->proc_count + s->row_count + 1);
    if (result)
        return result;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        struct al_scene_proc row = blank(p->pid);
        row.p = p;
        row.rank = rank_of(s, p);
        row.cpu = p->m[AL_PROC_CPU];
        row.rss = host_memory(p);
        v->spare[n++] = row;
    }
    uint32_t known = n;
    for (uint32_t i = 0; i < s->row_count; i++)
        if (!find_row(v->spare, known, s->rows[i].pid))
            v->spare[n++] = blank(s->rows[i].pid);
    if (n > 1)
        qsort(v->spare, n, sizeof *v->spare, by_pid);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) // a pid on several GPUs was added more than once
        if (!kept || v->spare[kept - 1].pid != v->spare[i].pid)
            v->spare[kept++] = v->spare[i];
    for (uint32_t i = 0; i < s->row_count; i++) {
        struct al_scene_proc *row = find_row(v->spare, kept, s->rows[i].pid);
        if (row)
            add_device(row, s, &s->rows[i]);
    }
    v->proc_all = kept;
    return 0;
}

// --- filter ---

static bool contains(const char *text, const char *part) {
    return text && strcasestr(text, part);
}

static bool is_number(const char *text, int64_t value) {
    int64_t wanted;
    return al_str_i64(text, &wanted) && wanted == value;
}

static bool on_gpu(const struct al_snapshot *s, const struct al_scene_proc *row, const char *index) {
    for (uint32_t i = 0; i < s->gpu_count && i < AL_GPU_MAX; i++)
        if (row->gpus[i / 64] >> i % 64 & 1 && is_number(index, s->gpus[i].info.index))
            return true;
    return false;
}

static bool word_matches(const struct al_snapshot *s, const struct al_scene_proc *row, const char *word) {
    const struct al_proc *p = row->p;
    if (al_str_starts(word, "gpu:"))
        return on_gpu(s, row, word + 4);
    if (al_str_starts(word, "user:"))
        return p && contains(p->user, word + 5);
    if (al_str_starts(word, "job:"))
        return p && ((p->job && is_number(word + 4, p->job)) || (*p->slurm_job && strcmp(p->slurm_job, word + 4) == 0));
    if (al_str_starts(word, "rank:"))
        return p && is_number(word + 5, p->rank >= 0 || !row->rank ? p->rank : row->rank->rank);
    char pid[24];
    (void)snprintf(pid, sizeof pid, "%d", (int)row->pid);
    if (contains(pid, word) || contains(row->driver_name, word))
        return true;
    return p && (contains(p->user, word) || contains(p->command, word) || contains(p->comm, word) ||
                 contains(p->exe, word) || contains(al_role_word(p->role), word) || contains(p->container, word) ||
                 contains(p->pod, word) || contains(p->slurm_job, word));
}

bool al_scene_matches(const struct al_snapshot *s, const struct al_scene_proc *row, const char *filter) {
    while (filter && *filter) {
        char word[128];
        size_t len = strcspn(filter, " ");
        (void)al_str_copy_n(word, sizeof word, filter, len);
        if (*word && !word_matches(s, row, word))
            return false;
        filter += len + (filter[len] == ' ');
    }
    return true;
}

// --- order ---

static uint32_t first_gpu(const struct al_scene_proc *row) {
    for (uint32_t i = 0; i < AL_GPU_MAX; i++)
        if (row->gpus[i / 64] >> i % 64 & 1)
            return i;
    return AL_GPU_MAX;
}

static int amount(struct al_value a, struct al_value b) {
    if (!al_txt_has(a) || !al_txt_has(b))
        return al_txt_has(b) - al_txt_has(a);
    return (a.num < b.num) - (a.num > b.num);
}

static int rank_order(const struct al_proc *a, const struct al_proc *b) {
    if (!a || !b)
        return !a - !b;
    int x = a->rank < 0 ? INT32_MAX : a->rank, y = b->rank < 0 ? INT32_MAX : b->rank;
    return (x > y) - (x < y);
}

static int slower(const struct al_rank *a, const struct al_rank *b) {
    struct al_value none = al_value_none(AL_STATUS_UNREAD), x = a ? a->m[AL_RANK_STEP_RATE] : none,
                    y = b ? b->m[AL_RANK_STEP_RATE] : none;
    return al_txt_has(x) && al_txt_has(y) ? -amount(x, y) : amount(x, y);
}

static int compare(const struct al_scene_proc *a, const struct al_scene_proc *b, enum al_sort sort) {
    const struct al_proc *p = a->p, *q = b->p;
    uint32_t x = first_gpu(a), y = first_gpu(b);
    switch (sort) {
    case AL_SORT_GPU: return x != y ? (x > y) - (x < y) : rank_order(p, q);
    case AL_SORT_PID: return by_pid(a, b);
    case AL_SORT_USER: return strcmp(p ? p->user : "~", q ? q->user : "~");
    case AL_SORT_ROLE:
        if (p && q && p->role != q->role)
            return p->role > q->role ? 1 : -1;
        return rank_order(p, q);
    case AL_SORT_MEM: return amount(a->memory, b->memory);
    case AL_SORT_SM: return amount(a->sm, b->sm);
    case AL_SORT_CPU: return amount(a->cpu, b->cpu);
    case AL_SORT_RSS: return amount(a->rss, b->rss);
    case AL_SORT_TIME:
        if (!p || !q || p->started_realtime_ns == q->started_realtime_ns)
            return !p - !q;
        return p->started_realtime_ns > q->started_realtime_ns ? 1 : -1;
    case AL_SORT_COMMAND: return strcmp(p ? p->command : a->driver_name, q ? q->command : b->driver_name);
    case AL_SORT_STEPS: return slower(a->rank, b->rank);
    case AL_SORT_COUNT: break;
    }
    return 0;
}

static int by_option(const void *a, const void *b, void *user) {
    const struct al_scene_options *o = user;
    int order = compare(a, b, o->sort);
    if (o->reverse)
        order = -order;
    return order ? order : by_pid(a, b);
}

// --- tree ---

static pid_t parent_pid(const struct al_scene_proc *row) {
    if (!row->p)
        return 0;
    return row->p->role == AL_ROLE_WORKER && row->p->owner ? row->p->owner : row->p->ppid;
}

// rows[count] sorted by option; links children to parents, in order. by_pid_index maps through `pids`, sorted.
static void link_tree(struct al_scene_proc *rows, uint32_t count, const struct al_scene_proc *pids, const int32_t *place) {
    for (uint32_t i = count; i-- > 0;) {
        pid_t wanted = parent_pid(&rows[i]);
        struct al_scene_proc *found = wanted > 0 ? find_row((struct al_scene_proc *)pids, count, wanted) : NULL;
        if (!found)
            continue;
        int32_t parent = place[found - pids];
        if (parent == (int32_t)i)
            continue;
        rows[i].parent = parent;
        rows[i].sibling = rows[parent].child;
        rows[parent].child = (int32_t)i;
    }
}

// A match keeps the processes above it in sight.
static void show_ancestors(struct al_scene_proc *rows, uint32_t i) {
    for (int depth = 0; depth < DEPTH_MAX && rows[i].parent >= 0; depth++) {
        i = (uint32_t)rows[i].parent;
        if (rows[i].shown)
            return;
        rows[i].shown = true;
    }
}

static bool is_folded(const struct al_scene_proc *row, const struct al_scene_options *o) {
    return !o->workers && row->p && row->p->role == AL_ROLE_WORKER && !row->p->holds_context;
}

static void add_host(struct al_value *sum, struct al_value part) {
    if (!al_txt_has(part))
        return;
    if (!al_txt_has(*sum))
        *sum = part;
    else
        sum->num += part.num;
}

static void fold(struct al_scene_proc *into, const struct al_scene_proc *worker) {
    into->workers++;
    add_host(&into->cpu, worker->cpu);
    // Shared pages would be counted once a worker: the private part only.
    add_host(&into->rss, worker->p->m[AL_PROC_RSS_ANON]);
}

static void emit(struct al_scene *v, struct al_scene_proc *row, int depth, uint32_t guides, bool last) {
    struct al_scene_proc *to = &v->procs[v->proc_count++];
    *to = *row;
    to->depth = depth;
    to->guides = guides;
    to->last = last;
}

static int32_t next_shown(const struct al_scene_proc *rows, int32_t i, const struct al_scene_options *o) {
    while (i >= 0 && (rows[i].placed || !rows[i].shown || is_folded(&rows[i], o)))
        i = rows[i].sibling;
    return i;
}

static void place(struct al_scene *v, struct al_scene_proc *rows, int32_t i, int depth, uint32_t guides, bool last,
                  const struct al_scene_options *o) {
    struct al_scene_proc folded = blank(0);
    rows[i].placed = true;
    emit(v, &rows[i], depth, guides, last);
    if (depth + 1 >= DEPTH_MAX)
        return; // deeper ones become roots of their own
    uint32_t below = last || depth == 0 ? guides : guides | UINT32_C(1) << depth;
    for (int32_t c = rows[i].child; c >= 0; c = rows[c].sibling)
        if (!rows[c].placed && rows[c].shown && is_folded(&rows[c], o) && rows[c].child < 0) {
            rows[c].placed = true;
            fold(&folded, &rows[c]);
        }
    int32_t c = next_shown(rows, rows[i].child, o);
    if (folded.workers)
        emit(v, &folded, depth + 1, below, c < 0);
    while (c >= 0) {
        int32_t next = next_shown(rows, rows[c].sibling, o);
        place(v, rows, c, depth + 1, below, next < 0, o);
        c = next;
    }
}

static int build_tree(struct al_scene *v, uint32_t count, const struct al_scene_options *o) {
    int32_t *where = calloc(count ? count : 1, sizeof *where);
    struct al_scene_proc *pids = calloc(count ? count : 1, sizeof *pids);
    struct al_scene_proc *rows = v->spare;
    if (where && pids) {
        memcpy(pids, rows, count * sizeof *rows);
        if (count > 1)
            qsort(pids, count, sizeof *pids, by_pid);
        for (uint32_t i = 0; i < count; i++)
            where[find_row(pids, count, rows[i].pid) - pids] = (int32_t)i;
        link_tree(rows, count, pids, where);
        for (uint32_t i = 0; i < count; i++)
            if (rows[i].shown)
                show_ancestors(rows, i);
        for (uint32_t i = 0; i < count; i++)
            if (rows[i].shown && !rows[i].placed && rows[i].parent < 0)
                place(v, rows, (int32_t)i, 0, 0, true, o);
        for (uint32_t i = 0; i < count; i++) // rings of parents, which only a broken recording can hold
            if (rows[i].shown && !rows[i].placed)
                place(v, rows, (int32_t)i, 0, 0, true, o);
    }
    int result = where && pids ? 0 : AL_E_NOMEM;
    free(where);
    free(pids);
    return result;
}

int al_scene_build(struct al_scene *v, const struct al_scene_in *in, const struct al_scene_options *o) {
    v->proc_count = v->proc_all = 0;
    if (!in->s)
        return 0;
    int result = collect_rows(v, in->s);
    // Folded rows come on top: one a rank at most.
    if (!result)
        result = room(&v->procs, &v->cap, 2 * v->proc_all + 1);
    if (result)
        return result;
    uint32_t count = v->proc_all;
    for (uint32_t i = 0; i < count; i++)
        v->spare[i].shown = al_scene_matches(in->s, &v->spare[i], o->filter);
    if (count > 1)
        qsort_r(v->spare, count, sizeof *v->spare, by_option, (void *)o);
    if (o->tree)
        return build_tree(v, count, o);
    for (uint32_t i = 0; i < count; i++)
        if (v->spare[i].shown && !is_folded(&v->spare[i], o))
            emit(v, &v->spare[i], 0, 0, true);
    return 0;
}

// --- words ---

static void add_gpu(char *out, size_t size, const struct al_snapshot *s, uint32_t i) {
    const struct al_gpu *g = &s->gpus[i];
    size_t len = strlen(out);
    const char *comma = len ? "," : "";
    if (g->info.is_mig && g->info.parent >= 0 && (uint32_t)g->info.parent < s->gpu_count)
        (void)snprintf(out + len, size - len, "%s%u:%u", comma, s->gpus[g->info.parent].info.index, g->info.gpu_instance);
    else
        (void)snprintf(out + len, size - len, "%s%u", comma, g->info.index);
}

void al_scene_gpus(const struct al_snapshot *s, const struct al_scene_proc *row, char *out, size_t size) {
    out[0] = '\0';
    for (uint32_t i = 0; i < s->gpu_count && i < AL_GPU_MAX; i++) {
        if (!(row->gpus[i / 64] >> i % 64 & 1))
            continue;
        add_gpu(out, size, s, i);
        uint32_t end = i;
        while (end + 1 < s->gpu_count && row->gpus[(end + 1) / 64] >> (end + 1) % 64 & 1 && !s->gpus[end + 1].info.is_mig &&
               s->gpus[end + 1].info.index == s->gpus[end].info.index + 1)
            end++;
        if (end < i + 2)
            continue;
        size_t len = strlen(out);
        (void)snprintf(out + len, size - len, "-%u", s->gpus[end].info.index);
        i = end;
    }
}

int64_t al_scene_stale_ns(const struct al_snapshot *s, const struct al_gpu *g) {
    static const enum al_gpu_metric shown[] = {AL_GPU_UTIL,       AL_GPU_MEM_USED,  AL_GPU_POWER,    AL_GPU_TEMP,
                                               AL_GPU_CLOCK_SM,   AL_GPU_GPM_SM,    AL_GPU_THROTTLE, AL_GPU_GPM_TENSOR,
                                               AL_GPU_GPM_DRAM};
    int64_t oldest = 0;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct al_value v = g->m[shown[i]];
        if (v.status == AL_STATUS_STALE && s->monotonic_ns - v.at_ns > oldest)
            oldest = s->monotonic_ns - v.at_ns;
    }
    return oldest;
}
