// SPDX-License-Identifier: Apache-2.0
// What stands around the tables: title, machine, findings, status line.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "tui/draw.h"

static void clock_text(char out[AL_TXT], int64_t realtime_ns) {
    time_t seconds = (time_t)(realtime_ns / AL_NS_PER_S);
    struct tm t = {0};
    (void)localtime_r(&seconds, &t);
    (void)snprintf(out, AL_TXT, "%02d:%02d:%02d", t.tm_hour, t.tm_min, t.tm_sec);
}

static void gpus_text(const struct al_snapshot *s, char *out, size_t size) {
    uint32_t boards = 0;
    const struct al_gpu *first = NULL;
    for (uint32_t i = 0; i < s->gpu_count; i++)
        if (!s->gpus[i].info.is_mig) {
            first = first ? first : &s->gpus[i];
            boards++;
        }
    if (boards)
        (void)snprintf(out, size, "%u × %s", boards, first->info.name);
    else
        (void)snprintf(out, size, "%u GPUs", s->gpu_count);
}

static void title_text(const struct al_draw *d, char *out, size_t size) {
    const struct al_snapshot *s = d->in->s;
    char gpus[160];
    if (!s) {
        (void)snprintf(out, size, "alula");
        return;
    }
    gpus_text(s, gpus, sizeof gpus);
    (void)snprintf(out, size, "alula  %s  %s%s%s%s%s", s->node.hostname, gpus, *s->node.driver_version ? "  driver " : "",
                   s->node.driver_version, *s->node.cuda_version ? "  CUDA " : "", s->node.cuda_version);
}

static void right_text(const struct al_draw *d, char *out, size_t size) {
    char now[AL_TXT] = "", every[AL_TXT];
    if (d->in->s)
        clock_text(now, d->in->s->realtime_ns);
    (void)al_fmt_duration(every, sizeof every, (double)d->ui->interval_ns / (double)AL_NS_PER_S);
    (void)snprintf(out, size, "%s%severy %s  %s", d->in->source, *d->in->source ? "  " : "", every, now);
}

static int labelled(struct al_draw *d, int x, int y, int end, const char *label, uint8_t style, const char *text) {
    // A figure that would be cut is left out: half a number is a wrong one.
    if (x + al_text_width(label) + 1 + al_text_width(text) > end)
        return x;
    x += al_grid_text(d->g, x, y, end - x, AL_STYLE_DIM, label) + 1;
    x += al_grid_text(d->g, x, y, end - x, style, text);
    return x + 2;
}

static int bar_part(struct al_draw *d, int x, int y, int end, const char *label, double ratio, const char *text, uint8_t style) {
    int bar = end >= 100 ? 10 : 6;
    if (x + al_text_width(label) + bar + 2 + al_text_width(text) > end)
        return labelled(d, x, y, end, label, style, text);
    x += al_grid_text(d->g, x, y, end - x, AL_STYLE_DIM, label) + 1;
    al_grid_bar(d->g, x, y, bar, ratio, style);
    x += bar + 1;
    return x + al_grid_text(d->g, x, y, end - x, style, text) + 2;
}

static int pressure_part(struct al_draw *d, int x, int y, int end) {
    static const struct {
        enum al_node_metric metric;
        const char *label;
    } parts[] = {{AL_NODE_PSI_CPU, "CPU"}, {AL_NODE_PSI_MEM, "memory"}, {AL_NODE_PSI_IO, "I/O"}};
    char all[AL_TXT * 4] = "", text[AL_TXT];
    bool high = false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct al_value v = d->in->s->node.m[parts[i].metric];
        if (!al_txt_has(v))
            continue;
        size_t len = strlen(all);
        al_txt_short(text, AL_UNIT_RATIO, v);
        (void)snprintf(all + len, sizeof all - len, "%s%s %s", len ? " " : "", parts[i].label, text);
        high |= v.num >= 0.1;
    }
    return *all ? labelled(d, x, y, end, "pressure", high ? AL_INK_WARN : AL_INK_PLAIN, all) : x;
}

