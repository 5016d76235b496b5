// SPDX-License-Identifier: Apache-2.0
// Snapshots as scenario text: the head once, then what changed from tick to tick. Reading it back gives the same.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "scenario/parts.h"

static void put_text(struct al_buf *b, const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/+-";
    if (text[0] && text[strspn(text, plain)] == 0) {
        al_buf_str(b, text);
        return;
    }
    al_buf_char(b, '"');
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            al_buf_char(b, '\\');
        if (c < 0x20 || c == 0x7f)
            al_buf_printf(b, "\\x%02x", c);
        else
            al_buf_char(b, *p);
    }
    al_buf_char(b, '"');
}

static void put_text_key(struct al_buf *b, const char *key, const char *text) {
    al_buf_char(b, ' ');
    al_buf_str(b, key);
    al_buf_char(b, '=');
    put_text(b, text);
}

// Seconds to the nanosecond, without trailing zeros.
static void put_time(struct al_buf *b, int64_t ns) {
    if (ns < 0)
        ns = 0;
    char fraction[16];
    snprintf(fraction, sizeof fraction, ".%09lld", (long long)(ns % AL_NS_PER_S));
    size_t len = strlen(fraction);
    while (fraction[len - 1] == '0')
        fraction[--len] = 0;
    al_buf_printf(b, "%lld%ss", (long long)(ns / AL_NS_PER_S), len > 1 ? fraction : "");
}

static void put_date(struct al_buf *b, int64_t ns) {
    time_t seconds = (time_t)(ns / AL_NS_PER_S);
    struct tm tm;
    char text[64];
    if (ns < 0 || !gmtime_r(&seconds, &tm))
        return;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    al_buf_str(b, text);
    if (ns % AL_NS_PER_S)
        al_buf_printf(b, ".%09lld", (long long)(ns % AL_NS_PER_S));
    al_buf_char(b, 'Z');
}

// "3", or "0/1" for a MIG device.
static void put_gpu(struct al_buf *b, const struct al_snapshot *s, uint32_t position) {
    uint32_t board = position, nth = 0, number = 0;
    if (s->gpus[position].info.is_mig && s->gpus[position].info.parent >= 0)
        board = (uint32_t)s->gpus[position].info.parent;
    for (uint32_t g = 0; g < board; g++)
        number += !s->gpus[g].info.is_mig;
    for (uint32_t g = 0; g < position; g++)
        nth += s->gpus[g].info.is_mig && s->gpus[g].info.parent == s->gpus[position].info.parent;
    al_buf_printf(b, "%" PRIu32, number);
    if (board != position)
        al_buf_printf(b, "/%" PRIu32, nth);
}

static void put_gpu_info(struct al_buf *b, const struct al_snapshot *s, uint32_t position) {
    const struct al_gpu_info *i = &s->gpus[position].info;
    if (i->is_mig && i->parent >= 0) {
        al_buf_str(b, "mig ");
        struct al_buf parent = AL_BUF_INIT;
        put_gpu(&parent, s, (uint32_t)i->parent);
        al_buf_str(b, parent.data ? parent.data : "0");
        al_buf_free(&parent);
        al_buf_printf(b, " gpu_instance=%" PRIu32 " compute_instance=%" PRIu32, i->gpu_instance, i->compute_instance);
        put_text_key(b, "profile", i->mig_profile);
    } else {
        al_buf_str(b, "gpu ");
        put_gpu(b, s, position);
    }
    put_text_key(b, "name", i->name);
    put_text_key(b, "uuid", i->uuid);
    if (!i->is_mig) {
        put_text_key(b, "pci_bus_id", i->pci_bus_id);
        put_text_key(b, "serial", i->serial);
        al_buf_printf(b, " minor=%" PRIu32 " architecture=%" PRIu32, i->minor, i->architecture);
        al_buf_str(b, i->unified_memory ? " unified_memory=yes" : "");
        al_buf_str(b, i->mig_enabled ? " mig_enabled=yes" : "");
        al_buf_str(b, " samples=recorded");
    }
    al_buf_char(b, '\n');
}

