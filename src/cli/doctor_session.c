// SPDX-License-Identifier: Apache-2.0
// alula doctor: one full sample, and what each group of metrics answered.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/doctor.h"

// Two readings this far apart: rates and activity counters need an interval of at least 100 ms.
#define SETTLE_NS (300 * AL_NS_PER_MS)
#define STATS_MAX 256
#define SLOWEST 5
// A call above this is named: it costs more than 1 % of a core when it is made once a second.
#define DEAR_NS (10 * AL_NS_PER_MS)

static const struct {
    uint32_t group;
    const char *name, *what, *todo; // todo: when nothing of it is supported
} groups[] = {
    {AL_GROUP_FAST, "metrics_fast", "utilisation, memory, clocks, power, temperature", NULL},
    {AL_GROUP_SLOW, "metrics_slow", "energy, limits, violation counters", NULL},
    {AL_GROUP_LINK, "metrics_link", "PCIe and NVLink", NULL},
    {AL_GROUP_ECC, "metrics_ecc", "ECC, retired and remapped memory", NULL},
    {AL_GROUP_GPM, "metrics_gpm", "activity counters (GPM)",
     "activity counters exist on Hopper and newer; elsewhere utilisation is the share of time with any kernel running"},
    {AL_GROUP_XID, "metrics_xid", "Xid events", "without events look for NVRM: Xid in dmesg"},
    {AL_GROUP_SAMPLES, "metrics_samples", "the driver's utilisation samples", NULL},
};

static const char denied_todo[] = "run alula as root, or ask an administrator for the right";

struct tally {
    uint32_t total, by_status[AL_STATUS_COUNT];
    struct al_doctor_list names[AL_STATUS_COUNT];
};

#define NAMES_SHOWN 4 // of a reason

static void tally_one(struct tally *t, uint32_t status, const char *name) {
    if (status >= AL_STATUS_COUNT)
        status = AL_STATUS_ERROR;
    t->total++;
    t->by_status[status]++;
    t->names[status].most = NAMES_SHOWN;
    if (status != AL_STATUS_OK)
        al_doctor_list_add(&t->names[status], name);
}

static bool is_fault(uint32_t status) {
    return status == AL_STATUS_DENIED || status == AL_STATUS_RESET || status == AL_STATUS_LOST ||
           status == AL_STATUS_TIMEOUT || status == AL_STATUS_ERROR;
}

static enum al_check_result weight(const struct tally *t) {
    for (uint32_t s = 0; s < AL_STATUS_COUNT; s++)
        if (is_fault(s) && t->by_status[s])
            return AL_CHECK_PROBLEM;
    if (t->total && t->by_status[AL_STATUS_OK] == 0 && t->by_status[AL_STATUS_UNREAD] == t->total)
        return AL_CHECK_UNKNOWN;
    // What some boards have and this one has not is normal; what the library lacks is worth a word.
    return t->by_status[AL_STATUS_OK] && !t->by_status[AL_STATUS_MISSING] ? AL_CHECK_OK : AL_CHECK_NOTE;
}

static void tell(struct al_doctor *d, struct tally *t, const char *name, const char *what, const char *todo) {
    char reasons[420] = "";
    size_t len = 0;
    for (uint32_t s = 0; s < AL_STATUS_COUNT; s++) {
        if (s == AL_STATUS_OK || !t->by_status[s] || len >= sizeof reasons - 1)
            continue;
        int n = snprintf(reasons + len, sizeof reasons - len, "; %u %s: %s", t->by_status[s], al_status_text(s),
                         al_doctor_list_text(&t->names[s]));
        len += n > 0 ? (size_t)n : 0;
    }
    enum al_check_result result = weight(t);
    const char *advice = t->by_status[AL_STATUS_DENIED]  ? denied_todo
                         : result == AL_CHECK_PROBLEM ? "look for Xid lines in dmesg; the other figures stand"
                         : result == AL_CHECK_OK      ? NULL
                                                      : todo;
    al_doctor_add(d, result, name, advice, "%s: %u of %u read%s", what, t->by_status[AL_STATUS_OK], t->total, reasons);
}

// A metric counts once over all devices that answer: refused by any, else read from any, else what the first says. A
// board that is cut up leaves half of them to its instances.
static uint32_t metric_status(const struct al_snapshot *s, int m) {
    uint32_t status = AL_STATUS_UNREAD;
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        uint32_t one = s->gpus[g].m[m].status;
        if (s->gpus[g].info.status != AL_STATUS_OK)
            continue;
        if (is_fault(one))
            return one;
        if (one == AL_STATUS_OK || status == AL_STATUS_UNREAD)
            status = one;
    }
    return status;
}

