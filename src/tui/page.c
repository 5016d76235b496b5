// SPDX-License-Identifier: Apache-2.0
// Pages of lines: details of a GPU, a process, a finding, and the help.
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "tui/draw.h"

#define NAME_W 40
#define VALUE_W 14
#define AGE_W 6

// --- lines ---

void al_page_line(struct al_buf *page, uint8_t style, const char *text) {
    al_buf_char(page, (char)(style + 1));
    for (; *text; text++)
        al_buf_char(page, *text == '\n' ? ' ' : *text); // a line is a line
    al_buf_char(page, '\n');
}

// Bytes of `text` that fit into w columns, broken at a blank where there is one.
static size_t fitting(const char *text, int w) {
    size_t len = 0, blank = 0, total = strlen(text);
    char piece[8];
    int used = 0;
    while (len < total) {
        size_t n = al_utf8_len((const unsigned char *)text + len, total - len);
        n = n ? n : 1;
        (void)al_str_copy_n(piece, sizeof piece, text + len, n);
        int width = n > 1 ? al_text_width(piece) : 1;
        if (used + width > w)
            return blank ? blank : len ? len : n;
        used += width;
        if (text[len] == ' ')
            blank = len + 1;
        len += n;
    }
    return len;
}

void al_page_wrap(struct al_buf *page, int w, uint8_t style, const char *label, const char *text) {
    char line[1200];
    int indent = al_text_width(label) ? 16 : 0, room = w - indent < 8 ? 8 : w - indent;
    bool first = true;
    do {
        size_t n = fitting(text, room);
        int pad = indent - (first ? al_text_width(label) : 0);
        (void)snprintf(line, sizeof line, "%s%*s%.*s", first ? label : "", pad > 0 ? pad : 0, "", (int)n, text);
        al_page_line(page, style, line);
        text += n;
        first = false;
    } while (*text);
}

static bool passes(const struct al_draw *d, const char *line, size_t len) {
    char text[1024];
    if (!*d->ui->list_filter)
        return true;
    (void)al_str_copy_n(text, sizeof text, line, len);
    return strcasestr(text, d->ui->list_filter) != NULL;
}

static int count_lines(const struct al_draw *d, const struct al_buf *page) {
    int n = 0;
    for (const char *p = page->data; p && *p;) {
        const char *end = strchr(p, '\n');
        if (!end)
            break;
        n += passes(d, p + 1, (size_t)(end - p - 1));
        p = end + 1;
    }
    return n;
}

void al_draw_page(struct al_draw *d, struct al_rect r, const struct al_buf *page) {
    char text[1024], more[AL_TXT];
    int total = count_lines(d, page), skip, row = 0;
    int past = total - r.h;
    d->ui->list_lines = past > 0 ? past + 1 : 1;
    if (d->ui->list_scroll > d->ui->list_lines - 1)
        d->ui->list_scroll = d->ui->list_lines - 1;
    skip = d->ui->list_scroll;
    for (const char *p = page->data; p && *p && row < r.h;) {
        const char *end = strchr(p, '\n');
        if (!end)
            break;
        size_t len = (size_t)(end - p - 1);
        if (passes(d, p + 1, len) && skip-- <= 0) {
            (void)al_str_copy_n(text, sizeof text, p + 1, len);
            (void)al_grid_text(d->g, r.x, r.y + row++, r.w, (uint8_t)(*(const unsigned char *)p - 1), text);
        }
        p = end + 1;
    }
    if (total > r.h && r.h > 1) {
        (void)snprintf(more, sizeof more, " %d-%d of %d ", d->ui->list_scroll + 1, d->ui->list_scroll + row, total);
        int width = al_text_width(more);
        if (width < r.w)
            (void)al_grid_text(d->g, r.x + r.w - width, r.y + r.h - 1, width, AL_STYLE_REVERSE, more);
    }
    if (!total && r.h > 0)
        (void)al_grid_text(d->g, r.x, r.y, r.w, AL_STYLE_DIM, "nothing here matches");
}

static void pair(struct al_buf *page, int w, const char *label, const char *text) {
    if (*text)
        al_page_wrap(page, w, AL_INK_PLAIN, label, text);
}

// --- a GPU ---