static bool same_attr(enum al_attr attr, const struct al_attr_value *x, const struct al_attr_value *y) {
    if (x->status != y->status)
        return false;
    if (x->status != AL_STATUS_OK)
        return true;
    return al_attrs[attr].type == 'T' ? strcmp(x->text, y->text) == 0 : x->num == y->num;
}

static void put_attr(struct al_buf *b, enum al_attr attr, const struct al_attr_value *v) {
    al_buf_printf(b, " %s=", al_attrs[attr].name);
    if (v->status != AL_STATUS_OK)
        al_buf_printf(b, "!%s", al_status_word(v->status));
    else if (al_attrs[attr].type == 'T')
        put_text(b, v->text);
    else
        al_buf_number(b, v->num);
}

static void put_attrs(struct al_buf *b, const struct al_snapshot *s, uint32_t gpu, al_scenario_attr_fn *attr,
                      void *user) {
    bool begun = false;
    for (int a = 0; a < AL_ATTR_COUNT; a++) {
        struct al_attr_value v = {0}, usual = {.status = AL_STATUS_UNSUPPORTED};
        al_scenario_derive(&s->gpus[gpu].info, (enum al_attr)a, &usual);
        if (attr(user, gpu, (enum al_attr)a, &v) != 0 || same_attr((enum al_attr)a, &v, &usual))
            continue;
        if (!begun) {
            al_buf_str(b, "attr ");
            put_gpu(b, s, gpu);
        }
        begun = true;
        put_attr(b, (enum al_attr)a, &v);
    }
    if (begun)
        al_buf_char(b, '\n');
}

static void put_line(struct al_buf *b, const char *key, const char *value) {
    if (value[0]) {
        al_buf_str(b, key);
        al_buf_char(b, ' ');
        put_text(b, value);
        al_buf_char(b, '\n');
    }
}

void al_scenario_print_head(struct al_buf *b, const struct al_snapshot *s, al_scenario_attr_fn *attr, void *user) {
    const struct al_node *n = &s->node;
    al_buf_str(b, "alula scenario 1\n");
    if (s->realtime_ns > 0) {
        al_buf_str(b, "start ");
        put_date(b, s->realtime_ns);
        al_buf_char(b, '\n');
    }
    if (s->interval_ns > 0) {
        al_buf_str(b, "interval ");
        put_time(b, s->interval_ns);
        al_buf_char(b, '\n');
    }
    put_line(b, "driver", n->driver_version);
    put_line(b, "nvml", n->nvml_version);
    put_line(b, "cuda", n->cuda_version);
    al_buf_str(b, "host");
    if (n->hostname[0])
        put_text_key(b, "hostname", n->hostname);
    if (n->boot_id[0])
        put_text_key(b, "boot_id", n->boot_id);
    al_buf_printf(b, " host_pid_ns=%s pid_ns=%" PRIu64 "\n", n->host_pid_ns ? "yes" : "no", n->pid_ns);
    for (int mig = 0; mig < 2; mig++)
        for (uint32_t g = 0; g < s->gpu_count; g++)
            if (s->gpus[g].info.is_mig == (mig == 1))
                put_gpu_info(b, s, g);
    for (uint32_t g = 0; attr && g < s->gpu_count; g++)
        put_attrs(b, s, g, attr, user);
}

// A line that is begun only when there is something to say.
struct line {
    struct al_buf *b;
    const struct al_snapshot *s;
    const char *verb;
    int64_t pid; // 0: none
    int64_t gpu; // -1: none
    bool begun;
};

static void begin(struct line *l) {
    if (l->begun)
        return;
    l->begun = true;
    al_buf_str(l->b, l->verb);
    if (l->pid)
        al_buf_printf(l->b, " %" PRId64, l->pid);
    if (l->gpu >= 0) {
        al_buf_str(l->b, l->pid ? " gpu=" : " ");
        put_gpu(l->b, l->s, (uint32_t)l->gpu);
    }
}

static void end(struct line *l) {
    if (l->begun)
        al_buf_char(l->b, '\n');
}

