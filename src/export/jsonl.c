// SPDX-License-Identifier: Apache-2.0
#include "export/jsonl.h"

#include <string.h>
#include <time.h>

#include "base/str.h"

// Names are ours and need no escaping.
static void key(struct al_buf *b, const char *name) {
    bool first = !b->len || b->data[b->len - 1] == '{' || b->data[b->len - 1] == '[';
    al_buf_add(b, ",\"", first ? 0 : 1);
    al_buf_char(b, '"');
    al_buf_str(b, name);
    al_buf_add(b, "\":", 2);
}

static void text(struct al_buf *b, const char *name, const char *value) {
    key(b, name);
    al_json_string_or_null(b, value);
}

static void number(struct al_buf *b, const char *name, double value) {
    key(b, name);
    al_buf_number(b, value);
}

static void value(struct al_buf *b, const char *name, struct al_value v) {
    key(b, name);
    if (al_ok(v))
        al_buf_number(b, v.num);
    else
        al_buf_str(b, "null");
}

static void open_object(struct al_buf *b) {
    if (b->len && (b->data[b->len - 1] == '}' || b->data[b->len - 1] == '"'))
        al_buf_char(b, ',');
    al_buf_char(b, '{');
}

void al_jsonl_time(struct al_buf *b, int64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm t;
    if (realtime_ns <= 0 || !gmtime_r(&seconds, &t)) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_printf(b, "\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                  t.tm_min, t.tm_sec, (int)(realtime_ns / 1000000 % 1000));
}

void al_jsonl_head(struct al_buf *b, const char *type, int64_t realtime_ns, const char *host) {
    al_buf_char(b, '{');
    text(b, "type", type);
    key(b, "time");
    al_jsonl_time(b, realtime_ns);
    text(b, "host", host);
}

static void head(struct al_buf *b, const char *type, const struct al_snapshot *s) {
    al_jsonl_head(b, type, s->realtime_ns, s->node.hostname);
}

static void gpu_identity(struct al_buf *b, const struct al_gpu_info *i) {
    number(b, "index", i->index);
    text(b, "uuid", i->uuid);
    text(b, "name", i->name);
    text(b, "pci_bus_id", i->pci_bus_id);
    text(b, "state", al_status_word(i->status));
    if (!i->is_mig)
        return;
    number(b, "parent", i->parent);
    number(b, "gpu_instance", i->gpu_instance);
    number(b, "compute_instance", i->compute_instance);
    text(b, "mig_profile", i->mig_profile);
}

// Metrics that are not OK and will hardly become so, with the word that says why.
static void unavailable(struct al_buf *b, const struct al_gpu *g, uint32_t groups) {
    key(b, "unavailable");
    al_buf_char(b, '{');
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++) {
        uint32_t status = g->m[m].status;
        if ((al_gpu_metrics[m].group & groups) && status != AL_STATUS_OK && status != AL_STATUS_UNREAD &&
            status != AL_STATUS_STALE)
            text(b, al_gpu_metrics[m].name, al_status_word(status));
    }
    al_buf_char(b, '}');
}

void al_jsonl_session(struct al_buf *b, const struct al_snapshot *s, const char *version) {
    head(b, "session", s);
    text(b, "alula_version", version);
    text(b, "driver_version", s->node.driver_version);
    text(b, "cuda_version", s->node.cuda_version);
    text(b, "boot_id", s->node.boot_id);
    number(b, "interval_seconds", (double)s->interval_ns / 1e9);
    key(b, "gpus");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        open_object(b);
        gpu_identity(b, &s->gpus[i].info);
        text(b, "serial", s->gpus[i].info.serial);
        unavailable(b, &s->gpus[i], s->groups);
        al_buf_char(b, '}');
    }
    al_buf_str(b, "]}\n");
}

