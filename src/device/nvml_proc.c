// SPDX-License-Identifier: Apache-2.0
// Processes on a GPU: the three lists, in the newest struct that the driver speaks, and their utilisation.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "device/nvml_backend.h"

#define LIST_FIRST 64
#define UTIL_FIRST 128
#define SECOND_US 1000000ULL // the longest sample period that NVML documents
#define ATTEMPTS 6

struct entry {
    uint32_t pid, gpu_instance, compute_instance;
    uint64_t used;
};

// Newest first. v2 and v3 share a layout of 24 bytes, v1's entry has 16.
static const struct {
    uint16_t fn[3];
    uint32_t type;
} lists[] = {
    {{NVML_FN_nvmlDeviceGetComputeRunningProcesses_v3, NVML_FN_nvmlDeviceGetComputeRunningProcesses_v2,
      NVML_FN_nvmlDeviceGetComputeRunningProcesses},
     AL_PROC_COMPUTE},
    {{NVML_FN_nvmlDeviceGetGraphicsRunningProcesses_v3, NVML_FN_nvmlDeviceGetGraphicsRunningProcesses_v2,
      NVML_FN_nvmlDeviceGetGraphicsRunningProcesses},
     AL_PROC_GRAPHICS},
    {{NVML_FN_nvmlDeviceGetMPSComputeRunningProcesses_v3, NVML_FN_nvmlDeviceGetMPSComputeRunningProcesses_v2,
      NVML_FN_nvmlDeviceGetMPSComputeRunningProcesses},
     AL_PROC_MPS},
};

typedef int list_v1_fn(struct nvml_device *, unsigned *, struct nvml_process_v1 *);
typedef int list_v2_fn(struct nvml_device *, unsigned *, struct nvml_process_v2 *);

static int ask_list(struct al_nvml *n, struct nvml_device *d, uint16_t fn, bool v1, unsigned *count) {
    void (*f)(void) = n->api.by_number[fn];
    if (!f)
        return AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    al_nvml_begin(n, (enum al_nvml_fn)fn);
    int result = v1 ? ((list_v1_fn *)f)(d, count, n->list) : ((list_v2_fn *)f)(d, count, n->list);
    return al_nvml_end(n, (enum al_nvml_fn)fn, result);
}

// Processes may start between the answer "that many" and the next call, so the buffer grows by more than was asked.
static int fill_list(struct al_nvml *n, struct nvml_device *d, uint16_t fn, bool v1, unsigned *ret_count) {
    uint32_t want = n->list_cap ? n->list_cap : LIST_FIRST;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (al_nvml_grow(&n->list, &n->list_cap, want, sizeof(struct nvml_process_v2)))
            return AL_NVML_ERROR_MEMORY;
        unsigned count = n->list_cap;
        int result = ask_list(n, d, fn, v1, &count);
        *ret_count = result == AL_NVML_SUCCESS && count <= n->list_cap ? count : 0;
        if (result != AL_NVML_ERROR_INSUFFICIENT_SIZE)
            return result;
        want = count > n->list_cap ? count + count / 4 + 16 : n->list_cap * 2;
    }
    return AL_NVML_ERROR_INSUFFICIENT_SIZE;
}

static struct entry entry_at(const struct al_nvml *n, unsigned i, bool v1) {
    if (v1) {
        const struct nvml_process_v1 *p = (const struct nvml_process_v1 *)n->list + i;
        return (struct entry){p->pid, AL_NVML_NO_INSTANCE, AL_NVML_NO_INSTANCE, p->usedGpuMemory};
    }
    const struct nvml_process_v2 *p = (const struct nvml_process_v2 *)n->list + i;
    return (struct entry){p->pid, p->gpuInstanceId, p->computeInstanceId, p->usedGpuMemory};
}

static bool add_row(struct al_nvml *n, struct al_snapshot *s, uint32_t position, const struct entry *e, uint32_t type) {
    struct al_proc_gpu *row = al_snapshot_add_row(s);
    if (!row)
        return false;
    row->pid = (pid_t)e->pid;
    row->gpu = position;
    row->type = type;
    row->order = s->row_count;
    row->gpu_instance = e->gpu_instance;
    row->compute_instance = e->compute_instance;
    row->memory_bytes = al_nvml_blank(e->used, true) ? al_value_none(AL_STATUS_UNSUPPORTED)
                                                     : al_value_ok((double)e->used, al_nvml_now(n));
    return true;
}

