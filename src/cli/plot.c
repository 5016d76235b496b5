// SPDX-License-Identifier: Apache-2.0
// alula plot: one metric of a GPU, process or node over time, with its trend and change points.
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/when.h"
#include "export/plot.h"
#include "model/select.h"
#include "store/store.h"

#define SEGMENTS_MAX 9 // the eight clearest changes
#define CHANGE_SAMPLES 4000 // longer series are averaged to this many for the search
#define CHANGE_SHORTEST 5

enum whose { WHOSE_GPU, WHOSE_NODE, WHOSE_PROC, WHOSE_MEMORY, WHOSE_ROW, WHOSE_RANK };

struct plot {
    const char *path, *metric, *gpus, *from, *to, *svg, *csv;
    int64_t pid;
    bool ascii;
    enum whose whose;
    int index; // in the metric's table
    enum al_unit unit;
    struct al_store *store;
    int64_t from_ns, to_ns;
    struct al_sample *samples;
    uint32_t count, cap;
    char title[200];
};

static const char help[] =
    "Usage: alula plot FILE [--metric NAME] [--gpu GPU | --pid PID] [options]\n"
    "Draws one metric of a recording over time, and tells its trend and where its level changes.\n\n"
    "  --metric NAME     a metric of a GPU or the node (default memory_used_bytes), or with --pid of a process or\n"
    "                    rank (default memory_bytes: its GPU memory); alula help --metrics lists them\n"
    "  --gpu GPU         index, UUID or PCI id; default: the first\n"
    "  --pid PID         a process\n"
    "  --from, --to TIME only this part: 10min, -10min (from the end), 12:30, 2026-11-29T12:30:15 (UTC)\n"
    "  --svg FILE        a picture instead of the terminal\n"
    "  --csv FILE        the numbers: time, value, fitted line, changes, slope with its interval; - is standard output\n"
    "  --ascii           no braille dots\n"
    "  --help            this text\n\n"
    "Examples:\n"
    "  alula plot run.alula --pid 4300\n"
    "  alula plot run.alula --metric power_watts --gpu 3 --svg power.svg\n"
    "  alula plot run.alula --metric step_seconds --pid 4300\n"
    "  alula plot run.alula --metric memory_bytes --pid 4300 --csv - | head\n"
    "\nExit status: 0; 2 bad option; 5 no such file, GPU, process or metric; 6 not a recording, newer, or damaged.\n";

static int usage_error(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

static bool find(const struct al_metric_info *table, int count, const char *name, enum whose whose, struct plot *p) {
    for (int i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) {
            p->whose = whose;
            p->index = i;
            p->unit = table[i].unit;
            return true;
        }
    return false;
}

static bool find_metric(struct plot *p) {
    static const char *const of_rows[] = {"sm_ratio", "memory_ratio", "encoder_ratio", "decoder_ratio", "jpeg_ratio",
                                          "ofa_ratio"};
    if (p->pid <= 0)
        return find(al_gpu_metrics, AL_GPU_METRIC_COUNT, p->metric, WHOSE_GPU, p) ||
               find(al_node_metric_table, AL_NODE_METRIC_COUNT, p->metric, WHOSE_NODE, p);
    if (strcmp(p->metric, "memory_bytes") == 0) {
        p->whose = WHOSE_MEMORY;
        p->unit = AL_UNIT_BYTES;
        return true;
    }
    for (int i = 0; i < (int)(sizeof of_rows / sizeof *of_rows); i++)
        if (strcmp(p->metric, of_rows[i]) == 0) {
            p->whose = WHOSE_ROW;
            p->index = i;
            p->unit = AL_UNIT_RATIO;
            return true;
        }
    return find(al_proc_metric_table, AL_PROC_METRIC_COUNT, p->metric, WHOSE_PROC, p) ||
           find(al_rank_metric_table, AL_RANK_METRIC_COUNT, p->metric, WHOSE_RANK, p);
}

static struct al_value row_value(const struct plot *p, const struct al_snapshot *s) {
    struct al_value v = al_value_none(AL_STATUS_UNREAD);
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct al_proc_gpu *r = &s->rows[i];
        const struct al_value all[] = {r->sm_ratio,      r->memory_ratio, r->encoder_ratio,
                                       r->decoder_ratio, r->jpeg_ratio,   r->ofa_ratio};
        bool chosen = r->pid == p->pid && r->gpu < s->gpu_count && al_gpu_selected(p->gpus, &s->gpus[r->gpu].info);
        if (chosen && al_ok(all[p->index]) && (!al_ok(v) || all[p->index].num > v.num))
            v = all[p->index]; // of several GPUs the busiest
    }
    return v;
}