static void check_group(struct al_doctor *d, const struct al_snapshot *s, size_t i) {
    struct tally t = {0};
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (al_gpu_metrics[m].group == groups[i].group)
            tally_one(&t, metric_status(s, m), al_gpu_metrics[m].name);
    if (t.total)
        tell(d, &t, groups[i].name, groups[i].what, groups[i].todo);
}

static void check_lists(struct al_doctor *d, const struct al_snapshot *s) {
    struct tally list = {0}, util = {0};
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        char name[32];
        (void)snprintf(name, sizeof name, "GPU %u", s->gpus[g].info.index);
        if (s->gpus[g].info.is_mig || s->gpus[g].info.status != AL_STATUS_OK)
            continue;
        tally_one(&list, s->gpus[g].process_status, name);
        tally_one(&util, s->gpus[g].procutil_status, name);
    }
    if (list.total) {
        tell(d, &list, "process_list", "processes on the GPU", NULL);
        tell(d, &util, "process_utilization", "utilisation by process", NULL);
    }
    uint32_t foreign = 0;
    for (uint32_t i = 0; i < s->proc_count; i++)
        foreign += s->procs[i].foreign;
    if (foreign)
        al_doctor_add(d, AL_CHECK_NOTE, "foreign_processes", "run alula with the host's pids (docker run --pid=host)",
                      "%u processes on the GPUs cannot be named from here", foreign);
}

static void check_gpus(struct al_doctor *d, const struct al_snapshot *s) {
    struct al_doctor_list names = {0}, lost = {0}, unified = {0}, mig = {0};
    uint32_t boards = 0;
    char text[200];
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu_info *g = &s->gpus[i].info;
        (void)snprintf(text, sizeof text, "%u %s", g->index, g->name);
        if (!g->is_mig) {
            boards++;
            al_doctor_list_add(&names, text);
        }
        if (g->status != AL_STATUS_OK) {
            (void)snprintf(text, sizeof text, "%u %s (%s)", g->index, g->pci_bus_id, al_status_text(g->status));
            al_doctor_list_add(&lost, text);
        }
        if (g->unified_memory && !g->is_mig)
            al_doctor_list_add(&unified, text);
        if (g->is_mig && g->parent >= 0 && (uint32_t)g->parent < s->gpu_count) {
            (void)snprintf(text, sizeof text, "%u:%s", s->gpus[g->parent].info.index, g->mig_profile);
            al_doctor_list_add(&mig, text);
        }
    }
    al_doctor_add(d, boards ? AL_CHECK_OK : AL_CHECK_PROBLEM, "gpus", NULL, "%u: %s", boards, al_doctor_list_text(&names));
    if (lost.count)
        al_doctor_add(d, AL_CHECK_PROBLEM, "gpus_lost", "look for Xid lines in dmesg; nvidia-smi -r, or restart the machine",
                      "do not answer: %s", al_doctor_list_text(&lost));
    if (unified.count)
        al_doctor_add(d, AL_CHECK_NOTE, "unified_memory", "read the host's memory instead: GPU and CPU share it",
                      "memory figures are N/A: %s", al_doctor_list_text(&unified));
    if (mig.count)
        al_doctor_add(d, AL_CHECK_NOTE, "mig", NULL,
                      "%u MIG devices: %s; utilisation is N/A on MIG, activity counters (GPM) are read where they exist",
                      mig.count, al_doctor_list_text(&mig));
    if (!d->scenario && !d->standin && d->bus_gpus > boards && !d->options.gpus)
        al_doctor_add(d, d->container ? AL_CHECK_NOTE : AL_CHECK_PROBLEM, "gpus_hidden",
                      "in a container this is as it was started; else look for Xid lines in dmesg",
                      "the PCI bus has %u GPUs with the driver bound, the driver lists %u", d->bus_gpus, boards);
}