static int read_list(struct al_nvml *n, struct nvml_device *d, size_t list, struct al_snapshot *s, uint32_t position) {
    int result = AL_NVML_ERROR_FUNCTION_NOT_FOUND;
    unsigned count = 0;
    int version = 0;
    for (; version < 3; version++) {
        result = fill_list(n, d, lists[list].fn[version], version == 2, &count);
        if (result != AL_NVML_ERROR_FUNCTION_NOT_FOUND && result != AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
            break;
    }
    for (unsigned i = 0; i < count; i++) {
        struct entry e = entry_at(n, i, version == 2);
        if (e.pid && !add_row(n, s, position, &e, lists[list].type))
            return AL_NVML_ERROR_MEMORY;
    }
    return result;
}

static int by_pid(const void *a, const void *b) {
    const struct al_proc_gpu *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->gpu_instance != y->gpu_instance)
        return x->gpu_instance < y->gpu_instance ? -1 : 1;
    return (x->compute_instance > y->compute_instance) - (x->compute_instance < y->compute_instance);
}

// The driver lists in the same order every time, so this is a check as a rule. qsort would allocate.
static void sort_rows(struct al_proc_gpu *rows, uint32_t count) {
    struct al_proc_gpu moving;
    uint32_t out_of_order = 0;
    for (uint32_t i = 1; i < count; i++)
        out_of_order += by_pid(&rows[i - 1], &rows[i]) > 0;
    if (out_of_order > 32) {
        qsort(rows, count, sizeof *rows, by_pid);
        return;
    }
    for (uint32_t i = 1; out_of_order && i < count; i++) {
        uint32_t to = i;
        while (to && by_pid(&rows[to - 1], &rows[i]) > 0)
            to--;
        if (to == i)
            continue;
        moving = rows[i];
        memmove(&rows[to + 1], &rows[to], (i - to) * sizeof *rows);
        rows[to] = moving;
    }
}

// One process in two lists is one row: each list names the same memory, so it is not summed.
static void merge_rows(struct al_snapshot *s, uint32_t first) {
    uint32_t kept = first;
    if (s->row_count - first < 2)
        return;
    sort_rows(s->rows + first, s->row_count - first);
    for (uint32_t i = first + 1; i < s->row_count; i++) {
        struct al_proc_gpu *to = &s->rows[kept];
        const struct al_proc_gpu *from = &s->rows[i];
        if (by_pid(to, from) != 0) {
            s->rows[++kept] = *from;
            continue;
        }
        to->type |= from->type;
        if (from->memory_bytes.status == AL_STATUS_OK &&
            (to->memory_bytes.status != AL_STATUS_OK || from->memory_bytes.num > to->memory_bytes.num))
            to->memory_bytes = from->memory_bytes;
    }
    s->row_count = kept + 1;
}

static enum al_status read_lists(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t position) {
    enum al_status compute = AL_STATUS_OK;
    uint32_t first = s->row_count;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int result = read_list(n, g->handle, i, s, position);
        if (i == 0) // the list that matters; graphics and MPS lists are missing on many boards and drivers
            compute = al_nvml_status(result);
        if (compute != AL_STATUS_OK)
            break;
    }
    merge_rows(s, first);
    return compute;
}

static struct al_nvml_proc *known(const struct al_nvml_gpu *g, uint32_t pid) {
    uint32_t low = 0, high = g->proc_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (g->procs[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < g->proc_count && g->procs[low].pid == pid ? &g->procs[low] : NULL;
}

// The rows of a GPU become its new list of known processes; a name is asked for once a process.
static void remember(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t first) {
    uint32_t count = s->row_count - first, kept = 0;
    if (al_nvml_grow((void **)&n->spare, &n->spare_cap, count, sizeof *n->spare))
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct al_proc_gpu *row = &s->rows[first + i];
        const struct al_nvml_proc *before = known(g, (uint32_t)row->pid);
        struct al_nvml_proc *now = &n->spare[kept];
        if (before)
            *now = *before;
        else {
            memset(now, 0, sizeof *now);
            now->pid = (uint32_t)row->pid;
            if (NVML(n, nvmlSystemGetProcessName, (now->pid, now->name, sizeof now->name)) != AL_NVML_SUCCESS)
                now->name[0] = '\0';
            now->name[sizeof now->name - 1] = '\0';
            (void)al_str_clean(now->name);
        }
        (void)al_str_copy(row->driver_name, sizeof row->driver_name, now->name);
        kept += kept == 0 || n->spare[kept - 1].pid != now->pid;
    }
    struct al_nvml_proc *old = g->procs;
    uint32_t old_cap = g->proc_cap;
    g->procs = n->spare;
    g->proc_cap = n->spare_cap;
    g->proc_count = kept;
    n->spare = old;
    n->spare_cap = old_cap;
}

// Both functions' answers in the newer one's layout.
static int ask_util_old(struct al_nvml *n, struct nvml_device *d, uint64_t since_us, unsigned *ret_count) {
    uint32_t want = n->util_old_cap ? n->util_old_cap : UTIL_FIRST;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (al_nvml_grow((void **)&n->utils_old, &n->util_old_cap, want, sizeof *n->utils_old) ||
            al_nvml_grow((void **)&n->utils, &n->util_cap, n->util_old_cap, sizeof *n->utils))
            return AL_NVML_ERROR_MEMORY;
        unsigned count = n->util_old_cap;
        int result = NVML(n, nvmlDeviceGetProcessUtilization, (d, n->utils_old, &count, since_us));
        *ret_count = result == AL_NVML_SUCCESS && count <= n->util_old_cap ? count : 0;
        for (unsigned i = 0; i < *ret_count; i++) {
            const struct nvml_process_sample *o = &n->utils_old[i];
            n->utils[i] = (struct nvml_process_util){
                o->timeStamp, o->pid, o->smUtil, o->memUtil, o->encUtil, o->decUtil, 0, 0};
        }
        if (result != AL_NVML_ERROR_INSUFFICIENT_SIZE)
            return result;
        want = count > n->util_old_cap ? count + 16 : n->util_old_cap * 2;
    }
    return AL_NVML_ERROR_INSUFFICIENT_SIZE;
}