static int rate_part(struct al_draw *d, int x, int y, int end, const char *label, enum al_node_metric a, enum al_node_metric b) {
    char one[AL_TXT], two[AL_TXT], text[AL_TXT * 3];
    const struct al_value *m = d->in->s->node.m;
    if (!al_txt_has(m[a]) && !al_txt_has(m[b]))
        return x;
    al_txt_short(one, AL_UNIT_BYTES_PER_SECOND, m[a]);
    al_txt_short(two, AL_UNIT_BYTES_PER_SECOND, m[b]);
    (void)snprintf(text, sizeof text, "%s %s", one, two);
    return labelled(d, x, y, end, label, AL_INK_PLAIN, text);
}

static void machine_line(struct al_draw *d, int x, int y, int w) {
    const struct al_value *m = d->in->s->node.m;
    char text[AL_TXT], load[AL_TXT];
    int end = x + w;
    if (al_txt_has(m[AL_NODE_CPU])) {
        al_txt_short(text, AL_UNIT_RATIO, m[AL_NODE_CPU]);
        x = bar_part(d, x, y, end, "CPU", m[AL_NODE_CPU].num, text, AL_INK_PLAIN);
    }
    if (al_txt_has(m[AL_NODE_LOAD1])) {
        (void)al_fmt_fixed(load, sizeof load, m[AL_NODE_LOAD1].num, 1);
        x = labelled(d, x, y, end, "load", AL_INK_PLAIN, load);
    }
    if (al_txt_has(m[AL_NODE_MEM_TOTAL]) && al_txt_has(m[AL_NODE_MEM_AVAILABLE]) && m[AL_NODE_MEM_TOTAL].num > 0) {
        struct al_value used = m[AL_NODE_MEM_TOTAL];
        used.num -= m[AL_NODE_MEM_AVAILABLE].num;
        al_txt_of(text, AL_UNIT_BYTES, used, m[AL_NODE_MEM_TOTAL]);
        double share = used.num / m[AL_NODE_MEM_TOTAL].num;
        x = bar_part(d, x, y, end, "host memory", share, text, share >= 0.9 ? al_draw_memory_style(share) : AL_INK_PLAIN);
    }
    if (al_txt_has(m[AL_NODE_SWAP_USED]) && m[AL_NODE_SWAP_USED].num > 0) {
        al_txt_short(text, AL_UNIT_BYTES, m[AL_NODE_SWAP_USED]);
        x = labelled(d, x, y, end, "swap", AL_INK_WARN, text);
    }
    x = pressure_part(d, x, y, end);
    x = rate_part(d, x, y, end, "disk r/w", AL_NODE_DISK_READ, AL_NODE_DISK_WRITE);
    (void)rate_part(d, x, y, end, "net in/out", AL_NODE_NET_RX, AL_NODE_NET_TX);
}

static void page_title(const struct al_draw *d, char *out, size_t size) {
    const struct al_snapshot *s = d->in->s;
    const struct al_gpu *g = s ? al_snapshot_gpu(s, d->ui->gpu_uuid) : NULL;
    char label[AL_TXT] = "GPU";
    switch (d->ui->screen) {
    case AL_SCREEN_GPU:
        if (g)
            al_draw_gpu_label(s, g, label);
        (void)snprintf(out, size, "%s  %s", label, g ? g->info.name : "is not there any more");
        break;
    case AL_SCREEN_PROC: (void)snprintf(out, size, "process %d", (int)d->ui->pid); break;
    case AL_SCREEN_FINDING: (void)snprintf(out, size, "finding"); break;
    default: (void)snprintf(out, size, "help"); break;
    }
}