static void check_mode(struct al_doctor *d, const struct al_snapshot *s, int64_t timeout_ns) {
    struct al_doctor_list off = {0}, empty = {0};
    uint32_t known = 0;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_attr_value v = {0};
        char name[16];
        if (s->gpus[i].info.is_mig)
            continue;
        (void)snprintf(name, sizeof name, "GPU %u", s->gpus[i].info.index);
        bool devices = false;
        for (uint32_t k = 0; k < s->gpu_count; k++)
            devices |= s->gpus[k].info.is_mig && s->gpus[k].info.parent == (int32_t)i;
        if (s->gpus[i].info.mig_enabled && !devices)
            al_doctor_list_add(&empty, name);
        if (al_collect_attr(d->session.collect, i, AL_ATTR_PERSISTENCE, timeout_ns, &v) || v.status != AL_STATUS_OK)
            continue;
        known++;
        if (v.num == 0)
            al_doctor_list_add(&off, name);
    }
    if (empty.count)
        al_doctor_add(d, AL_CHECK_NOTE, "mig_empty", "make instances with nvidia-smi mig, or switch MIG off",
                      "MIG is on without any instance: %s", al_doctor_list_text(&empty));
    if (off.count)
        al_doctor_add(d, AL_CHECK_NOTE, "persistence_mode",
                      "run nvidia-persistenced: else the driver unloads when the last program ends, the next start takes "
                      "seconds and volatile counters begin anew",
                      "off: %s", al_doctor_list_text(&off));
    else if (known)
        al_doctor_add(d, AL_CHECK_OK, "persistence_mode", NULL, "on");
}

static int by_mean(const void *a, const void *b) {
    const struct al_call_stat *x = a, *y = b;
    double mx = (double)x->total_ns / (double)x->calls, my = (double)y->total_ns / (double)y->calls;
    return (mx < my) - (mx > my);
}

static void check_cost(struct al_doctor *d) {
    struct al_device *device = d->session.device;
    struct al_call_stat stats[STATS_MAX];
    size_t count = device->ops->stats ? device->ops->stats(device, stats, STATS_MAX) : 0;
    struct al_doctor_list list = {0};
    bool dear = false;
    int64_t total = 0;
    uint64_t calls = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!stats[i].calls)
            continue;
        total += stats[i].total_ns;
        calls += stats[i].calls;
        stats[used++] = stats[i];
    }
    if (!used)
        return;
    qsort(stats, used, sizeof *stats, by_mean);
    for (size_t i = 0; i < used && i < SLOWEST; i++) {
        double mean_us = (double)stats[i].total_ns / (double)stats[i].calls / 1e3;
        char text[96];
        (void)snprintf(text, sizeof text, "%s %.*f us", stats[i].name, mean_us < 10 ? 1 : 0, mean_us);
        al_doctor_list_add(&list, text);
        bool opening = strstr(stats[i].name, "Init") || strstr(stats[i].name, "Handle");
        dear |= !opening && mean_us * 1e3 > DEAR_NS;
    }
    al_doctor_add(d, dear ? AL_CHECK_NOTE : AL_CHECK_OK, "call_cost",
                  dear ? "the driver is slow here: a longer --interval, or sampling.slow_interval in the config, costs less" : NULL,
                  "%llu calls in %.1f ms; slowest on average: %s", (unsigned long long)calls, (double)total / 1e6,
                  al_doctor_list_text(&list));
}

static void sample(struct al_doctor *d) {
    const struct al_snapshot *s = NULL;
    int64_t timeout = (int64_t)(d->session.settings.sampling_timeout * 1e9);
    int result = al_collect_once(d->session.collect, SETTLE_NS, timeout, &s);
    if (result == AL_E_TIMEOUT) {
        al_doctor_add(d, AL_CHECK_PROBLEM, "sample", "look for Xid lines in dmesg; a GPU reset or a restart may be needed",
                      "%s has not answered for %.3g s: the driver hangs", s && *s->hung_call ? s->hung_call : "the driver",
                      (double)timeout / 1e9);
        return;
    }
    if (result) {
        al_doctor_add(d, AL_CHECK_PROBLEM, "sample", NULL, "%s", al_error_text(result));
        return;
    }
    check_gpus(d, s);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        check_group(d, s, i);
    check_lists(d, s);
    check_mode(d, s, timeout);
    check_cost(d);
}

int al_doctor_session(struct al_doctor *d) {
    if (!d->scenario && !d->answers) {
        al_doctor_add(d, AL_CHECK_UNKNOWN, "sample", NULL, "what GPUs answer cannot be tried without a driver");
        return 0;
    }
    if (d->scenario) {
        al_doctor_add(d, AL_CHECK_NOTE, "source", NULL, "%s: no driver and no GPU is read", d->options.source);
        if (d->options.speed < 0)
            d->options.speed = 0;
    }
    int status = al_cli_open(&d->options, AL_GROUP_ALL, false, &d->session);
    if (status)
        return status;
    d->session_open = true;
    sample(d);
    return 0;
}
