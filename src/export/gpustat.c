// SPDX-License-Identifier: Apache-2.0
#include "export/gpustat.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "export/gpustat_rows.h"

enum paint {
    NORMAL, CYAN, BOLD, BLUE, RED, BOLD_RED, BOLD_CYAN, YELLOW, BOLD_YELLOW, BOLD_BLACK, GREEN, BOLD_GREEN, MAGENTA,
    BOLD_MAGENTA, BOLD_WHITE, COMMAND, PAINTS
};

static const char *const sequences[PAINTS] = {
    [NORMAL] = "\033(B\033[m",          [CYAN] = "\033[36m",           [BOLD] = "\033[1m",
    [BLUE] = "\033[34m",                [RED] = "\033[31m",            [BOLD_RED] = "\033[1m\033[31m",
    [BOLD_CYAN] = "\033[1m\033[36m",    [YELLOW] = "\033[33m",         [BOLD_YELLOW] = "\033[1m\033[33m",
    [BOLD_BLACK] = "\033[1m\033[30m",   [GREEN] = "\033[32m",          [BOLD_GREEN] = "\033[1m\033[32m",
    [MAGENTA] = "\033[35m",             [BOLD_MAGENTA] = "\033[1m\033[35m", [BOLD_WHITE] = "\033[1m\033[37m",
    [COMMAND] = "\033[38;5;24m",
};

struct printer {
    struct al_buf *b;
    const struct al_snapshot *s;
    const struct al_gpustat_options *o;
    const char *eol;
    size_t name_width;
};

static void paint(const struct printer *p, enum paint color) {
    if (p->o->color == AL_GPUSTAT_PLAIN)
        return;
    if (color == NORMAL && p->o->color == AL_GPUSTAT_FORCED_COLOR)
        al_buf_str(p->b, "\033[0;10m");
    else if (color == COMMAND && !p->o->deep_colors)
        al_buf_str(p->b, sequences[BLUE]);
    else
        al_buf_str(p->b, sequences[color]);
}

// Bytes of others: cleaned of control characters, and of UTF-8 where the terminal takes none.
static void add_text(const struct printer *p, const char *text, size_t len) {
    char part[AL_CMD_MAX];
    size_t from = p->b->len;
    (void)al_str_copy_n(part, sizeof part, text, len);
    al_term_string(p->b, part);
    if (!p->o->ascii || p->b->failed)
        return;
    size_t to = from;
    for (size_t i = from; i < p->b->len; i++) {
        unsigned char c = (unsigned char)p->b->data[i];
        if (c < 0x80 || c >= 0xc0)
            p->b->data[to++] = c < 0x80 ? (char)c : '?';
    }
    p->b->len = to;
    p->b->data[to] = '\0';
}

static void add_string(const struct printer *p, const char *text) {
    add_text(p, text, strlen(text));
}

static void painted(const struct printer *p, enum paint color, const char *text) {
    paint(p, color);
    add_string(p, text);
    paint(p, NORMAL);
}