void al_draw_header(struct al_draw *d, struct al_rect r) {
    char left[400], right[256];
    if (r.h < 1)
        return;
    if (d->ui->screen == AL_SCREEN_MAIN)
        title_text(d, left, sizeof left);
    else
        page_title(d, left, sizeof left);
    right_text(d, right, sizeof right);
    al_grid_fill(d->g, (struct al_rect){r.x, r.y, r.w, 1}, ' ', AL_STYLE_REVERSE);
    int right_w = al_text_width(right), left_w = al_text_width(left);
    bool both = left_w + right_w + 3 <= r.w || r.w >= 60;
    if (both)
        (void)al_grid_text(d->g, r.x + r.w - right_w - 1, r.y, right_w, AL_STYLE_REVERSE, right);
    (void)al_grid_text(d->g, r.x + (r.w > 2), r.y, r.w - (both ? right_w + 3 : 1), AL_STYLE_REVERSE | AL_STYLE_BOLD, left);
    if (r.h > 1 && d->in->s)
        machine_line(d, r.x, r.y + 1, r.w);
}

// --- findings ---

uint8_t al_draw_level(enum al_level level) {
    return level == AL_LEVEL_CRITICAL  ? AL_INK_BAD | AL_STYLE_BOLD
           : level == AL_LEVEL_WARNING ? AL_INK_WARN | AL_STYLE_BOLD
                                       : AL_INK_COOL;
}

static bool silent(const struct al_scene_in *in) {
    int64_t limit = in->s ? 2 * in->s->interval_ns + AL_NS_PER_S : 2 * AL_NS_PER_S;
    return !in->ended && in->silent_ns > limit;
}

bool al_draw_hung(const struct al_scene_in *in) {
    return silent(in) || (in->s && *in->s->hung_call);
}

static void hung_text(const struct al_scene_in *in, char *out, size_t size) {
    char age[AL_TXT];
    if (in->s && *in->s->hung_call) {
        al_txt_age(age, in->s->monotonic_ns - in->s->hung_since_ns + (silent(in) ? in->silent_ns : 0));
        (void)snprintf(out, size, "the driver hangs: %s has not answered for %s; figures marked ~ are from before",
                       in->s->hung_call, age);
        return;
    }
    al_txt_age(age, in->silent_ns);
    (void)snprintf(out, size, in->s ? "no reading for %s: all figures are from before" : "no reading yet after %s", age);
}

static void finding_line(struct al_draw *d, struct al_rect r, const struct al_finding *f, bool chosen, const char *more) {
    uint8_t over = chosen ? AL_STYLE_REVERSE : 0;
    int used = 0, end = r.w - (*more ? al_text_width(more) + 1 : 0);
    char where[AL_TXT + 16] = "";
    if (f->gpu_index >= 0)
        (void)snprintf(where, sizeof where, "GPU %d ", (int)f->gpu_index);
    if (chosen)
        al_grid_fill(d->g, r, ' ', over);
    // Without colours the level has to be read.
    const char *word = r.w >= 60 || !d->color ? al_level_word(f->level) : "●";
    used += al_grid_text(d->g, r.x, r.y, end, (uint8_t)(al_draw_level(f->level) | over), word) + 1;
    used += al_grid_text(d->g, r.x + used, r.y, end - used, (uint8_t)(AL_STYLE_BOLD | over), where);
    used += al_grid_text(d->g, r.x + used, r.y, end - used, (uint8_t)(AL_STYLE_BOLD | over), f->title);
    used += al_grid_text(d->g, r.x + used, r.y, end - used, over, ": ");
    // Many messages begin with the GPU that was just named.
    size_t named = strlen(where) ? strlen(where) - 1 : 0;
    const char *message = f->message;
    if (named && strncmp(message, where, named) == 0 && message[named] == ':')
        message += named + 1 + (message[named + 1] == ' ');
    (void)al_grid_text(d->g, r.x + used, r.y, end - used, over, message);
    if (*more)
        (void)al_grid_text_right(d->g, r.x, r.y, r.w, AL_STYLE_DIM, more);
}

