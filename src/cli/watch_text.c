// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"

// From this many GPUs on, a tick is told in short columns so that the line stays readable.
#define SHORT_FROM 3

#define GIB 1073741824.0

#define RED "\033[31m"
#define YELLOW "\033[33m"
#define GREEN "\033[32m"
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RESET "\033[0m"

static void clock_time(struct al_buf *b, int64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm t = {0};
    (void)localtime_r(&seconds, &t);
    al_buf_printf(b, "%02d:%02d:%02d.%d", t.tm_hour, t.tm_min, t.tm_sec, (int)(realtime_ns / 100000000 % 10));
}

static void percent(struct al_buf *b, struct al_value v, int width) {
    if (v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE)
        al_buf_printf(b, "%*.0f %%%s", width, v.num * 100, v.status == AL_STATUS_STALE ? "?" : "");
    else
        al_buf_printf(b, "%*s %%", width, "-");
}

static void field(struct al_buf *b, const char *format, struct al_value v, double scale) {
    if (al_ok(v))
        al_buf_printf(b, format, v.num * scale);
}

static void memory(struct al_buf *b, const struct al_gpu *g) {
    struct al_value used = g->m[AL_GPU_MEM_USED], total = g->m[AL_GPU_MEM_TOTAL];
    if (!al_ok(used) || !al_ok(total)) {
        al_buf_str(b, "  memory -");
        return;
    }
    char has[32], of[32]; // as wide as the total, so that columns stay where they are
    (void)al_fmt_fixed(has, sizeof has, used.num / GIB, 1);
    (void)al_fmt_fixed(of, sizeof of, total.num / GIB, 1);
    al_buf_printf(b, "  %*s/%s GiB", (int)strlen(of), has, of);
}

static struct al_value utilization(const struct al_gpu *g) {
    return al_ok(g->m[AL_GPU_UTIL_MEAN]) || !al_ok(g->m[AL_GPU_UTIL]) ? g->m[AL_GPU_UTIL_MEAN] : g->m[AL_GPU_UTIL];
}

static const char *gpu_color(const struct al_gpu *g) {
    struct al_value u = utilization(g);
    if (g->info.status != AL_STATUS_OK)
        return RED;
    return !al_ok(u) ? DIM : u.num < 0.2 ? YELLOW : GREEN;
}

static void name(struct al_buf *b, const struct al_snapshot *s, const struct al_gpu *g) {
    if (g->info.is_mig && g->info.parent >= 0 && (uint32_t)g->info.parent < s->gpu_count)
        al_buf_printf(b, "%u:%s", s->gpus[g->info.parent].info.index, g->info.mig_profile);
    else
        al_buf_printf(b, "%u", g->info.index);
}

static void long_gpu(struct al_buf *b, const struct al_snapshot *s, const struct al_gpu *g) {
    al_buf_str(b, "  GPU ");
    name(b, s, g);
    if (g->info.status != AL_STATUS_OK) {
        al_buf_printf(b, "  %s", al_status_text(g->info.status));
        return;
    }
    al_buf_char(b, ' ');
    percent(b, utilization(g), 4);
    memory(b, g);
    field(b, "  %3.0f W", g->m[AL_GPU_POWER], 1);
    field(b, "  %2.0f C", g->m[AL_GPU_TEMP], 1);
    field(b, "  %4.0f MHz", g->m[AL_GPU_CLOCK_SM], 1e-6);
    field(b, "  SM %3.0f %%", g->m[AL_GPU_GPM_SM], 100);
    field(b, "  tensor %3.0f %%", g->m[AL_GPU_GPM_TENSOR], 100);
    field(b, "  DRAM %3.0f %%", g->m[AL_GPU_GPM_DRAM], 100);
}

static void short_gpu(struct al_buf *b, const struct al_snapshot *s, const struct al_gpu *g) {
    struct al_value used = g->m[AL_GPU_MEM_USED], total = g->m[AL_GPU_MEM_TOTAL], u = utilization(g);
    al_buf_str(b, "  ");
    name(b, s, g);
    if (g->info.status != AL_STATUS_OK) {
        al_buf_printf(b, ":%s", al_status_word(g->info.status));
        return;
    }
    if (al_ok(u))
        al_buf_printf(b, ":%.0f%%", u.num * 100);
    else
        al_buf_str(b, ":-");
    if (al_ok(used) && al_ok(total) && total.num > 0)
        al_buf_printf(b, "/%.0f%%", used.num / total.num * 100);
}

void al_watch_tick_line(struct al_buf *b, const struct al_snapshot *s, bool color) {
    clock_time(b, s->realtime_ns);
    if (s->gpu_count >= SHORT_FROM)
        al_buf_str(b, "  GPU:util/memory");
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu *g = &s->gpus[i];
        if (color)
            al_buf_str(b, gpu_color(g));
        if (s->gpu_count < SHORT_FROM)
            long_gpu(b, s, g);
        else
            short_gpu(b, s, g);
        if (color)
            al_buf_str(b, RESET);
    }
    if (s->rows && s->row_count)
        al_buf_printf(b, "  %u process%s", s->row_count, s->row_count == 1 ? "" : "es");
    if (*s->hung_call)
        al_buf_printf(b, "  [%s has not answered for %.0f s]", s->hung_call,
                      (double)(s->monotonic_ns - s->hung_since_ns) / 1e9);
    al_buf_char(b, '\n');
}

static const char *level_color(enum al_level level) {
    return level == AL_LEVEL_CRITICAL ? RED BOLD : level == AL_LEVEL_WARNING ? YELLOW BOLD : BOLD;
}

static void detail(struct al_buf *b, const char *word, const char *what) {
    if (!*what)
        return;
    al_buf_printf(b, "    %s", word);
    al_term_string(b, what);
    al_buf_char(b, '\n');
}

void al_watch_finding_lines(struct al_buf *b, const struct al_snapshot *s, const struct al_finding *f, bool whole,
                            bool color) {
    clock_time(b, s->realtime_ns);
    if (color)
        al_buf_str(b, f->phase == AL_PHASE_ENDED ? GREEN : level_color(f->level));
    if (f->phase == AL_PHASE_ENDED) {
        char lasted[32];
        (void)al_fmt_duration(lasted, sizeof lasted, (double)(f->ended_ns - f->began_ns) / 1e9);
        al_buf_printf(b, "  over: %s, lasted %s", f->title, lasted);
    } else {
        al_buf_printf(b, "  %s: %s", al_level_word(f->level), f->title);
    }
    if (color)
        al_buf_str(b, RESET);
    if (f->phase == AL_PHASE_ENDED) {
        if (f->gpu_index >= 0)
            al_buf_printf(b, " (GPU %d)", f->gpu_index);
        al_buf_char(b, '\n');
        return;
    }
    al_buf_str(b, " -- ");
    al_term_string(b, f->message);
    al_buf_printf(b, " [confidence %s]\n", al_confidence_word(f->confidence));
    if (!whole)
        return;
    detail(b, "also considered: ", f->considered);
    detail(b, "do: ", f->advice);
}

bool al_watch_is_looked(const struct al_finding *f) {
    for (uint32_t i = 0; i < f->evidence_count; i++)
        if (strcmp(f->evidence[i].source, "stacks") == 0)
            return true;
    return false;
}