static void put_value(struct line *l, const char *name, struct al_value v) {
    begin(l);
    al_buf_printf(l->b, " %s=", name);
    if (!isfinite(v.num))
        v = al_value_none(AL_STATUS_ERROR);
    if (v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE)
        al_buf_number(l->b, v.num);
    if (v.status != AL_STATUS_OK)
        al_buf_printf(l->b, "!%s", al_status_word(v.status));
}

// old NULL: the reader assumes `usual`.
static void put_change(struct line *l, const char *name, const struct al_value *old, struct al_value v,
                       uint32_t usual) {
    bool counts = v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE;
    if (old ? old->status == v.status && (!counts || old->num == v.num) : v.status == usual && !counts)
        return;
    put_value(l, name, v);
}

static void put_list_status(struct line *l, const char *key, uint32_t old, uint32_t now) {
    if (old == now)
        return;
    begin(l);
    al_buf_printf(l->b, " %s=!%s", key, al_status_word(now));
}

static void put_state(struct al_buf *b, const struct al_snapshot *s, uint32_t g, uint32_t old, uint32_t now) {
    if (old == now)
        return;
    al_buf_str(b, now == AL_STATUS_OK ? "back " : now == AL_STATUS_RESET ? "reset_required " : "lost ");
    put_gpu(b, s, g);
    al_buf_char(b, '\n');
}

static void put_xids(struct al_buf *b, const struct al_snapshot *s, uint32_t g, const struct al_gpu *old,
                     int64_t start_ns) {
    for (uint32_t i = 0; i < s->gpus[g].xid_count && i < AL_XID_CODES; i++) {
        const struct al_xid *x = &s->gpus[g].xid[i];
        uint32_t before = 0;
        for (uint32_t j = 0; old && j < old->xid_count && j < AL_XID_CODES; j++)
            if (old->xid[j].code == x->code)
                before = old->xid[j].count;
        for (uint32_t left = x->count > before ? x->count - before : 0; left;) {
            uint32_t step = left < 1000 ? left : 1000;
            al_buf_str(b, "xid ");
            put_gpu(b, s, g);
            al_buf_printf(b, " %" PRIu32 " count=%" PRIu32 " at=", x->code, step);
            put_time(b, x->last_ns - start_ns);
            al_buf_char(b, '\n');
            left -= step;
        }
    }
}

static void put_samples(struct al_buf *b, const struct al_snapshot *s, uint32_t g, int64_t start_ns) {
    const struct al_gpu *gpu = &s->gpus[g];
    struct line l = {b, s, "sample", 0, g, false};
    int64_t last = -1;
    for (uint32_t i = 0; i < gpu->fresh_count && i < AL_FRESH_MAX && !gpu->info.is_mig; i++) {
        int64_t at = gpu->fresh[i].at_ns - start_ns;
        if (at <= last) // a driver's buffer reaches back before the recording's start
            continue;
        begin(&l);
        al_buf_char(b, ' ');
        put_time(b, at);
        al_buf_char(b, '=');
        al_buf_number(b, gpu->fresh[i].ratio);
        last = at;
    }
    end(&l);
}

static bool derived_metric(int m) {
    return m == AL_GPU_UTIL_MEAN || m == AL_GPU_MEM_FREE || m == AL_GPU_XID_ERRORS;
}