static size_t count_chars(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

// `text` in `width` columns: filled up on the right, or cut on the left with an ellipsis.
static void add_name(const struct printer *p, const char *text, size_t width) {
    struct al_buf clean = AL_BUF_INIT;
    struct printer to_clean = {&clean, p->s, p->o, NULL, 0};
    add_string(&to_clean, text);
    const char *c = clean.data ? clean.data : "";
    size_t len = count_chars(c), dots = p->o->ascii ? 3 : 1;
    if (len > width) {
        if (p->o->ascii)
            al_buf_add(p->b, "...", width < dots ? width : dots);
        else
            al_buf_str(p->b, "…");
        for (size_t skip = width > dots ? len - (width - dots) : len; skip && *c; skip--)
            do
                c++;
            while (((unsigned char)*c & 0xc0) == 0x80);
    }
    al_buf_str(p->b, c);
    al_buf_pad(p->b, ' ', len < width ? width - len : 0);
    p->b->failed |= clean.failed;
    al_buf_free(&clean);
}

// What a figure looks like: its colour below and from a limit on, and how it is written.
static enum paint graded(struct al_gpustat_cell c, long long limit, enum paint low, enum paint high) {
    return !c.known ? BOLD_BLACK : c.num < limit ? low : high;
}

static void figure(const struct printer *p, const struct al_gpu *gpu, struct al_gpustat_cell c, int width,
                   enum paint color, const char *unit) {
    paint(p, color);
    if (c.known)
        al_buf_printf(p->b, "%*lld", width, c.num);
    else
        al_buf_printf(p->b, "%*s", width, al_gpustat_lost(gpu) ? "?" : "??");
    al_buf_str(p->b, unit);
    paint(p, NORMAL);
}

static struct al_gpustat_cell get(const struct al_gpu *gpu, enum al_gpustat_figure f) {
    return al_gpustat_lost(gpu) ? (struct al_gpustat_cell){false, 0} : al_gpustat_figure(gpu, f);
}

static void add_codec(const struct printer *p, const struct al_gpu *gpu) {
    const struct { bool shown; const char *label; enum al_gpustat_figure f; } parts[] = {
        {p->o->show_enc, "E: ", AL_GPUSTAT_ENC}, {p->o->show_dec, "D: ", AL_GPUSTAT_DEC}};
    const char *before = " (";
    for (size_t i = 0; i < 2; i++) {
        if (!parts[i].shown)
            continue;
        struct al_gpustat_cell c = get(gpu, parts[i].f);
        al_buf_str(p->b, before);
        painted(p, BOLD, parts[i].label);
        figure(p, gpu, c, 3, graded(c, 50, GREEN, BOLD_GREEN), " %");
        before = "  ";
    }
    if (p->o->show_enc || p->o->show_dec)
        al_buf_char(p->b, ')');
}

static void add_power(const struct printer *p, const struct al_gpu *gpu) {
    struct al_gpustat_cell draw = get(gpu, AL_GPUSTAT_POWER), limit = get(gpu, AL_GPUSTAT_LIMIT);
    enum paint color = BOLD_MAGENTA;
    if (al_gpustat_lost(gpu) || (limit.known && (!draw.known || !limit.num)))
        color = BOLD_BLACK;
    else if (limit.known && (double)draw.num / (double)limit.num < 0.4)
        color = MAGENTA;
    al_buf_str(p->b, ",  ");
    figure(p, gpu, draw, 3, color, "");
    al_buf_char(p->b, ' ');
    if (p->o->show_power_limit) {
        al_buf_str(p->b, "/ ");
        figure(p, gpu, limit, 3, MAGENTA, "");
        al_buf_char(p->b, ' ');
        color = MAGENTA;
    }
    painted(p, color, "W");
}

static void add_index(const struct printer *p, const struct al_gpu *gpu) {
    int32_t parent = gpu->info.parent;
    paint(p, CYAN);
    if (gpu->info.is_mig && parent >= 0 && (uint32_t)parent < p->s->gpu_count) {
        uint32_t nth = 0; // as nvidia-smi -L counts the MIG devices of a GPU
        for (const struct al_gpu *g = p->s->gpus; g < gpu; g++)
            nth += g->info.is_mig && g->info.parent == parent;
        al_buf_printf(p->b, "[%u:%u]", p->s->gpus[parent].info.index, nth);
    } else {
        al_buf_printf(p->b, "[%u]", gpu->info.index);
    }
    paint(p, NORMAL);
    al_buf_char(p->b, ' ');
}

static void add_gpu_figures(const struct printer *p, const struct al_gpu *gpu) {
    struct al_gpustat_cell temp = get(gpu, AL_GPUSTAT_TEMP), fan = get(gpu, AL_GPUSTAT_FAN);
    struct al_gpustat_cell util = get(gpu, AL_GPUSTAT_UTIL);
    const char *lost = al_gpustat_lost(gpu);
    figure(p, gpu, temp, 3, graded(temp, 50, RED, BOLD_RED), p->o->ascii ? "'C" : "°C");
    al_buf_str(p->b, ", ");
    if (p->o->show_fan) {
        figure(p, gpu, fan, 3, graded(fan, 30, CYAN, BOLD_CYAN), " %");
        al_buf_str(p->b, ", ");
    }
    figure(p, gpu, util, 3, graded(util, 30, GREEN, BOLD_GREEN), " %");
    add_codec(p, gpu);
    if (p->o->show_power)
        add_power(p, gpu);
    al_buf_str(p->b, " | ");
    paint(p, CYAN);
    figure(p, gpu, get(gpu, AL_GPUSTAT_USED), 5, lost ? BOLD_BLACK : BOLD_YELLOW, "");
    al_buf_str(p->b, " / ");
    figure(p, gpu, get(gpu, AL_GPUSTAT_TOTAL), 5, lost ? BOLD_BLACK : YELLOW, "");
    al_buf_str(p->b, " MB");
}

static void add_role(const struct printer *p, const struct al_proc *proc) {
    if (!proc)
        return;
    if (proc->rank >= 0)
        al_buf_printf(p->b, " rank%d", proc->rank);
    if (proc->role != AL_ROLE_UNKNOWN && !(proc->role == AL_ROLE_RANK && proc->rank >= 0))
        al_buf_printf(p->b, " %s", al_role_word(proc->role));
}

static void add_process(const struct printer *p, const struct al_gpustat_process *process) {
    const struct al_gpustat_options *o = p->o;
    al_buf_char(p->b, ' ');
    if (!o->show_cmd || o->show_user) {
        const char *user = process->proc ? process->proc->user : "";
        painted(p, BOLD_BLACK, user[0] ? user : "--");
        al_buf_str(p->b, o->show_cmd ? ":" : "");
    }
    if (o->show_cmd) {
        paint(p, CYAN);
        if (process->name_len)
            add_text(p, process->command + process->path_len, process->name_len);
        else
            al_buf_char(p->b, '?');
        paint(p, NORMAL);
    }
    if (o->show_pid)
        al_buf_printf(p->b, "/%d", (int)process->row->pid);
    al_buf_char(p->b, '(');
    paint(p, YELLOW);
    if (process->mib.known)
        al_buf_printf(p->b, "%lldM", process->mib.num);
    else
        al_buf_str(p->b, "?M");
    paint(p, NORMAL);
    if (o->roles)
        add_role(p, process->proc);
    al_buf_char(p->b, ')');
}

// "9999B" "1024MB": the largest unit that still needs at least one more than four digits is left for the next.
static void short_bytes(char *out, size_t size, double bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    uint64_t n = bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0;
    size_t unit = 0;
    for (; n > 9999 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        n >>= 10;
    struct al_buf b = AL_BUF_INIT;
    al_buf_printf(&b, "%llu%s", (unsigned long long)n, units[unit]);
    (void)al_str_copy(out, size, b.data ? b.data : "");
    al_buf_free(&b);
}

static void add_full_process(const struct printer *p, const struct al_gpustat_process *process, bool last) {
    static const char *const branches[2][2] = {{" ├─ ", " └─ "}, {" |- ", " `- "}};
    struct al_value cpu = process->proc ? process->proc->m[AL_PROC_CPU] : al_value_none(AL_STATUS_UNREAD);
    struct al_value rss = process->proc ? process->proc->m[AL_PROC_RSS] : al_value_none(AL_STATUS_UNREAD);
    char memory[32] = "?";
    if (al_ok(rss))
        short_bytes(memory, sizeof memory, rss.num);
    al_buf_str(p->b, p->eol);
    paint(p, NORMAL);
    al_buf_str(p->b, branches[p->o->ascii][last]);
    al_buf_printf(p->b, "%6d ", (int)process->row->pid);
    paint(p, NORMAL);
    al_buf_char(p->b, '(');
    paint(p, GREEN);
    if (al_ok(cpu))
        al_buf_printf(p->b, "%4.0f%%", round(cpu.num * 1000) / 10); // psutil rounds to one decimal first
    else
        al_buf_str(p->b, "   ?%");
    paint(p, NORMAL);
    al_buf_str(p->b, ", ");
    paint(p, YELLOW);
    al_buf_printf(p->b, "%6s", memory);
    paint(p, NORMAL);
    al_buf_char(p->b, ')');
    paint(p, NORMAL);
    al_buf_str(p->b, ": ");
    paint(p, COMMAND);
    paint(p, COMMAND);
    add_text(p, process->command, process->path_len);
    paint(p, CYAN);
    add_string(p, process->command[0] ? "" : "?");
    add_text(p, process->command + process->path_len, process->name_len);
    paint(p, COMMAND);
    add_string(p, process->command + process->path_len + process->name_len);
    paint(p, NORMAL);
}

static void add_processes(const struct printer *p, const struct al_gpu *gpu) {
    struct al_gpustat_process process, next;
    struct al_gpustat_list list;
    uint32_t cursor = 0;
    if (al_gpustat_lost(gpu) || gpu->process_status != AL_STATUS_OK) {
        al_buf_str(p->b, " (Not Supported)");
        return;
    }
    p->b->failed |= !al_gpustat_list(p->s, p->o, gpu, &list);
    while (al_gpustat_next_process(p->s, p->o, &list, &cursor, &process))
        add_process(p, &process);
    cursor = 0;
    bool more = p->o->show_full_cmd && al_gpustat_next_process(p->s, p->o, &list, &cursor, &next);
    while (more) {
        process = next;
        more = al_gpustat_next_process(p->s, p->o, &list, &cursor, &next);
        add_full_process(p, &process, !more);
    }
    free(list.rows);
}

static void add_gpu(const struct printer *p, const struct al_gpu *gpu) {
    const char *lost = al_gpustat_lost(gpu);
    add_index(p, gpu);
    if (p->o->name_width != 0) {
        paint(p, lost ? RED : BLUE);
        add_name(p, lost ? lost : gpu->info.name, p->name_width);
        paint(p, NORMAL);
        al_buf_str(p->b, " |");
    }
    add_gpu_figures(p, gpu);
    if (!p->o->no_processes) {
        al_buf_str(p->b, " |");
        add_processes(p, gpu);
    }
    al_buf_str(p->b, p->eol);
}

// gpustat formats by "%a %b %e %H:%M:%S %Y" of the C locale whatever the user's; strftime would follow the locale.
static void add_header(const struct printer *p) {
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(p->s->realtime_ns / AL_NS_PER_S);
    struct tm tm = {0};
    (void)localtime_r(&seconds, &tm);
    paint(p, BOLD_WHITE);
    const char *host = p->s->node.hostname;
    size_t width = (p->name_width ? p->name_width : 16) + 3, len = count_chars(host);
    add_string(p, host);
    al_buf_pad(p->b, ' ', len < width ? width - len : 0);
    paint(p, NORMAL);
    al_buf_printf(p->b, "  %.3s %.3s %2d %02d:%02d:%02d %d  ", days + 3 * tm.tm_wday, months + 3 * tm.tm_mon,
                  tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_year + 1900);
    painted(p, BOLD_BLACK, p->s->node.driver_version[0] ? p->s->node.driver_version : "None");
    al_buf_str(p->b, p->eol);
}

void al_gpustat_text(struct al_buf *b, const struct al_snapshot *s, const struct al_gpustat_options *o) {
    struct printer p = {b, s, o, o->eol ? o->eol : "\n", 0};
    const struct al_gpu *gpu;
    uint32_t cursor = 0, count = 0;
    for (; (gpu = al_gpustat_next_gpu(s, o, &cursor)); count++) {
        const char *lost = al_gpustat_lost(gpu);
        size_t width = count_chars(lost ? lost : gpu->info.name);
        p.name_width = width > p.name_width ? width : p.name_width;
    }
    if (o->name_width >= 0)
        p.name_width = (size_t)o->name_width;
    if (!o->no_header)
        add_header(&p);
    for (cursor = 0; (gpu = al_gpustat_next_gpu(s, o, &cursor));)
        add_gpu(&p, gpu);
    if (!count) {
        painted(&p, YELLOW, "(No GPUs are available)");
        al_buf_str(b, p.eol);
    }
}
