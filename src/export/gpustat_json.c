// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "export/gpustat_rows.h"
#include "export/json.h"

// A line with a comma behind the one before, `depth` levels in.
static void new_line(struct al_buf *b, bool first, size_t depth) {
    al_buf_str(b, first ? "\n" : ",\n");
    al_buf_pad(b, ' ', 4 * depth);
}

static void add_key(struct al_buf *b, bool first, size_t depth, const char *key) {
    new_line(b, first, depth);
    al_json_ascii(b, key);
    al_buf_str(b, ": ");
}

static void add_text(struct al_buf *b, const char *text) {
    if (text[0])
        al_json_ascii(b, text);
    else
        al_buf_str(b, "null");
}

static void add_cell(struct al_buf *b, struct al_gpustat_cell c) {
    if (c.known)
        al_buf_printf(b, "%lld", c.num);
    else
        al_buf_str(b, "null");
}

static void add_part(struct al_buf *b, const char *text, size_t len) {
    char part[AL_CMD_MAX];
    size_t n = len < sizeof part ? len : sizeof part - 1;
    memcpy(part, text, n);
    part[n] = '\0';
    al_json_ascii(b, part);
}

// The command's words; a blank inside an argument cannot be told from one between two.
static void add_full_command(struct al_buf *b, const struct al_gpustat_process *p, size_t depth) {
    const char *c = p->command;
    bool first = true;
    al_buf_char(b, '[');
    do {
        size_t len = strcspn(c, " ");
        new_line(b, first, depth + 1);
        if (first && !*c)
            al_json_ascii(b, "?");
        else
            add_part(b, c, len);
        c += len;
        first = false;
    } while (*c++);
    al_buf_char(b, '\n');
    al_buf_pad(b, ' ', 4 * depth);
    al_buf_char(b, ']');
}

static void add_host_figures(struct al_buf *b, const struct al_proc *proc, size_t depth) {
    struct al_value none = al_value_none(AL_STATUS_UNREAD);
    struct al_value cpu = proc ? proc->m[AL_PROC_CPU] : none, rss = proc ? proc->m[AL_PROC_RSS] : none;
    add_key(b, false, depth, "cpu_percent");
    if (al_ok(cpu))
        al_buf_fixed(b, cpu.num * 100, 1);
    else
        al_buf_str(b, "null");
    add_key(b, false, depth, "cpu_memory_usage");
    add_cell(b, (struct al_gpustat_cell){al_ok(rss), (long long)rss.num});
}

static void add_process(struct al_buf *b, const struct al_gpustat_options *o, const struct al_gpustat_process *p,
                        size_t depth) {
    al_buf_char(b, '{');
    add_key(b, true, depth + 1, "username");
    add_text(b, p->proc ? p->proc->user : "");
    add_key(b, false, depth + 1, "command");
    if (p->name_len)
        add_part(b, p->command + p->path_len, p->name_len);
    else
        al_json_ascii(b, "?");
    add_key(b, false, depth + 1, "full_command");
    add_full_command(b, p, depth + 1);
    add_key(b, false, depth + 1, "gpu_memory_usage");
    add_cell(b, p->mib);
    add_host_figures(b, p->proc, depth + 1);
    add_key(b, false, depth + 1, "pid");
    al_buf_printf(b, "%d", (int)p->row->pid);
    if (o->roles) {
        add_key(b, false, depth + 1, "role");
        add_text(b, p->proc && p->proc->role != AL_ROLE_UNKNOWN ? al_role_word(p->proc->role) : "");
        add_key(b, false, depth + 1, "rank");
        add_cell(b, (struct al_gpustat_cell){p->proc && p->proc->rank >= 0, p->proc ? p->proc->rank : 0});
    }
    new_line(b, true, depth);
    al_buf_char(b, '}');
}

static void add_processes(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o,
                          const struct al_gpu *gpu) {
    struct al_gpustat_process process;
    struct al_gpustat_list list;
    uint32_t cursor = 0;
    bool first = true;
    if (al_gpustat_lost(gpu) || gpu->process_status != AL_STATUS_OK) {
        al_buf_str(b, "null");
        return;
    }
    b->failed |= !al_gpustat_list(s, o, gpu, &list);
    al_buf_char(b, '[');
    for (; al_gpustat_next_process(s, o, &list, &cursor, &process); first = false) {
        new_line(b, first, 4);
        add_process(b, o, &process, 4);
    }
    if (!first)
        new_line(b, true, 3);
    al_buf_char(b, ']');
    free(list.rows);
}

static void add_gpu(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o,
                    const struct al_gpu *gpu) {
    const char *lost = al_gpustat_lost(gpu);
    int32_t parent = gpu->info.is_mig ? gpu->info.parent : -1;
    al_buf_char(b, '{');
    add_key(b, true, 3, "index");
    al_buf_printf(b, "%u", parent >= 0 && (uint32_t)parent < s->gpu_count ? s->gpus[parent].info.index
                                                                          : gpu->info.index);
    if (!lost) {
        add_key(b, false, 3, "uuid");
        add_text(b, gpu->info.uuid);
    }
    add_key(b, false, 3, "name");
    al_json_ascii(b, lost ? lost : gpu->info.name);
    for (int f = 0; f < AL_GPUSTAT_FIGURES && !lost; f++) {
        add_key(b, false, 3, al_gpustat_keys[f]);
        add_cell(b, al_gpustat_figure(gpu, (enum al_gpustat_figure)f));
    }
    add_key(b, false, 3, "processes");
    add_processes(b, s, o, gpu);
    new_line(b, true, 2);
    al_buf_char(b, '}');
}

// Local time without a zone, as gpustat has it; microseconds are left out when they are 0.
static void add_time(struct al_buf *b, int64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / AL_NS_PER_S);
    int micros = (int)(realtime_ns % AL_NS_PER_S / 1000);
    struct tm tm = {0};
    (void)localtime_r(&seconds, &tm);
    al_buf_printf(b, "\"%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour,
                  tm.tm_min, tm.tm_sec);
    if (micros > 0)
        al_buf_printf(b, ".%06d", micros);
    al_buf_char(b, '"');
}

void al_gpustat_json(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o) {
    const struct al_gpu *gpu;
    uint32_t cursor = 0;
    bool first = true;
    al_buf_char(b, '{');
    add_key(b, true, 1, "hostname");
    add_text(b, s->node.hostname);
    add_key(b, false, 1, "driver_version");
    add_text(b, s->node.driver_version);
    add_key(b, false, 1, "query_time");
    add_time(b, s->realtime_ns);
    add_key(b, false, 1, "gpus");
    al_buf_char(b, '[');
    for (; (gpu = al_gpustat_next_gpu(s, o, &cursor)); first = false) {
        new_line(b, first, 2);
        add_gpu(b, s, o, gpu);
    }
    if (!first)
        new_line(b, true, 1);
    al_buf_str(b, "]\n}\n");
}
