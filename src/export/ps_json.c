// SPDX-License-Identifier: Apache-2.0
// alula ps --json: one object; unknown is null, never 0 or "".
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/jsonl.h"
#include "export/ps.h"

// Names are ours and need no escaping.
static void key(struct al_buf *b, const char *name) {
    char before = b->len ? b->data[b->len - 1] : '{';
    al_buf_printf(b, "%s\"%s\": ", before == '{' ? "" : ", ", name);
}

static void text(struct al_buf *b, const char *name, const char *value) {
    key(b, name);
    al_json_string_or_null(b, value);
}

static void integer(struct al_buf *b, const char *name, bool known, int64_t value) {
    key(b, name);
    al_json_integer_or_null(b, known, value);
}

static void value(struct al_buf *b, const char *name, struct al_value v) {
    key(b, name);
    if (v.status == AL_STATUS_OK)
        al_buf_number(b, v.num);
    else
        al_buf_str(b, "null");
}

static void time_of(struct al_buf *b, const char *name, int64_t realtime_ns) {
    key(b, name);
    al_jsonl_time(b, realtime_ns);
}

static void on_gpus(struct al_buf *b, const struct al_snapshot *s, pid_t pid) {
    bool first = true;
    key(b, "gpus");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *r = &s->rows[i];
        if (r->pid != pid || r->gpu >= s->gpu_count)
            continue;
        al_buf_str(b, first ? "{" : ", {");
        first = false;
        integer(b, "index", true, s->gpus[r->gpu].info.index);
        text(b, "uuid", s->gpus[r->gpu].info.uuid);
        value(b, "memory_bytes", r->memory_bytes);
        value(b, "sm_ratio", r->sm_ratio);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void training(struct al_buf *b, const struct al_rank *r) {
    key(b, "training");
    if (!r) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_char(b, '{');
    text(b, "source", r->source);
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) {
        const char *name = al_rank_metric_table[m].name;
        if (m == AL_RANK_PHASE)
            text(b, name, al_rank_phase(r));
        else if (m == AL_RANK_TRAINING) {
            key(b, name);
            al_buf_str(b, !al_ok(r->m[m]) ? "null" : r->m[m].num != 0 ? "true" : "false");
        } else
            value(b, name, r->m[m]);
    }
    al_buf_char(b, '}');
}

static void process(struct al_buf *b, const struct al_snapshot *s, const struct al_ps_row *row) {
    const struct al_proc *p = row->p;
    const struct al_rank *r = row->rank;
    int32_t rank = p->rank >= 0 || !r ? p->rank : r->rank, world = p->world_size > 0 || !r ? p->world_size : r->world;
    bool own = p->role != AL_ROLE_WORKER && p->role != AL_ROLE_OTHER; // others inherited their rank's variables
    al_buf_char(b, '{');
    integer(b, "pid", true, p->pid);
    integer(b, "ppid", p->ppid > 0, p->ppid);
    integer(b, "job", p->job > 0, p->job);
    text(b, "role", al_role_word(p->role));
    integer(b, "rank", own && rank >= 0, rank);
    integer(b, "local_rank", own && p->local_rank >= 0, p->local_rank);
    integer(b, "world_size", own && world > 0, world);
    integer(b, "owner", p->owner > 0, p->owner);
    text(b, "user", p->user);
    integer(b, "uid", p->uid != (uid_t)-1, p->uid);
    text(b, "name", *p->exe ? p->exe : p->comm);
    text(b, "command", p->command);
    text(b, "state", (char[]){p->state, '\0'});
    time_of(b, "started", p->started_realtime_ns);
    bool aged = p->started_realtime_ns && s->realtime_ns >= p->started_realtime_ns;
    value(b, "age_seconds",
          aged ? al_value_ok((double)(s->realtime_ns - p->started_realtime_ns) / 1e9, 0) : al_value_none(AL_STATUS_UNREAD));
    text(b, "container", p->container);
    text(b, "pod", p->pod);
    text(b, "slurm_job", p->slurm_job);
    value(b, "cpu_ratio", p->m[AL_PROC_CPU]);
    value(b, "resident_anonymous_bytes", p->m[AL_PROC_RSS_ANON]);
    value(b, "resident_bytes", p->m[AL_PROC_RSS]);
    value(b, "gpu_memory_bytes", al_snapshot_proc_memory(s, p->pid));
    on_gpus(b, s, p->pid);
    training(b, r);
    al_buf_char(b, '}');
}

static void runs(struct al_buf *b, const struct al_ps_options *o) {
    key(b, "runs");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < o->run_count; i++) {
        const struct al_ps_run *r = &o->runs[i];
        al_buf_str(b, i ? ", {" : "{");
        integer(b, "pid", true, r->alula);
        integer(b, "command_pid", r->job > 0, r->job);
        text(b, "command", r->command);
        text(b, "output_dir", r->output);
        text(b, "recording", r->record);
        time_of(b, "started", r->began_realtime_ns);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

int al_ps_json(struct al_buf *b, const struct al_snapshot *s, const struct al_ps_options *o, uint32_t *ret_count) {
    struct al_ps_row *rows;
    uint32_t count;
    int result = al_ps_rows(s, o->user, &rows, &count);
    if (result)
        return result;
    al_buf_char(b, '{');
    time_of(b, "time", s->realtime_ns);
    text(b, "host", s->node.hostname);
    text(b, "driver_version", s->node.driver_version);
    text(b, "driver_missing", o->device_missing);
    key(b, "processes");
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < count; i++) {
        al_buf_str(b, i ? ",\n  " : "\n  ");
        process(b, s, &rows[i]);
    }
    al_buf_str(b, count ? "\n]" : "]");
    runs(b, o);
    al_buf_str(b, "}\n");
    if (ret_count)
        *ret_count = count;
    free(rows);
    return b->failed ? AL_E_NOMEM : 0;
}