static void xids(struct al_buf *b, const struct al_snapshot *s, const struct al_gpu *g) {
    key(b, "xids");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < g->xid_count && i < AL_XID_CODES; i++) {
        open_object(b);
        number(b, "code", g->xid[i].code);
        number(b, "count", g->xid[i].count);
        key(b, "last");
        al_jsonl_time(b, s->realtime_ns - (s->monotonic_ns - g->xid[i].last_ns));
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void gpu(struct al_buf *b, const struct al_snapshot *s, const struct al_gpu *g) {
    open_object(b);
    gpu_identity(b, &g->info);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if (al_gpu_metrics[m].group & s->groups)
            value(b, al_gpu_metrics[m].name, g->m[m]);
    if (s->groups & AL_GROUP_XID)
        xids(b, s, g);
    key(b, "stale");
    al_buf_char(b, '[');
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        if ((al_gpu_metrics[m].group & s->groups) && g->m[m].status == AL_STATUS_STALE) {
            if (b->data[b->len - 1] != '[')
                al_buf_char(b, ',');
            al_json_string(b, al_gpu_metrics[m].name);
        }
    al_buf_str(b, "]}");
}

// -1 or 0 stand for unknown.
static void known_int(struct al_buf *b, const char *name, bool known, int64_t v) {
    key(b, name);
    al_json_integer_or_null(b, known, v);
}

static void proc_devices(struct al_buf *b, const struct al_snapshot *s, pid_t pid) {
    key(b, "gpus");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *r = &s->rows[i];
        if (r->pid != pid || r->gpu >= s->gpu_count)
            continue;
        open_object(b);
        number(b, "index", s->gpus[r->gpu].info.index);
        text(b, "uuid", s->gpus[r->gpu].info.uuid);
        text(b, "type", r->type ? al_proc_type_word(r->type) : "");
        value(b, "memory_bytes", r->memory_bytes);
        value(b, "sm_ratio", r->sm_ratio);
        value(b, "memory_ratio", r->memory_ratio);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void proc(struct al_buf *b, const struct al_snapshot *s, const struct al_proc *p) {
    open_object(b);
    number(b, "pid", p->pid);
    number(b, "ppid", p->ppid);
    number(b, "job", p->job);
    text(b, "role", al_role_word(p->role));
    known_int(b, "rank", p->rank >= 0, p->rank);
    known_int(b, "local_rank", p->local_rank >= 0, p->local_rank);
    known_int(b, "world_size", p->world_size >= 0, p->world_size);
    known_int(b, "owner", p->owner > 0, p->owner);
    text(b, "user", p->user);
    text(b, "name", p->exe[0] ? p->exe : p->comm);
    text(b, "command", p->command);
    text(b, "state", (char[]){p->state, '\0'});
    key(b, "started");
    al_jsonl_time(b, p->started_realtime_ns);
    text(b, "cgroup", p->cgroup);
    text(b, "container", p->container);
    text(b, "pod", p->pod);
    text(b, "slurm_job", p->slurm_job);
    key(b, "alive");
    al_buf_str(b, p->alive ? "true" : p->foreign ? "null" : "false");
    for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
        value(b, al_proc_metric_table[m].name, p->m[m]);
    proc_devices(b, s, p->pid);
    al_buf_char(b, '}');
}

static void rank(struct al_buf *b, const struct al_rank *r) {
    const char *phase = al_rank_phase(r);
    open_object(b);
    number(b, "pid", r->pid);
    known_int(b, "job", r->job > 0, r->job);
    known_int(b, "rank", r->rank >= 0, r->rank);
    known_int(b, "local_rank", r->local_rank >= 0, r->local_rank);
    known_int(b, "world_size", r->world > 0, r->world);
    known_int(b, "device", r->device >= 0, r->device);
    text(b, "source", r->source);
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
        if (m == AL_RANK_PHASE)
            text(b, al_rank_metric_table[m].name, phase ? phase : "");
        else
            value(b, al_rank_metric_table[m].name, r->m[m]);
    al_buf_char(b, '}');
}

void al_jsonl_sample(struct al_buf *b, const struct al_snapshot *s) {
    head(b, "sample", s);
    number(b, "tick", (double)s->tick);
    number(b, "monotonic_seconds", (double)s->monotonic_ns / 1e9);
    key(b, "gpus");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->gpu_count; i++)
        gpu(b, s, &s->gpus[i]);
    al_buf_char(b, ']');
    key(b, "processes");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->proc_count; i++)
        proc(b, s, &s->procs[i]);
    al_buf_char(b, ']');
    key(b, "ranks");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->rank_count; i++)
        rank(b, &s->ranks[i]);
    al_buf_char(b, ']');
    key(b, "node");
    al_buf_char(b, '{');
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        value(b, al_node_metric_table[m].name, s->node.m[m]);
    al_buf_char(b, '}');
    text(b, "hung_call", s->hung_call);
    al_buf_str(b, "}\n");
}

static void evidence(struct al_buf *b, const struct al_finding *f) {
    key(b, "evidence");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < f->evidence_count && i < AL_EVIDENCE_MAX; i++) {
        open_object(b);
        text(b, "name", f->evidence[i].name);
        number(b, "value", f->evidence[i].value);
        text(b, "unit", al_unit_word(f->evidence[i].unit));
        text(b, "source", f->evidence[i].source);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void number_or_null(struct al_buf *b, const char *name, bool known, double v) {
    value(b, name, known ? al_value_ok(v, 0) : al_value_none(AL_STATUS_UNREAD));
}

void al_jsonl_finding(struct al_buf *b, const struct al_snapshot *s, const struct al_finding *f) {
    head(b, "finding", s);
    text(b, "rule", f->rule);
    text(b, "key", f->key);
    text(b, "phase", al_phase_word(f->phase));
    text(b, "level", al_level_word(f->level));
    text(b, "confidence", al_confidence_word(f->confidence));
    number_or_null(b, "gpu", f->gpu_index >= 0, f->gpu_index);
    text(b, "gpu_uuid", f->gpu_uuid);
    number_or_null(b, "pid", f->pid > 0, f->pid);
    number_or_null(b, "job", f->job > 0, f->job);
    key(b, "began");
    al_jsonl_time(b, f->began_realtime_ns);
    number_or_null(b, "lasted_seconds", true, (double)((f->ended_ns ? f->ended_ns : s->monotonic_ns) - f->began_ns) / 1e9);
    text(b, "title", f->title);
    text(b, "message", f->message);
    text(b, "considered", f->considered);
    text(b, "advice", f->advice);
    evidence(b, f);
    al_buf_str(b, "}\n");
}
