// SPDX-License-Identifier: Apache-2.0
// Answers printed from the view. Those that are the same for everyone with the same rights are printed once a tick and
// kept.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "export/compat.h"
#include "export/jsonl.h"
#include "export/openmetrics.h"
#include "model/select.h"
#include "serve/parts.h"

#define KEEP_NS AL_NS_PER_S // a kept page tells ages; they may be off by this much
#define CALLS_MAX 128
#define PUSHES_MAX 16

static const char *const types[PAGE_KINDS] = {
    [PAGE_METRICS] = "text/plain; version=0.0.4; charset=utf-8",
    [PAGE_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    [PAGE_SNAPSHOT] = "application/json",
};

static double resident_bytes(void) {
    char text[128];
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    const char *second = strchr(text, ' ');
    if (second)
        pages = strtoull(second + 1, NULL, 10);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void fill_health(struct al_serve *s, struct al_om_health *h, struct al_call_stat *calls) {
    const struct al_collect_cost *cost = &s->view.cost;
    int64_t ticked = atomic_load(&s->ticked_ns);
    *h = (struct al_om_health){
        .version = s->o.version,
        .up = al_serve_up(s),
        .age_seconds = ticked ? (double)(al_monotonic_ns() - ticked) / 1e9 : -1,
        .interval_seconds = s->view.have ? (double)s->view.snapshot->interval_ns / 1e9 : 0,
        .ticks = cost->ticks,
        .late = cost->late,
        .skipped = cost->skipped,
        .delay_mean_seconds = (double)cost->jitter_mean_ns / 1e9,
        .delay_max_seconds = (double)cost->jitter_max_ns / 1e9,
        .cpu_seconds = (double)al_process_cpu_ns() / 1e9,
        .resident_bytes = resident_bytes(),
        .connections = s->connection_count,
        .connections_refused = s->cut_count,
        .calls = calls,
    };
    memcpy(h->requests, s->requests, sizeof h->requests);
    // Counters that the backend keeps; the driver is not asked.
    if (s->o.device && s->o.device->ops->stats)
        h->call_count = s->o.device->ops->stats(s->o.device, calls, CALLS_MAX);
}

static void print_metrics(struct al_serve *s, struct al_buf *b, bool openmetrics, bool full) {
    struct al_call_stat calls[CALLS_MAX];
    struct al_om_push pushes[PUSHES_MAX];
    struct al_om_page p = {
        .openmetrics = openmetrics,
        .processes = full,
        .dcgm = s->o.dcgm_names,
        .max_processes = s->o.max_processes,
        .s = al_serve_fresh(s) ? s->view.snapshot : NULL,
        .findings = s->view.findings.open,
        .finding_count = s->view.findings.open_count,
        .xid_text = s->o.xid_text,
    };
    fill_health(s, &p.health, calls);
    p.health.pushes = pushes;
    p.health.push_count = s->o.push_stats ? s->o.push_stats(s->o.push, pushes, PUSHES_MAX) : 0;
    struct al_pod_use *uses = s->o.pods_read ? calloc(AL_POD_USES_MAX, sizeof *uses) : NULL;
    if (uses) {
        p.pods_asked = true;
        p.pod_count = s->o.pods_read(s->o.pods, uses, AL_POD_USES_MAX, &p.pods_up);
        p.pods = uses;
    }
    al_openmetrics_print(b, &p);
    free(uses);
}

static bool is_ours(const struct al_snapshot *s, pid_t pid) {
    const struct al_proc *p = al_snapshot_proc(s, pid);
    return p && p->alive && p->uid == geteuid();
}

// Who asks without credentials sees the processes of alula's own user alone, and no command lines: loopback is shared.
static int print_reduced(struct al_serve *s, struct al_buf *b) {
    const struct al_snapshot *all = s->view.snapshot;
    struct al_snapshot some = *all;
    some.procs = calloc(all->proc_count ? all->proc_count : 1, sizeof *some.procs);
    some.ranks = calloc(all->rank_count ? all->rank_count : 1, sizeof *some.ranks);
    if (!some.procs || !some.ranks) {
        free(some.procs);
        free(some.ranks);
        return AL_E_NOMEM;
    }
    some.proc_count = 0;
    for (uint32_t i = 0; i < all->proc_count; i++) {
        if (!all->procs[i].alive || all->procs[i].uid != geteuid())
            continue;
        some.procs[some.proc_count] = all->procs[i];
        some.procs[some.proc_count++].command[0] = '\0';
    }
    some.rank_count = 0;
    for (uint32_t i = 0; i < all->rank_count; i++)
        if (is_ours(all, all->ranks[i].pid))
            some.ranks[some.rank_count++] = all->ranks[i];
    al_jsonl_sample(b, &some);
    free(some.procs);
    free(some.ranks);
    return 0;
}

static int print_page(struct al_serve *s, struct al_buf *b, enum page_kind kind, bool full) {
    if (kind != PAGE_SNAPSHOT)
        print_metrics(s, b, kind == PAGE_OPENMETRICS, full);
    else if (full)
        al_jsonl_sample(b, s->view.snapshot);
    else
        return print_reduced(s, b);
    return b->failed ? AL_E_NOMEM : 0;
}

static void forget(struct al_serve *s, struct page *p) {
    if (p->response)
        s->mhd.destroy_response(p->response); // answers under way hold it until they are out
    *p = (struct page){0};
}

struct page *al_serve_page(struct al_serve *s, enum page_kind kind, bool full) {
    struct page *p = &s->pages[kind][full];
    struct al_buf b = AL_BUF_INIT;
    int64_t now = al_monotonic_ns();
    al_serve_view(s);
    if (p->response && p->tick == s->view.tick && p->event_count == s->view.event_count && now - p->made_ns < KEEP_NS)
        return p;
    forget(s, p);
    if (print_page(s, &b, kind, full)) {
        al_buf_free(&b);
        return NULL;
    }
    *p = (struct page){.text = b.data, .len = b.len, .made_ns = now};
    p->tick = s->view.tick;
    p->event_count = s->view.event_count;
    p->response = al_serve_response(s, types[kind], &b);
    if (p->response && kind != PAGE_SNAPSHOT)
        (void)s->mhd.add_response_header(p->response, "Vary", "Accept");
    return p->response ? p : NULL;
}

void al_serve_pages_free(struct al_serve *s) {
    for (int kind = 0; kind < PAGE_KINDS; kind++)
        for (int full = 0; full < 2; full++)
            forget(s, &s->pages[kind][full]);
}

// --- findings ---

void al_serve_finding_json(struct al_serve *s, struct al_buf *b, const struct al_finding *f, bool full) {
    const struct al_snapshot *now = s->view.snapshot;
    if (!full && ((f->pid && !is_ours(now, f->pid)) || (f->job && !is_ours(now, f->job)))) {
        struct al_finding less = *f; // about processes of others: the sentences may name them
        less.pid = less.job = 0;
        less.message[0] = less.considered[0] = less.advice[0] = '\0';
        al_jsonl_finding(b, now, &less);
    } else {
        al_jsonl_finding(b, now, f);
    }
    if (b->len && b->data[b->len - 1] == '\n')
        b->data[--b->len] = '\0';
}

void al_serve_findings_json(struct al_serve *s, struct al_buf *b, const char *state, bool full) {
    const struct finding_log *l = &s->view.findings;
    bool open = strcmp(state, "open") == 0;
    uint64_t count = open ? l->open_count : l->ended_count < FINDINGS_ENDED_MAX ? l->ended_count : FINDINGS_ENDED_MAX;
    al_buf_str(b, "{\"time\":");
    al_jsonl_time(b, s->view.snapshot->realtime_ns);
    al_buf_printf(b, ",\"state\":\"%s\",\"findings\":[", state);
    for (uint64_t i = 0; i < count; i++) {
        if (i)
            al_buf_char(b, ',');
        // The newest end first.
        const struct al_finding *f = open ? &l->open[i] : &l->ended[(l->ended_count - 1 - i) % FINDINGS_ENDED_MAX];
        al_serve_finding_json(s, b, f, full);
    }
    al_buf_str(b, "]}\n");
}

// --- the documents' three keys ---

static void rounded(struct al_buf *b, const char *key, double value, double steps) {
    al_buf_printf(b, "\"%s\": ", key);
    al_buf_number(b, isfinite(value) ? round(value * steps) / steps : value);
}

int al_serve_documents_json(struct al_serve *s, struct al_buf *b, const char *gpu) {
    const struct al_snapshot *now = s->view.snapshot;
    struct al_compat c;
    char item[AL_UUID_MAX];
    uint32_t i = 0;
    if (gpu && (!*gpu || al_gpu_select_check(gpu, item, sizeof item)))
        return AL_E_INVALID;
    while (i < now->gpu_count && !al_gpu_selected(gpu, &now->gpus[i].info))
        i++;
    if (i == now->gpu_count)
        return AL_E_NOENT;
    al_compat_fill(&c, now, i);
    struct al_value total = now->node.m[AL_NODE_MEM_TOTAL], available = now->node.m[AL_NODE_MEM_AVAILABLE];
    double ram = al_ok(total) && al_ok(available) ? (total.num - available.num) / (1024.0 * 1024 * 1024) : (double)NAN;
    al_buf_char(b, '{');
    rounded(b, "gpu_util", c.gpu_util_percent, 100);
    al_buf_str(b, ", ");
    rounded(b, "gpu_mem_used", c.mem_used_gb, 100);
    al_buf_str(b, ", ");
    rounded(b, "system_ram_gb", ram, 100);
    al_buf_str(b, "}\n");
    return 0;
}