static int ask_util(struct al_nvml *n, struct nvml_device *d, uint64_t since_us, unsigned *ret_count, bool *ret_old) {
    uint32_t want = n->util_cap ? n->util_cap : UTIL_FIRST;
    int result = AL_NVML_ERROR_INSUFFICIENT_SIZE;
    *ret_old = false;
    for (int attempt = 0; attempt < ATTEMPTS && result == AL_NVML_ERROR_INSUFFICIENT_SIZE; attempt++) {
        if (al_nvml_grow((void **)&n->utils, &n->util_cap, want, sizeof *n->utils))
            return AL_NVML_ERROR_MEMORY;
        struct nvml_processes_util u = {NVML_WORD(struct nvml_processes_util, 1), n->util_cap, since_us, n->utils};
        result = NVML(n, nvmlDeviceGetProcessesUtilizationInfo, (d, &u));
        *ret_count = result == AL_NVML_SUCCESS && u.processSamplesCount <= n->util_cap ? u.processSamplesCount : 0;
        want = u.processSamplesCount > n->util_cap ? u.processSamplesCount + 16 : n->util_cap * 2;
    }
    if (result != AL_NVML_ERROR_FUNCTION_NOT_FOUND && result != AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        return result;
    *ret_old = true;
    return ask_util_old(n, d, since_us, ret_count);
}

// What a garbage row looks like: a percentage above 100, a stamp from the future or from before what was asked for.
static bool sane(const struct nvml_process_util *u, uint64_t since_us, uint64_t now_us) {
    return u->smUtil <= 100 && u->memUtil <= 100 && u->encUtil <= 100 && u->decUtil <= 100 && u->jpgUtil <= 100 &&
           u->ofaUtil <= 100 && u->timeStamp > since_us && u->timeStamp <= now_us + SECOND_US;
}

// Mean of the sane samples of one process; returns how many there were.
static unsigned mean_of(const struct nvml_process_util *utils, unsigned count, uint64_t since_us, uint64_t now_us,
                        double *ret_mean) {
    unsigned samples = 0;
    memset(ret_mean, 0, 6 * sizeof *ret_mean);
    for (unsigned i = 0; i < count; i++) {
        const struct nvml_process_util *u = &utils[i];
        const unsigned all[] = {u->smUtil, u->memUtil, u->encUtil, u->decUtil, u->jpgUtil, u->ofaUtil};
        if (!sane(u, since_us, now_us))
            continue;
        for (int j = 0; j < 6; j++)
            ret_mean[j] += all[j] / 100.0;
        samples++;
    }
    for (int j = 0; samples && j < 6; j++)
        ret_mean[j] /= samples;
    return samples;
}

static void put_util(struct al_proc_gpu *row, const struct al_value *six) {
    row->sm_ratio = six[0];
    row->memory_ratio = six[1];
    row->encoder_ratio = six[2];
    row->decoder_ratio = six[3];
    row->jpeg_ratio = six[4];
    row->ofa_ratio = six[5];
}

static void put_all(struct al_snapshot *s, uint32_t first, enum al_status status) {
    struct al_value six[6];
    for (int i = 0; i < 6; i++)
        six[i] = al_value_none(status);
    for (uint32_t i = first; i < s->row_count; i++)
        put_util(&s->rows[i], six);
}

// The driver's mean since the last look. A process that has no sample while others have ran nothing; when nothing has
// one, that is 0 only once a whole sample period has passed: until then the last reading stands, marked stale.
static void put_row(struct al_nvml *n, struct al_nvml_gpu *g, struct al_proc_gpu *row, const double *mean,
                    bool measured, bool old) {
    struct al_value six[6];
    struct al_nvml_proc *p = known(g, (uint32_t)row->pid);
    for (int i = 0; i < 6; i++) {
        six[i] = measured ? al_value_ok(mean[i], al_nvml_now(n)) : p ? p->util[i] : al_value_none(AL_STATUS_UNREAD);
        if (!measured && six[i].status == AL_STATUS_OK)
            six[i].status = AL_STATUS_STALE;
        if (old && i >= 4)
            six[i] = al_value_none(AL_STATUS_UNSUPPORTED);
        if (measured && p)
            p->util[i] = six[i];
    }
    put_util(row, six);
}

static int by_util_pid(const void *a, const void *b) {
    const struct nvml_process_util *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static uint64_t since(const struct al_nvml_gpu *g, uint64_t now_us) {
    if (g->last_procutil_us && g->last_procutil_us <= now_us + SECOND_US)
        return g->last_procutil_us;
    return now_us > SECOND_US ? now_us - SECOND_US : 0;
}

// Newest stamp of the sane samples, and how many there are.
static uint64_t newest(const struct al_nvml *n, unsigned count, uint64_t since_us, uint64_t now_us,
                       unsigned *ret_sane) {
    uint64_t at_us = since_us;
    *ret_sane = 0;
    for (unsigned i = 0; i < count; i++)
        if (sane(&n->utils[i], since_us, now_us)) {
            ++*ret_sane;
            if (n->utils[i].timeStamp > at_us)
                at_us = n->utils[i].timeStamp;
        }
    return at_us;
}

static void put_rows(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t first, unsigned count,
                     uint64_t since_us, uint64_t now_us, bool measured, bool old) {
    unsigned next = 0, end;
    double mean[6];
    if (count)
        qsort(n->utils, count, sizeof *n->utils, by_util_pid);
    for (uint32_t i = first; i < s->row_count; i++) { // rows are sorted by pid too
        uint32_t pid = (uint32_t)s->rows[i].pid;
        while (next < count && n->utils[next].pid < pid)
            next++;
        for (end = next; end < count && n->utils[end].pid == pid;)
            end++;
        unsigned samples = mean_of(n->utils + next, end - next, since_us, now_us, mean);
        put_row(n, g, &s->rows[i], mean, samples || measured, old);
    }
}

static enum al_status read_util(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t first) {
    unsigned count = 0, sane_count;
    bool old = false;
    uint64_t now_us = (uint64_t)n->realtime() / 1000, since_us = since(g, now_us);
    int result = ask_util(n, g->handle, since_us, &count, &old);
    if (g->info.is_mig && result == AL_NVML_ERROR_INVALID_ARGUMENT)
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    if (result != AL_NVML_SUCCESS && result != AL_NVML_ERROR_NOT_FOUND) {
        put_all(s, first, al_nvml_status(result));
        return al_nvml_status(result);
    }
    bool period = now_us - since_us >= SECOND_US;
    g->last_procutil_us = newest(n, count, since_us, now_us, &sane_count);
    if (!sane_count && period) // do not let the driver's next mean reach back over the idle time
        g->last_procutil_us = now_us - SECOND_US / 2;
    put_rows(n, g, s, first, count, since_us, now_us, sane_count || period, old);
    return AL_STATUS_OK;
}

static bool has_shown_children(const struct al_nvml *n, const struct al_nvml_gpu *g) {
    for (uint32_t i = 0; i < n->shown_count; i++)
        if (n->shown[i]->info.is_mig && n->gpus[n->shown[i]->info.parent] == g)
            return true;
    return false;
}

void al_nvml_read_processes(struct al_nvml *n, struct al_nvml_gpu *g, struct al_snapshot *s, uint32_t position,
                            bool utilisation) {
    uint32_t first = s->row_count;
    struct al_gpu *out = &s->gpus[position];
    // With MIG on, the GPU's own list repeats its instances' (and wants privileges): the rows belong to the instances.
    if (g->info.mig_enabled && has_shown_children(n, g)) {
        out->process_status = AL_STATUS_OK;
        out->procutil_status = utilisation ? AL_STATUS_UNSUPPORTED : AL_STATUS_UNREAD;
        return;
    }
    out->process_status = read_lists(n, g, s, position);
    remember(n, g, s, first);
    if (utilisation)
        out->procutil_status = out->process_status == AL_STATUS_OK ? read_util(n, g, s, first) : out->process_status;
}