static struct al_value value_of(const struct plot *p, const struct al_snapshot *s) {
    switch (p->whose) {
    case WHOSE_GPU:
        for (uint32_t i = 0; i < s->gpu_count; i++)
            if (al_gpu_selected(p->gpus, &s->gpus[i].info))
                return s->gpus[i].m[p->index];
        break;
    case WHOSE_NODE:
        return s->node.m[p->index];
    case WHOSE_MEMORY:
        return al_snapshot_proc_memory(s, (pid_t)p->pid);
    case WHOSE_ROW:
        return row_value(p, s);
    case WHOSE_PROC:
        if (al_snapshot_proc(s, (pid_t)p->pid))
            return al_snapshot_proc(s, (pid_t)p->pid)->m[p->index];
        break;
    case WHOSE_RANK:
        if (al_snapshot_rank(s, (pid_t)p->pid))
            return al_snapshot_rank(s, (pid_t)p->pid)->m[p->index];
        break;
    }
    return al_value_none(AL_STATUS_UNREAD);
}

static int push(struct plot *p, struct al_value v) {
    if (!al_ok(v) || (p->count && v.at_ns <= p->samples[p->count - 1].at_ns))
        return 0; // unknown, or the same reading again
    if (p->count == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 1024;
        struct al_sample *wider = cap <= 1U << 26 ? realloc(p->samples, cap * sizeof *wider) : NULL;
        if (!wider)
            return AL_E_NOMEM;
        p->samples = wider;
        p->cap = cap;
    }
    p->samples[p->count++] = (struct al_sample){v.at_ns, v.num};
    return 0;
}

static int collect(struct plot *p) {
    struct al_snapshot *s = al_snapshot_new();
    int64_t before = p->from_ns - 1, t = 0;
    int result = s ? 0 : AL_E_NOMEM;
    while (!result) {
        result = al_store_next(p->store, before, &t);
        if (result || t > p->to_ns)
            break;
        al_snapshot_clear(s);
        result = al_store_at(p->store, t, t, s);
        if (!result)
            result = push(p, value_of(p, s));
        before = t;
    }
    al_snapshot_free(s);
    return result == AL_E_END ? 0 : result;
}

static bool trend_of(const struct plot *p, struct al_slope *ret) {
    struct al_window w = {0};
    bool known = p->count && al_window_init(&w, 0, p->count) == 0;
    for (uint32_t i = 0; i < p->count && known; i++)
        (void)al_window_push(&w, p->samples[i].at_ns, p->samples[i].value);
    known = known && al_window_robust_slope(&w, INT64_MIN, 128, ret) == 0;
    al_window_done(&w);
    return known;
}

// Parts between change points, on means of neighbours where the series is long.
static int segments_of(const struct plot *p, struct al_segment *ret) {
    uint32_t step = p->count / CHANGE_SAMPLES + 1, count = p->count / step;
    struct al_sample *means = malloc((count ? count : 1) * sizeof *means);
    if (!means)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < step; k++)
            sum += p->samples[i * step + k].value;
        means[i] = (struct al_sample){p->samples[i * step].at_ns, sum / step};
    }
    int found = al_segments(means, count, CHANGE_SHORTEST, ret, SEGMENTS_MAX);
    for (int i = 0; i < found; i++) {
        ret[i].from *= step;
        ret[i].to = i == found - 1 ? p->count : ret[i].to * step;
    }
    free(means);
    return found > 0 ? found : 0;
}

static int write_file(const char *path, const struct al_buf *b) {
    if (strcmp(path, "-") == 0) {
        (void)fwrite(b->data ? b->data : "", 1, b->len, stdout);
        return al_cli_flush();
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool written = out && fwrite(b->data ? b->data : "", 1, b->len, out) == b->len;
    if (out && fclose(out) != 0)
        written = false;
    if (written)
        return 0;
    al_cli_error("%s: %s", path, strerror(errno));
    return al_error_exit_status(AL_E_IO);
}

static bool utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool is = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    if (locale)
        freelocale(locale);
    return is;
}

static void draw(struct al_buf *b, const struct plot *p, const struct al_plot *view) {
    struct winsize size = {0};
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col;
    unsigned width = known ? size.ws_col : 80, height = known && size.ws_row > 8 ? size.ws_row / 2 + 4 : 16;
    al_plot_terminal(b, view, width, height, !p->ascii && utf8());
    al_plot_words(b, view);
}

static int show(struct plot *p) {
    struct al_store_info info;
    struct al_slope slope;
    struct al_segment segments[SEGMENTS_MAX];
    struct al_buf b = AL_BUF_INIT;
    al_store_info(p->store, &info);
    struct al_plot view = {.samples = p->samples, .count = p->count, .title = p->title, .unit = p->unit,
                           .start_realtime_ns = info.start_realtime_ns, .segments = segments};
    view.slope = trend_of(p, &slope) ? &slope : NULL;
    view.segment_count = (uint32_t)segments_of(p, segments);
    int status = 0;
    if (p->svg) {
        al_plot_svg(&b, &view);
        status = write_file(p->svg, &b);
        al_buf_clear(&b);
    }
    if (p->csv && !status) {
        al_plot_csv(&b, &view);
        status = write_file(p->csv, &b);
    }
    if (!p->svg && !p->csv) {
        draw(&b, p, &view);
        status = write_file("-", &b);
    }
    al_buf_free(&b);
    return status;
}

