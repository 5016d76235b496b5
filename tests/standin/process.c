// SPDX-License-Identifier: Apache-2.0
// Processes: the lists in each of their layouts, names, utilisation.
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UTIL_ENTRIES 72 // what 580.159 asks room for, whatever there is

struct rows {
    struct al_proc_gpu *row;
    size_t count;
};

// The rows of a device and, for a board that is cut up, of its MIG devices.
static int collect(const struct call *c, struct rows *ret) {
    memset(ret, 0, sizeof *ret);
    for (uint32_t n = 0, gpu = c->gpu; gpu != UINT32_MAX; gpu = standin_children(c, c->gpu, n++)) {
        size_t more = al_scenario_rows(c->s, gpu, c->at_ns, NULL, 0);
        struct al_proc_gpu *grown = realloc(ret->row, (ret->count + more + 1) * sizeof *grown);
        if (!grown) {
            free(ret->row);
            return AL_NVML_ERROR_MEMORY;
        }
        ret->row = grown;
        al_scenario_rows(c->s, gpu, c->at_ns, grown + ret->count, more);
        const struct al_gpu_info *i = al_scenario_gpu_info(c->s, gpu);
        for (size_t r = ret->count; i->is_mig && r < ret->count + more; r++)
            if (grown[r].gpu_instance == UINT32_MAX) {
                grown[r].gpu_instance = i->gpu_instance;
                grown[r].compute_instance = i->compute_instance;
            }
        ret->count += more;
    }
    return OK;
}

static uint64_t memory(const struct al_proc_gpu *row) {
    return row->memory_bytes.status == AL_STATUS_OK ? (uint64_t)row->memory_bytes.num : AL_NVML_VALUE_NOT_AVAILABLE;
}

// How 580.159 uses the count: too small a one is answered by the number there is, and with a buffer that is NULL though
// the count says otherwise, by "invalid argument".
static int copy_rows(const struct rows *rows, uint32_t type, unsigned *count, void *out, bool v1) {
    unsigned have = 0, room = *count;
    for (size_t i = 0; i < rows->count; i++)
        have += (rows->row[i].type & type) != 0;
    *count = have;
    if (room < have)
        return AL_NVML_ERROR_INSUFFICIENT_SIZE;
    if (have && !out)
        return AL_NVML_ERROR_INVALID_ARGUMENT;
    unsigned n = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct al_proc_gpu *row = &rows->row[i];
        if (!(row->type & type))
            continue;
        if (v1)
            ((struct nvml_process_v1 *)out)[n] = (struct nvml_process_v1){(unsigned)row->pid, memory(row)};
        else
            ((struct nvml_process_v2 *)out)[n] =
                (struct nvml_process_v2){(unsigned)row->pid, memory(row), row->gpu_instance, row->compute_instance};
        n++;
    }
    return OK;
}

static int list_rows(const struct call *c, struct rows *rows) {
    uint32_t processes, utilization;
    al_scenario_list_status(c->s, c->gpu, c->at_ns, &processes, &utilization);
    int result = standin_result(processes);
    return result ? result : collect(c, rows);
}

static int list(const char *function, struct nvml_device *d, uint32_t type, unsigned *count, void *out, bool v1) {
    struct call c;
    struct rows rows;
    int result = standin_begin(&c, function, d);
    if (result)
        return result;
    if (!count)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = list_rows(&c, &rows);
    if (result)
        return standin_end(result);
    result = copy_rows(&rows, type, count, out, v1);
    free(rows.row);
    return standin_end(result);
}

#define LISTS(kind, type)                                                                                              \
    int nvmlDeviceGet##kind##RunningProcesses_v3(struct nvml_device *d, unsigned *count, struct nvml_process_v2 *out)  \
    {                                                                                                                  \
        return list(__func__, d, type, count, out, false);                                                             \
    }                                                                                                                  \
    int nvmlDeviceGet##kind##RunningProcesses_v2(struct nvml_device *d, unsigned *count, struct nvml_process_v2 *out)  \
    {                                                                                                                  \
        return list(__func__, d, type, count, out, false);                                                             \
    }                                                                                                                  \
    int nvmlDeviceGet##kind##RunningProcesses(struct nvml_device *d, unsigned *count, struct nvml_process_v1 *out)     \
    {                                                                                                                  \
        return list(__func__, d, type, count, out, true);                                                              \
    }

LISTS(Compute, AL_PROC_COMPUTE)
LISTS(Graphics, AL_PROC_GRAPHICS)
LISTS(MPSCompute, AL_PROC_MPS)

// Modes: 0 compute, 1 graphics, 2 MPS.
int nvmlDeviceGetRunningProcessDetailList(struct nvml_device *d, struct nvml_process_details *out) {
    static const uint32_t types[] = {AL_PROC_COMPUTE, AL_PROC_GRAPHICS, AL_PROC_MPS};
    struct call c;
    struct rows rows;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_process_details, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    if (out->mode > 2)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = list_rows(&c, &rows);
    if (result)
        return standin_end(result);
    unsigned room = out->numProcArrayEntries, have = 0;
    for (size_t i = 0; i < rows.count; i++) {
        const struct al_proc_gpu *row = &rows.row[i];
        if (!(row->type & types[out->mode]))
            continue;
        if (have < room && out->procArray)
            out->procArray[have] = (struct nvml_process_detail){(unsigned)row->pid, memory(row), row->gpu_instance,
                                                                row->compute_instance, 0};
        have++;
    }
    out->numProcArrayEntries = have;
    free(rows.row);
    return standin_end(have > room ? AL_NVML_ERROR_INSUFFICIENT_SIZE : OK);
}

static unsigned percent(struct al_value v) {
    return v.status == AL_STATUS_OK ? (unsigned)(v.num * 100 + 0.5) : 0;
}