static void put_gpu_changes(struct al_buf *b, const struct al_snapshot *s, uint32_t g, const struct al_gpu *old,
                            int64_t start_ns) {
    const struct al_gpu *gpu = &s->gpus[g];
    uint32_t was = old ? old->info.status : AL_STATUS_OK;
    bool inherits = gpu->info.is_mig && gpu->info.parent >= 0 &&
                    s->gpus[gpu->info.parent].info.status != AL_STATUS_OK; // its board's line says it
    if (!inherits)
        put_state(b, s, g, was, gpu->info.status);
    put_xids(b, s, g, old, start_ns);
    put_samples(b, s, g, start_ns);
    if (gpu->info.status != AL_STATUS_OK)
        return;
    // Behind a loss the reader still holds what was printed last; printing all again is always right.
    if (was != AL_STATUS_OK)
        old = NULL;
    struct line l = {b, s, "gpu", 0, g, false};
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        put_change(&l, al_gpu_metrics[m].name, old ? &old->m[m] : NULL, gpu->m[m],
                   derived_metric(m) || was != AL_STATUS_OK ? AL_STATUS_COUNT : AL_STATUS_UNSUPPORTED);
    uint32_t usual = was == AL_STATUS_OK ? AL_STATUS_OK : AL_STATUS_COUNT;
    put_list_status(&l, "processes", old ? old->process_status : usual, gpu->process_status);
    put_list_status(&l, "process_utilization", old ? old->procutil_status : usual, gpu->procutil_status);
    end(&l);
}

static void put_field(struct line *l, const struct al_proc_field *f, const void *old, const void *new) {
    const char *now = (const char *)new + f->offset, *was = (const char *)old + f->offset;
    uint64_t u64 = 0;
    int32_t i32 = 0;
    if (f->type == 't' ? strcmp(now, was) == 0 : memcmp(now, was, f->size) == 0)
        return;
    if (f->size == sizeof u64)
        memcpy(&u64, now, sizeof u64);
    if (f->size == sizeof i32)
        memcpy(&i32, now, sizeof i32);
    if (f->type == 'u' && u64 > UINT64_C(1) << 53)
        return; // not a number that /proc gives
    if ((f->type == 'i' || f->type == 'p') && i32 < 0)
        return; // unknown again: the lines have no word for it
    if (f->type == 'c' && !((*now | 32) >= 'a' && (*now | 32) <= 'z'))
        return;
    begin(l);
    al_buf_printf(l->b, " %s=", f->name);
    switch (f->type) {
    case 't':
        put_text(l->b, now);
        break;
    case 'u':
        al_buf_printf(l->b, "%" PRIu64, u64);
        break;
    case 'b':
        al_buf_str(l->b, *now ? "yes" : "no");
        break;
    case 'c':
        put_text(l->b, (char[]){*now, 0});
        break;
    case 'r':
        al_buf_str(l->b, al_role_word((uint32_t)i32));
        break;
    case 'd':
        put_date(l->b, (int64_t)u64);
        break;
    default:
        al_buf_printf(l->b, "%" PRId32, i32);
    }
}

// The same process in the tick before; a reused pid is another process.
static const struct al_proc *earlier(const struct al_snapshot *before, const struct al_proc *p) {
    const struct al_proc *old = before ? al_snapshot_proc(before, p->pid) : NULL;
    return old && old->start_ticks == p->start_ticks ? old : NULL;
}

static void put_exits(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    for (uint32_t i = 0; before && i < before->proc_count; i++) {
        const struct al_proc *now = al_snapshot_proc(s, before->procs[i].pid);
        if (!now || now->start_ticks != before->procs[i].start_ticks)
            al_buf_printf(b, "exit %d\n", (int)before->procs[i].pid);
    }
}

static void put_procs(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    static const struct al_proc fresh = {.alive = true, .rank = -1, .local_rank = -1, .world_size = -1, .node_rank = -1};
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i], *old = earlier(before, p);
        struct line l = {b, s, "proc", p->pid, -1, false};
        if (!old)
            begin(&l);
        for (size_t f = 0; f < al_scenario_proc_field_count(); f++)
            put_field(&l, &al_scenario_proc_fields[f], old ? old : &fresh, p);
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            put_change(&l, al_proc_metric_table[m].name, old ? &old->m[m] : NULL, p->m[m], AL_STATUS_UNREAD);
        end(&l);
    }
}

static const struct al_proc_gpu *find_row(const struct al_snapshot *s, pid_t pid, const char *uuid) {
    for (uint32_t i = 0; s && i < s->row_count; i++)
        if (s->rows[i].pid == pid && strcmp(s->gpus[s->rows[i].gpu].info.uuid, uuid) == 0)
            return &s->rows[i];
    return NULL;
}