void al_page_value(struct al_buf *page, const struct al_snapshot *s, const char *name, enum al_unit unit, struct al_value v,
                   const char *help) {
    char value[64], age[AL_TXT] = "", line[700];
    al_txt_long(value, sizeof value, unit, v);
    if (al_txt_has(v) && v.at_ns)
        al_txt_age(age, s->monotonic_ns - v.at_ns);
    const char *status = v.status == AL_STATUS_OK ? help : al_status_text(v.status);
    int pad = VALUE_W - al_text_width(value);
    (void)snprintf(line, sizeof line, "%-*s %*s%s %*s  %s", NAME_W, name, pad > 0 ? pad : 0, "", *value ? value : "", AGE_W, age, status);
    uint8_t style = v.status == AL_STATUS_OK ? AL_INK_PLAIN : v.status == AL_STATUS_STALE ? AL_INK_WARN
                    : v.status == AL_STATUS_UNSUPPORTED || v.status == AL_STATUS_UNREAD ? AL_STYLE_DIM : AL_INK_BAD;
    al_page_line(page, style, line);
}

static void gpu_identity(struct al_buf *page, int w, const struct al_snapshot *s, const struct al_gpu *g) {
    char text[160];
    pair(page, w, "name", g->info.name);
    pair(page, w, "UUID", g->info.uuid);
    pair(page, w, "PCI", g->info.pci_bus_id);
    pair(page, w, "serial", g->info.serial);
    (void)snprintf(text, sizeof text, "/dev/nvidia%u, index %u", g->info.minor, g->info.index);
    if (g->info.is_mig)
        (void)snprintf(text, sizeof text, "MIG %s, GPU instance %u, compute instance %u", g->info.mig_profile,
                       g->info.gpu_instance, g->info.compute_instance);
    pair(page, w, "device", text);
    if (g->info.status != AL_STATUS_OK)
        al_page_wrap(page, w, AL_INK_BAD | AL_STYLE_BOLD, "state", al_status_text(g->info.status));
    if (g->info.mig_enabled)
        pair(page, w, "MIG", "on: utilisation is told by its instances");
    if (g->info.unified_memory)
        pair(page, w, "memory", "unified: it is the host's memory");
    for (uint32_t i = 0; i < g->xid_count && i < AL_XID_CODES; i++) {
        char age[AL_TXT];
        al_txt_age(age, s->monotonic_ns - g->xid[i].last_ns);
        (void)snprintf(text, sizeof text, "%u, %u time%s, last %s ago", g->xid[i].code, g->xid[i].count,
                       g->xid[i].count == 1 ? "" : "s", age);
        al_page_wrap(page, w, AL_INK_BAD, "Xid", text);
    }
    char held[96];
    bool bad;
    al_txt_throttle(held, sizeof held, g->m[AL_GPU_THROTTLE], &bad);
    if (*held)
        al_page_wrap(page, w, bad ? AL_INK_WARN : AL_INK_PLAIN, "clocks held by", held);
}

void al_page_gpu(struct al_draw *d, int w, struct al_buf *page) {
    const struct al_snapshot *s = d->in->s;
    const struct al_gpu *g = s ? al_snapshot_gpu(s, d->ui->gpu_uuid) : NULL;
    char head[160];
    if (!g) {
        al_page_line(page, AL_INK_BAD, "this GPU is not there any more");
        return;
    }
    gpu_identity(page, w, s, g);
    (void)snprintf(head, sizeof head, "%-*s %*s %*s  %s", NAME_W, "metric", VALUE_W, "value", AGE_W, "age", "meaning, or why there is no value");
    al_page_line(page, AL_STYLE_BOLD | AL_STYLE_LINE, head);
    // What has a value first: the rest is long.
    for (int known = 1; known >= 0; known--)
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (al_txt_has(g->m[m]) == (known == 1))
                al_page_value(page, s, al_gpu_metrics[m].name, al_gpu_metrics[m].unit, g->m[m], al_gpu_metrics[m].help);
}

// --- a process ---