void al_draw_findings(struct al_draw *d, struct al_rect r) {
    char text[256], more[AL_TXT] = "";
    if (r.h < 1)
        return;
    if (al_draw_hung(d->in)) {
        hung_text(d->in, text, sizeof text);
        (void)al_grid_text(d->g, r.x, r.y, r.w, AL_INK_BAD | AL_STYLE_BOLD, text);
        r.y++;
        r.h--;
    } else if (!d->in->finding_count) {
        (void)al_grid_text(d->g, r.x, r.y, r.w, AL_INK_GOOD, d->in->s ? "✓ nothing found" : "");
    }
    for (int i = 0; i < r.h && i + d->ui->finding_scroll < (int)d->in->finding_count; i++) {
        int at = i + d->ui->finding_scroll, below = (int)d->in->finding_count - at - 1;
        if (i == r.h - 1 && below > 0)
            (void)snprintf(more, sizeof more, "+%d more", below);
        finding_line(d, (struct al_rect){r.x, r.y + i, r.w, 1}, &d->in->findings[at],
                     d->ui->focus == AL_FOCUS_FINDINGS && at == d->ui->finding, more);
    }
}

// --- status ---

static const char *const main_hints[] = {"F1", "help", "Tab", "pane", "Enter", "details", "/", "filter", "s", "sort", "t", "tree",
                                         "k", "signal", "c", "charts", "p", "pause", "+-", "interval", "q", "quit", NULL};
static const char *const page_hints[] = {"Esc", "back", "Up/Down", "scroll", "/", "find", "k", "signal", "[ ]", "time span", "F1", "help", NULL};

void al_draw_status(struct al_draw *d, struct al_rect r) {
    int x = r.x, end = r.x + r.w;
    if (r.h < 1)
        return;
    if (d->ui->paused)
        x += al_grid_text(d->g, x, r.y, end - x, AL_STYLE_REVERSE | AL_INK_WARN, " PAUSED ") + 1;
    if (d->in->ended)
        x += al_grid_text(d->g, x, r.y, end - x, AL_STYLE_BOLD, "end of the recording") + 2;
    if (d->ui->prompt == AL_PROMPT_FILTER) {
        x += al_grid_text(d->g, x, r.y, end - x, AL_STYLE_BOLD, "filter: ");
        x += al_grid_text(d->g, x, r.y, end - x - 1, AL_INK_PLAIN, d->ui->typed);
        al_grid_put(d->g, x, r.y, ' ', AL_STYLE_REVERSE);
        (void)al_grid_text(d->g, x + 2, r.y, end - x - 2, AL_STYLE_DIM, "words, user: job: gpu: rank:   Enter keeps, Esc clears");
        return;
    }
    if (d->ui->message[0]) {
        (void)al_grid_text(d->g, x, r.y, end - x, d->ui->message_bad ? AL_INK_BAD | AL_STYLE_BOLD : AL_INK_GOOD, d->ui->message);
        return;
    }
    const char *filter = d->ui->screen == AL_SCREEN_MAIN ? d->ui->filter : d->ui->list_filter;
    if (*filter) {
        x += al_grid_text(d->g, x, r.y, end - x, AL_INK_WARN | AL_STYLE_BOLD, "filter: ");
        x += al_grid_text(d->g, x, r.y, end - x, AL_INK_WARN, filter) + 2;
    }
    for (const char *const *hint = d->ui->screen == AL_SCREEN_MAIN ? main_hints : page_hints; *hint; hint += 2) {
        if (x + al_text_width(hint[0]) + al_text_width(hint[1]) + 1 > end)
            break;
        x += al_grid_text(d->g, x, r.y, end - x, AL_STYLE_BOLD | AL_INK_COOL, hint[0]) + 1;
        x += al_grid_text(d->g, x, r.y, end - x, AL_INK_PLAIN, hint[1]) + 2;
    }
}