// A row that an exit line above has taken with it, or one of a GPU that does not answer now: the reader forgot neither.
static void put_unrows(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    for (uint32_t i = 0; before && i < before->row_count; i++) {
        const struct al_proc_gpu *old = &before->rows[i];
        const struct al_gpu *gpu = al_snapshot_gpu(s, before->gpus[old->gpu].info.uuid);
        if (!gpu || find_row(s, old->pid, gpu->info.uuid))
            continue;
        al_buf_printf(b, "unrow %d gpu=", (int)old->pid);
        put_gpu(b, s, (uint32_t)(gpu - s->gpus));
        al_buf_char(b, '\n');
    }
}

static void put_row_type(struct line *l, uint32_t type) {
    static const char letters[] = {'M', 'C', 'G'};
    static const uint32_t bits[] = {AL_PROC_MPS, AL_PROC_COMPUTE, AL_PROC_GRAPHICS};
    begin(l);
    const char *between = " type=";
    for (int i = 0; i < 3; i++)
        if (type & bits[i]) {
            al_buf_printf(l->b, "%s%c", between, letters[i]);
            between = "+";
        }
}

static void put_row(struct al_buf *b, const struct al_snapshot *s, const struct al_proc_gpu *old,
                    const struct al_proc_gpu *row) {
    const struct al_value *now[] = {&row->memory_bytes,  &row->sm_ratio,   &row->memory_ratio, &row->encoder_ratio,
                                    &row->decoder_ratio, &row->jpeg_ratio, &row->ofa_ratio};
    struct line l = {b, s, "row", row->pid, row->gpu, false};
    if (!old)
        begin(&l);
    if (row->type && row->type != (old ? old->type : AL_PROC_COMPUTE))
        put_row_type(&l, row->type);
    for (size_t i = 0; i < AL_ROW_FIGURES; i++) {
        size_t offset = (size_t)((const char *)now[i] - (const char *)row);
        const struct al_value *was = old ? (const struct al_value *)(const void *)((const char *)old + offset) : NULL;
        put_change(&l, al_scenario_row_figures[i], was, *now[i],
                   i == AL_ROW_MEMORY ? AL_STATUS_UNSUPPORTED : AL_STATUS_UNREAD);
    }
    if (row->gpu_instance != (old ? old->gpu_instance : UINT32_MAX)) {
        begin(&l);
        al_buf_printf(b, " gpu_instance=%" PRIu32, row->gpu_instance);
    }
    if (row->compute_instance != (old ? old->compute_instance : UINT32_MAX)) {
        begin(&l);
        al_buf_printf(b, " compute_instance=%" PRIu32, row->compute_instance);
    }
    if (strcmp(row->driver_name, old ? old->driver_name : "") != 0) {
        begin(&l);
        put_text_key(b, "driver_name", row->driver_name);
    }
    end(&l);
}

static void put_rows(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *row = &s->rows[i];
        const struct al_proc_gpu *old = find_row(before, row->pid, s->gpus[row->gpu].info.uuid);
        const struct al_proc *was = before ? al_snapshot_proc(before, row->pid) : NULL;
        const struct al_proc *now = al_snapshot_proc(s, row->pid);
        if (was && (!now || now->start_ticks != was->start_ticks))
            old = NULL; // an exit line took it along
        put_row(b, s, old, row);
    }
}

static void put_rank(struct al_buf *b, const struct al_snapshot *s, const struct al_rank *old, const struct al_rank *r) {
    static const struct al_rank fresh = {.rank = -1, .local_rank = -1, .world = -1, .device = -1};
    struct line l = {b, s, "rank", r->pid, -1, false};
    if (!old)
        begin(&l);
    for (size_t f = 0; f < AL_SCENARIO_RANK_FIELDS; f++)
        put_field(&l, &al_scenario_rank_fields[f], old ? old : &fresh, r);
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++) {
        const struct al_value *was = old ? &old->m[m] : NULL, *now = &r->m[m];
        const char *word = m == AL_RANK_PHASE && al_ok(*now) && now->num >= 0 ? al_rank_phase_word((uint32_t)now->num) : NULL;
        if (!word) {
            put_change(&l, al_rank_metric_table[m].name, was,
                       m == AL_RANK_PHASE && al_ok(*now) ? al_value_none(AL_STATUS_ERROR) : *now, AL_STATUS_UNREAD);
        } else if (!was || !al_ok(*was) || was->num != now->num) {
            begin(&l);
            al_buf_printf(b, " %s=%s", al_rank_metric_table[m].name, word);
        }
    }
    end(&l);
}