static void proc_identity(struct al_draw *d, int w, struct al_buf *page, const struct al_scene_proc *row) {
    const struct al_proc *p = row->p;
    char text[160];
    pair(page, w, "command", *p->command ? p->command : p->comm);
    pair(page, w, "user", p->user);
    (void)snprintf(text, sizeof text, "%d, parent %d, job %d", (int)p->pid, (int)p->ppid, (int)p->job);
    pair(page, w, "pid", text);
    (void)snprintf(text, sizeof text, "%s", al_role_word(p->role));
    if (p->rank >= 0)
        (void)snprintf(text, sizeof text, "%s, rank %d of %d, local rank %d", al_role_word(p->role), (int)p->rank,
                       (int)p->world_size, (int)p->local_rank);
    pair(page, w, "role", text);
    if (p->state) {
        (void)snprintf(text, sizeof text, "%c%s", p->state, p->state == 'D' ? " (waits for a device: cannot be killed now)"
                                                        : p->state == 'Z' ? " (ended, not waited for)" : "");
        pair(page, w, "state", text);
    }
    al_scene_gpus(d->in->s, row, text, sizeof text);
    pair(page, w, "GPUs", text);
    pair(page, w, "visible devices", p->visible_devices);
    pair(page, w, "container", p->container);
    pair(page, w, "pod", p->pod);
    pair(page, w, "Slurm job", p->slurm_job);
    pair(page, w, "cgroup", p->cgroup);
}

static void on_gpus(struct al_buf *page, const struct al_snapshot *s, pid_t pid) {
    static const struct {
        const char *name;
        enum al_unit unit;
        size_t offset;
    } rows[] = {
        {"memory_bytes", AL_UNIT_BYTES, offsetof(struct al_proc_gpu, memory_bytes)},
        {"sm_ratio", AL_UNIT_RATIO, offsetof(struct al_proc_gpu, sm_ratio)},
        {"memory_ratio", AL_UNIT_RATIO, offsetof(struct al_proc_gpu, memory_ratio)},
        {"encoder_ratio", AL_UNIT_RATIO, offsetof(struct al_proc_gpu, encoder_ratio)},
        {"decoder_ratio", AL_UNIT_RATIO, offsetof(struct al_proc_gpu, decoder_ratio)},
    };
    char label[AL_TXT], name[80];
    for (uint32_t i = 0; i < s->row_count; i++) {
        if (s->rows[i].pid != pid || s->rows[i].gpu >= s->gpu_count)
            continue;
        al_draw_gpu_label(s, &s->gpus[s->rows[i].gpu], label);
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            struct al_value v;
            memcpy(&v, (const char *)&s->rows[i] + rows[k].offset, sizeof v);
            (void)snprintf(name, sizeof name, "%s %s", label, rows[k].name);
            al_page_value(page, s, name, rows[k].unit, v, "");
        }
    }
}

void al_page_proc(struct al_draw *d, int w, struct al_buf *page) {
    const struct al_scene_proc *row = NULL;
    for (uint32_t i = 0; i < d->v->proc_count; i++)
        if (d->v->procs[i].pid == d->ui->pid && d->v->procs[i].pid > 0)
            row = &d->v->procs[i];
    if (!row) {
        al_page_line(page, AL_INK_BAD, "this process is gone");
        return;
    }
    if (row->p)
        proc_identity(d, w, page, row);
    else
        pair(page, w, "process", *row->driver_name ? row->driver_name : "only the driver knows it: another container or user");
    al_page_rank(d, w, page, row->rank);
    al_page_line(page, AL_INK_PLAIN, "");
    on_gpus(page, d->in->s, row->pid);
    for (int m = 0; row->p && m < AL_PROC_METRIC_COUNT; m++)
        al_page_value(page, d->in->s, al_proc_metric_table[m].name, al_proc_metric_table[m].unit, row->p->m[m], al_proc_metric_table[m].help);
    for (int m = 0; row->rank && m < AL_RANK_METRIC_COUNT; m++)
        if (m != AL_RANK_PHASE && (m < AL_RANK_SHARE_OTHER || m > AL_RANK_SHARE_BETWEEN))
            al_page_value(page, d->in->s, al_rank_metric_table[m].name, al_rank_metric_table[m].unit, row->rank->m[m],
                          al_rank_metric_table[m].help);
}

// --- a finding ---