// What ran since last_seen: one entry a process, stamped with the driver's last sample. Idle processes have none.
static int utilisation(const struct call *c, unsigned *count, uint64_t last_seen, struct nvml_process_util **ret) {
    struct rows rows;
    uint32_t processes, utilization;
    al_scenario_list_status(c->s, c->gpu, c->at_ns, &processes, &utilization);
    int result = standin_result(utilization);
    if (!result && al_scenario_gpu_info(c->s, c->gpu)->mig_enabled)
        result = AL_NVML_ERROR_NOT_SUPPORTED;
    if (!result && *count < UTIL_ENTRIES) {
        *count = UTIL_ENTRIES;
        result = AL_NVML_ERROR_INSUFFICIENT_SIZE;
    }
    if (!result)
        result = collect(c, &rows);
    if (result)
        return result;
    const int64_t step = 200000000;
    uint64_t stamp = standin_real_us(c->at_ns >= 0 ? c->at_ns / step * step : 0);
    unsigned have = 0;
    *ret = calloc(rows.count + 1, sizeof **ret);
    for (size_t i = 0; i < rows.count && *ret; i++) {
        const struct al_proc_gpu *r = &rows.row[i];
        struct nvml_process_util u = {stamp, (unsigned)r->pid, percent(r->sm_ratio), percent(r->memory_ratio),
                                      percent(r->encoder_ratio), percent(r->decoder_ratio), percent(r->jpeg_ratio),
                                      percent(r->ofa_ratio)};
        if (stamp > last_seen && (u.smUtil || u.memUtil || u.encUtil || u.decUtil || u.jpgUtil || u.ofaUtil))
            (*ret)[have++] = u;
    }
    free(rows.row);
    if (have == 0 || have > *count)
        result = have ? AL_NVML_ERROR_INSUFFICIENT_SIZE : AL_NVML_ERROR_NOT_FOUND;
    if (have)
        *count = have;
    return result;
}

int nvmlDeviceGetProcessUtilization(struct nvml_device *d, struct nvml_process_sample *out, unsigned *count,
                                    unsigned long long last_seen) {
    struct call c;
    struct nvml_process_util *all = NULL;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    result = count ? utilisation(&c, count, last_seen, &all) : AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result && !out)
        result = AL_NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned i = 0; !result && i < *count; i++)
        out[i] = (struct nvml_process_sample){all[i].pid,     all[i].timeStamp, all[i].smUtil,
                                              all[i].memUtil, all[i].encUtil,   all[i].decUtil};
    free(all);
    return standin_end(result);
}

int nvmlDeviceGetProcessesUtilizationInfo(struct nvml_device *d, struct nvml_processes_util *out) {
    struct call c;
    struct nvml_process_util *all = NULL;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (!out || !VERSIONED(out, nvml_processes_util, 1))
        return standin_end(out ? AL_NVML_ERROR_ARGUMENT_VERSION_MISMATCH : AL_NVML_ERROR_INVALID_ARGUMENT);
    result = utilisation(&c, &out->processSamplesCount, out->lastSeenTimeStamp, &all);
    if (!result && !out->procUtilArray)
        result = AL_NVML_ERROR_INVALID_ARGUMENT;
    if (!result)
        memcpy(out->procUtilArray, all, out->processSamplesCount * sizeof *all);
    free(all);
    return standin_end(result);
}

// The first argument of a process that really runs; what the driver says of one that the scenario does not describe.
static int real_name(unsigned pid, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return AL_NVML_ERROR_NOT_FOUND;
    size_t got = fread(out, 1, size - 1, f);
    out[got] = 0;
    fclose(f);
    return out[0] ? OK : AL_NVML_ERROR_NO_DATA;
}

static int name_of(const struct call *c, unsigned pid, char *out, size_t size) {
    const struct al_proc *p = al_scenario_proc(c->s, (pid_t)pid, c->at_ns);
    bool listed = false;
    out[0] = 0;
    for (uint32_t gpu = 0; gpu < al_scenario_gpu_count(c->s) && !out[0]; gpu++) {
        struct call at = {c->s, c->at_ns, gpu};
        struct rows rows;
        if (collect(&at, &rows))
            continue;
        for (size_t i = 0; i < rows.count && !out[0]; i++)
            if (rows.row[i].pid == (pid_t)pid) {
                listed = true;
                snprintf(out, size, "%s", rows.row[i].driver_name);
            }
        free(rows.row);
    }
    if (!out[0] && p && p->command[0])
        snprintf(out, size, "%.*s", (int)strcspn(p->command, " "), p->command);
    if (!out[0] && p && p->comm[0])
        snprintf(out, size, "%s", p->comm);
    if (out[0])
        return OK;
    int result = real_name(pid, out, size);
    return result == AL_NVML_ERROR_NOT_FOUND && p && listed ? AL_NVML_ERROR_NO_DATA : result;
}

int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    struct call c;
    char name[1024];
    int result = standin_begin_system(&c, __func__);
    if (result)
        return result;
    if (!out || !size)
        return standin_end(AL_NVML_ERROR_INVALID_ARGUMENT);
    result = name_of(&c, pid, name, sizeof name);
    if (!result)
        snprintf(out, size, "%s", name); // 580.159 cuts rather than refuses
    return standin_end(result);
}

int nvmlDeviceGetAccountingPids(struct nvml_device *d, unsigned *count, unsigned *pids) {
    struct call c;
    (void)pids;
    int result = standin_begin(&c, __func__, d);
    if (result)
        return result;
    if (count)
        *count = 0;
    return standin_end(count ? OK : AL_NVML_ERROR_INVALID_ARGUMENT);
}