static int run(struct plot *p) {
    struct al_store_error e = {{0}};
    struct al_store_info info;
    int status = 0, result = al_store_open(p->path, &p->store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        return al_error_exit_status(result);
    }
    al_store_info(p->store, &info);
    p->to_ns = info.duration_ns;
    if (p->from)
        status = al_cli_when("from", p->from, p->store, &p->from_ns);
    if (!status && p->to)
        status = al_cli_when("to", p->to, p->store, &p->to_ns);
    if (status)
        return status;
    result = collect(p);
    if (!result && !p->count) {
        al_cli_error("%s: nothing recorded of %s", p->path, p->title);
        return al_error_exit_status(AL_E_NOENT);
    }
    if (result) {
        al_cli_error("%s: %s", p->path, al_error_text(result));
        return al_error_exit_status(result);
    }
    status = show(p);
    if (!status && al_store_damage(p->store, &e)) {
        al_cli_error("%s: damaged in places, which were left out: %s", p->path, e.text);
        status = al_error_exit_status(AL_E_FORMAT);
    }
    return status;
}

enum { OPT_METRIC = 1, OPT_GPU, OPT_PID, OPT_FROM, OPT_TO, OPT_SVG, OPT_CSV, OPT_ASCII };
static const struct option long_options[] = {
    {"metric", required_argument, NULL, OPT_METRIC}, {"gpu", required_argument, NULL, OPT_GPU},
    {"pid", required_argument, NULL, OPT_PID},       {"from", required_argument, NULL, OPT_FROM},
    {"to", required_argument, NULL, OPT_TO},         {"svg", required_argument, NULL, OPT_SVG},
    {"csv", required_argument, NULL, OPT_CSV},       {"ascii", no_argument, NULL, OPT_ASCII},
    {"help", no_argument, NULL, 'h'},                {0}};

static int take_option(struct plot *p, int option, const char *argument) {
    struct al_cli_options o = AL_CLI_OPTIONS_INIT;
    int status;
    switch (option) {
    case OPT_METRIC: p->metric = argument; return 0;
    case OPT_GPU:
        status = al_cli_common(&o, AL_OPT_GPU, argument);
        p->gpus = o.gpus;
        return status;
    case OPT_PID:
        if (!al_str_i64(argument, &p->pid) || p->pid <= 0 || p->pid > INT32_MAX)
            return usage_error("--pid %s: expected a process id", argument);
        return 0;
    case OPT_FROM: p->from = argument; return 0;
    case OPT_TO: p->to = argument; return 0;
    case OPT_SVG: p->svg = argument; return 0;
    case OPT_CSV: p->csv = argument; return 0;
    case OPT_ASCII: p->ascii = true; return 0;
    default: return al_error_exit_status(AL_E_INVALID);
    }
}

static int check(struct plot *p, int argc, char **argv) {
    if (optind >= argc)
        return usage_error("plot: name the recording, as in alula plot run.alula --metric %s", "power_watts");
    p->path = argv[optind++];
    if (optind < argc)
        return usage_error("plot: unexpected argument %s (see alula plot --help)", argv[optind]);
    if (!p->metric)
        p->metric = p->pid ? "memory_bytes" : "memory_used_bytes";
    if (!find_metric(p)) {
        al_cli_error("--metric %s: no metric of a %s; alula help --metrics lists them", p->metric,
                     p->pid ? "process or rank" : "GPU or the node");
        return al_error_exit_status(AL_E_NOENT);
    }
    if (p->pid)
        (void)snprintf(p->title, sizeof p->title, "%s of pid %lld", p->metric, (long long)p->pid);
    else if (p->whose == WHOSE_NODE)
        (void)snprintf(p->title, sizeof p->title, "%s of the node", p->metric);
    else
        (void)snprintf(p->title, sizeof p->title, "%s of %s%s", p->metric, p->gpus ? "GPU " : "the first GPU",
                       p->gpus ? p->gpus : "");
    return 0;
}

int al_cmd_plot(int argc, char **argv) {
    struct plot p = {0};
    int option, status = 0;
    while (!status && (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return al_cli_flush();
        }
        status = take_option(&p, option, optarg);
    }
    if (!status)
        status = check(&p, argc, argv);
    if (!status)
        status = run(&p);
    al_store_free(p.store);
    free(p.samples);
    return status;
}