static void put_ranks(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    for (uint32_t i = 0; before && i < before->rank_count; i++) {
        const struct al_rank *now = al_snapshot_rank(s, before->ranks[i].pid);
        if (before->ranks[i].pid > 0 && (!now || now->start_ticks != before->ranks[i].start_ticks))
            al_buf_printf(b, "unrank %d\n", (int)before->ranks[i].pid);
    }
    for (uint32_t i = 0; i < s->rank_count; i++) {
        const struct al_rank *old = before ? al_snapshot_rank(before, s->ranks[i].pid) : NULL;
        if (s->ranks[i].pid <= 0)
            continue; // of a damaged recording: the lines have no word for it
        put_rank(b, s, old && old->start_ticks == s->ranks[i].start_ticks ? old : NULL, &s->ranks[i]);
    }
}

static void put_looks(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s) {
    static const struct al_look fresh = {.rank = -1};
    for (uint32_t i = 0; before && i < before->look_count; i++) {
        const struct al_look *now = al_snapshot_look(s, before->looks[i].pid);
        if (before->looks[i].pid > 0 && (!now || now->start_ticks != before->looks[i].start_ticks))
            al_buf_printf(b, "unlook %d\n", (int)before->looks[i].pid);
    }
    for (uint32_t i = 0; i < s->look_count; i++) {
        const struct al_look *now = &s->looks[i], *old = before ? al_snapshot_look(before, now->pid) : NULL;
        struct line l = {b, s, "look", now->pid, -1, false};
        if (now->pid <= 0)
            continue;
        if (old && old->start_ticks != now->start_ticks)
            old = NULL;
        if (!old)
            begin(&l);
        for (size_t f = 0; f < AL_SCENARIO_LOOK_FIELDS; f++)
            put_field(&l, &al_scenario_look_fields[f], old ? old : &fresh, now);
        for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++)
            put_change(&l, al_look_metric_table[m].name, old ? &old->m[m] : NULL, now->m[m], AL_STATUS_UNREAD);
        end(&l);
    }
}

static void put_hang(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s,
                     int64_t start_ns) {
    const char *was = before ? before->hung_call : "";
    if (strcmp(was, s->hung_call) == 0)
        return;
    if (!s->hung_call[0]) {
        al_buf_str(b, "resume\n");
        return;
    }
    al_buf_str(b, "hang ");
    put_text(b, s->hung_call);
    al_buf_str(b, " since=");
    put_time(b, s->hung_since_ns - start_ns);
    al_buf_char(b, '\n');
}

void al_scenario_print_tick(struct al_buf *b, const struct al_snapshot *before, const struct al_snapshot *s,
                            int64_t start_ns) {
    al_buf_char(b, '@');
    put_time(b, s->monotonic_ns - start_ns);
    al_buf_char(b, '\n');
    for (uint32_t g = 0; g < s->gpu_count; g++)
        put_gpu_changes(b, s, g, before ? al_snapshot_gpu(before, s->gpus[g].info.uuid) : NULL, start_ns);
    struct line l = {b, s, "node", 0, -1, false};
    for (int m = 0; m < AL_NODE_METRIC_COUNT; m++)
        put_change(&l, al_node_metric_table[m].name, before ? &before->node.m[m] : NULL, s->node.m[m],
                   AL_STATUS_UNREAD);
    end(&l);
    put_exits(b, before, s);
    put_procs(b, before, s);
    put_unrows(b, before, s);
    put_rows(b, before, s);
    put_ranks(b, before, s);
    put_looks(b, before, s);
    put_hang(b, before, s, start_ns);
}