void al_page_finding(struct al_draw *d, int w, struct al_buf *page) {
    const struct al_finding *f = NULL;
    char text[160], value[64];
    for (uint32_t i = 0; i < d->in->finding_count; i++)
        if (strcmp(d->in->findings[i].key, d->ui->finding_key) == 0)
            f = &d->in->findings[i];
    if (!f) {
        al_page_line(page, AL_INK_GOOD, "this finding is over");
        return;
    }
    (void)snprintf(text, sizeof text, "%s: %s", al_level_word(f->level), f->title);
    al_page_wrap(page, w, al_draw_level(f->level), "", text);
    al_page_wrap(page, w, AL_INK_PLAIN, "", f->message);
    al_page_line(page, AL_INK_PLAIN, "");
    pair(page, w, "do", f->advice);
    pair(page, w, "also considered", f->considered);
    pair(page, w, "confidence", al_confidence_word(f->confidence));
    if (d->in->s) {
        al_txt_age(value, d->in->s->monotonic_ns - f->began_ns);
        (void)snprintf(text, sizeof text, "%s ago", value);
        pair(page, w, "began", text);
    }
    if (f->pid) {
        (void)snprintf(text, sizeof text, "%d (job %d)", (int)f->pid, (int)f->job);
        pair(page, w, "process", text);
    }
    pair(page, w, "rule", f->rule);
    for (uint32_t i = 0; i < f->evidence_count && i < AL_EVIDENCE_MAX; i++) {
        const struct al_evidence *e = &f->evidence[i];
        al_txt_long(value, sizeof value, e->unit, al_value_ok(e->value, 0));
        (void)snprintf(text, sizeof text, "%s %s (%s)", e->name, value, e->source);
        pair(page, w, i ? " " : "evidence", text);
    }
}

// --- help ---

void al_page_help(struct al_draw *d, int w, struct al_buf *page) {
    static const char *const lines[][2] = {
        {"Tab", "next pane: findings, GPUs, processes (Shift-Tab back)"},
        {"arrows, PgUp, PgDn", "move; Home and End go to the ends; the wheel scrolls, a click chooses, a double click opens"},
        {"Enter", "details of what is chosen: every metric with its age, a process, a finding with its evidence"},
        {"Esc, q", "back; q on the main screen leaves"},
        {"/, F4", "filter processes: text, user:NAME, job:PID, gpu:N, rank:N; in details, find a line"},
        {"s, F6", "sort the processes by ...; a click on a column's title does it too"},
        {"M U P R T N", "sort by GPU memory, SM, CPU, host memory, time, pid; again, or I, turns the order round"},
        {"t, F5", "tree of launchers, ranks and workers, or a flat list"},
        {"w", "DataLoader workers one by one, or one row a rank"},
        {"k, F9", "send the chosen process a signal, after asking"},
        {"c", "charts on and off"},
        {"a, m", "charts of all GPUs, and of which metric"},
        {"[ ]", "shorter and longer time in the charts"},
        {"x", "process table on and off"},
        {"p", "pause the screen; sampling and findings go on"},
        {"+ -", "longer and shorter interval"},
        {"Ctrl-L", "draw the screen anew"},
    };
    (void)d;
    char label[64];
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        (void)snprintf(label, sizeof label, "%s", lines[i][0]);
        if (al_text_width(label) > 14) {
            al_page_line(page, AL_STYLE_BOLD, label);
            label[0] = ' ';
            label[1] = '\0';
        }
        al_page_wrap(page, w, AL_INK_PLAIN, label, lines[i][1]);
    }
    al_page_line(page, AL_INK_PLAIN, "");
    al_page_wrap(page, w, AL_INK_PLAIN, "97%~", "a value that is old: its age stands in the row and in the details");
    al_page_wrap(page, w, AL_INK_PLAIN, "-", "not known; the details say why");
    al_page_wrap(page, w, AL_INK_PLAIN, "sizes", "K M G T are powers of 1024; rates are powers of 1000");
    al_page_wrap(page, w, AL_INK_PLAIN, "SM%", "of a process: on its busiest GPU; CPU%: 100 is one core");
    al_page_wrap(page, w, AL_INK_PLAIN, "host mem", "resident memory; of folded workers the private part only");
    al_page_wrap(page, w, AL_INK_PLAIN, "step, phase", "of ranks that an alula run watches; steps/s and data% (waiting for data) over the last 32 steps");
    al_page_wrap(page, w, AL_INK_PLAIN, "utilisation", "time in which any kernel ran; SM: how much of the chip was at work");
}
