// SPDX-License-Identifier: Apache-2.0
// alula export: a recording as CSV, JSON, JSON Lines, or SQLite with plain tables of everything.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile_stored.h"
#include "cli/redact.h"
#include "cli/when.h"
#include "export/csv.h"
#include "export/jsonl.h"
#include "model/select.h"
#include "store/store.h"

enum format { FORMAT_NONE, FORMAT_CSV, FORMAT_JSON, FORMAT_JSONL, FORMAT_SQLITE };

struct export {
    const char *path, *output, *gpus, *from, *to;
    enum format format;
    bool force, ranks;
    struct al_store *store;
    struct al_redact *redact; // NULL: nothing is taken out
    struct al_snapshot *s;
    struct al_sink *sink;     // of SQLite
    FILE *out;
    bool metric[AL_GPU_METRIC_COUNT];
    uint32_t shown[AL_GPU_MAX]; // positions in the store of the GPUs that were chosen
    int64_t from_ns, to_ns, last_ns; // last_ns: findings up to here are out
    bool first;
    uint64_t marks;
    struct al_buf buf;
};

static const char help[] =
    "Usage: alula export FILE --format csv|json|jsonl|sqlite [options]\n"
    "Writes a recording in a form that other programs read, at the resolution that it has.\n\n"
    "  --format FORMAT     csv: GPU samples; jsonl: the lines of `alula watch --json`; json: one document;\n"
    "                      sqlite: a file with plain tables of everything\n"
    "  -o, --output FILE   write there; default: standard output (sqlite needs it)\n"
    "  --force             sqlite: replace FILE when it is a recording\n"
    "  --from, --to TIME   only this part: 10min, -10min (from the end), 12:30, 2026-11-29T12:30:15 (UTC)\n"
    "  --gpu LIST          only these GPUs: index, UUID or PCI id, separated by commas\n"
    "  --ranks             csv: the ranks of training jobs instead of the GPUs\n"
    "  --redact            no UUIDs, serials, hosts, users, command lines, paths: each name becomes a word with a number\n"
    "  --help              this text\n\n"
    "Examples:\n"
    "  alula export run.alula --format csv -o run.csv\n"
    "  alula export run.alula --format csv --ranks -o steps.csv\n"
    "  alula export run.alula --format jsonl --from -10min | jq 'select(.type==\"finding\")'\n"
    "  alula export run.alula --format sqlite --redact -o for-the-vendor.db\n"
    "\nExit status: 0; 1 writing failed; 2 bad option; 5 no such file; 6 not a recording, newer, or damaged.\n";

static int fail(int error, const char *what) {
    al_cli_error("%s: %s", what, al_error_text(error));
    return al_error_exit_status(error);
}

static int flush(struct export *x) {
    if (x->buf.failed)
        return AL_E_NOMEM;
    if (x->buf.len && fwrite(x->buf.data, 1, x->buf.len, x->out) != x->buf.len)
        return AL_E_IO;
    al_buf_clear(&x->buf);
    return 0;
}

// ---- what is chosen of a snapshot ----

static void choose(struct export *x) {
    struct al_snapshot *s = x->s;
    int32_t place[AL_GPU_MAX] = {0};
    uint32_t gpus = 0, rows = 0;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        place[i] = al_gpu_selected(x->gpus, &s->gpus[i].info) ? (int32_t)gpus : -1;
        if (place[i] < 0)
            continue;
        x->shown[gpus] = i;
        if (gpus != i)
            s->gpus[gpus] = s->gpus[i];
        int32_t parent = s->gpus[gpus].info.parent;
        s->gpus[gpus].info.parent = parent >= 0 && (uint32_t)parent < i ? place[parent] : -1;
        gpus++;
    }
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].gpu < s->gpu_count && place[s->rows[i].gpu] >= 0) {
            s->rows[rows] = s->rows[i];
            s->rows[rows++].gpu = (uint32_t)place[s->rows[i].gpu];
        }
    s->gpu_count = gpus;
    s->row_count = rows;
}

static bool chosen_finding(const struct export *x, const struct al_finding *f) {
    if (!x->gpus || f->gpu_index < 0)
        return true;
    struct al_gpu_info info = {.index = (uint32_t)f->gpu_index};
    memcpy(info.uuid, f->gpu_uuid, sizeof info.uuid);
    for (uint32_t i = 0; i < x->s->gpu_count; i++)
        if (x->s->gpus[i].info.index == info.index)
            return true;
    return al_gpu_selected(x->gpus, &info);
}

// ---- out ----

static int put_finding(void *user, int64_t at_ns, const struct al_finding *stored) {
    struct export *x = user;
    struct al_finding f = *stored;
    (void)at_ns;
    if (!chosen_finding(x, &f))
        return 0;
    if (x->redact && !al_redact_finding(x->redact, &f))
        return AL_E_NOMEM;
    if (x->format == FORMAT_SQLITE)
        return x->sink->ops->finding(x->sink, x->s, &f);
    if (x->format == FORMAT_JSON)
        al_buf_str(&x->buf, x->first ? "\n" : ",\n");
    al_jsonl_finding(&x->buf, x->s, &f);
    if (x->format == FORMAT_JSON && x->buf.len)
        x->buf.data[--x->buf.len] = '\0'; // the line's end: a comma may come first
    x->first = false;
    return flush(x);
}

static int put_ranges(struct export *x, int64_t t) {
    int result = 0;
    for (uint32_t g = 0; g < x->s->gpu_count; g++)
        for (int m = 0; m < AL_GPU_METRIC_COUNT && !result; m++) {
            double low, high;
            if (al_ok(x->s->gpus[g].m[m]) && al_store_range(x->store, t, x->shown[g], m, &low, &high) && low < high)
                result = al_store_note_range(x->sink, g, m, low, high);
        }
    return result;
}

static int put_tick(struct export *x, int64_t t) {
    static const double widths[] = {0, 10, 60};
    int level = al_store_level(x->store, t), result = 0;
    switch (x->format) {
    case FORMAT_CSV:
        if (x->ranks)
            al_csv_rank_sample(&x->buf, x->s, level ? widths[level] : (double)x->s->interval_ns / 1e9);
        else
            al_csv_sample(&x->buf, x->s, x->metric, level ? widths[level] : (double)x->s->interval_ns / 1e9);
        break;
    case FORMAT_SQLITE:
        result = x->sink->ops->tick(x->sink, x->s);
        if (!result && level)
            result = put_ranges(x, t);
        break;
    case FORMAT_JSON:
        al_buf_str(&x->buf, x->first ? "\n" : ",\n");
        al_jsonl_sample(&x->buf, x->s);
        if (x->buf.len)
            x->buf.data[--x->buf.len] = '\0';
        x->first = false;
        break;
    default:
        if (x->first)
            al_jsonl_session(&x->buf, x->s, AL_VERSION);
        x->first = false;
        al_jsonl_sample(&x->buf, x->s);
    }
    if (!result && (x->format == FORMAT_JSONL || x->format == FORMAT_SQLITE))
        result = al_store_findings(x->store, x->last_ns, t, put_finding, x);
    x->last_ns = t;
    return result ? result : flush(x);
}

static int ask_attr(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct export *x = user;
    int result = al_store_attr(x->store, gpu < x->s->gpu_count ? x->shown[gpu] : AL_GPU_MAX, attr, ret);
    if (!result && x->redact && !al_redact_attr(x->redact, attr, ret))
        result = AL_E_NOMEM;
    return result;
}

static int open_sqlite(struct export *x) {
    struct al_store_error e = {{0}};
    const char *config = al_store_meta(x->store, "config");
    const struct al_store_options o = {.path = x->output, .force = x->force, .all_plain = true, .version = AL_VERSION,
                                       .config = config, .attr = ask_attr, .user = x};
    int result = al_store_writer(&o, &x->sink, &e);
    if (result)
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
    return al_error_exit_status(result);
}

static int open_output(struct export *x) {
    if (x->format == FORMAT_SQLITE)
        return open_sqlite(x);
    x->out = stdout;
    if (!x->output)
        return 0;
    // A recording is its owner's alone, and so is what comes out of it.
    int fd = open(x->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    x->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (x->out)
        return 0;
    al_cli_error("%s: %s", x->output, strerror(errno));
    return al_error_exit_status(AL_E_IO);
}

static int each_tick(struct export *x) {
    int64_t t = 0, before = x->from_ns - 1;
    int result = 0;
    for (uint64_t tick = 1; !result; tick++) {
        result = al_store_next(x->store, before, &t);
        if (result || t > x->to_ns)
            break;
        al_snapshot_clear(x->s);
        result = al_store_at(x->store, before, t, x->s);
        before = t;
        x->s->tick = tick;
        choose(x);
        if (!result && x->redact && !al_redact_snapshot(x->redact, x->s))
            result = AL_E_NOMEM;
        if (!result)
            result = put_tick(x, t);
    }
    return result == AL_E_END ? 0 : result;
}

static int put_gap(void *user, int64_t from_ns, int64_t to_ns, const char *reason) {
    struct export *x = user;
    if (to_ns < x->from_ns || from_ns > x->to_ns)
        return 0;
    return al_store_note_gap(x->sink, from_ns - x->from_ns, to_ns - x->from_ns, reason);
}

static int put_mark(void *user, const struct al_store_process *who, const struct al_mark *mark, const char *text, size_t len) {
    struct export *x = user;
    // What came before the first tick belongs to the begin.
    if ((mark->at_ns < x->from_ns && x->from_ns > 0) || mark->at_ns > x->to_ns + AL_NS_PER_S)
        return 0;
    if (++x->marks % 65536 == 0) {
        int result = al_store_commit(x->sink);
        if (result)
            return result;
    }
    if (!text)
        return al_store_marks(x->sink, who, mark, 1);
    // Folders, errors and their places name people and their work; metrics are as the trainer wrote them.
    bool named = mark->code != AL_TEXT_FRAMEWORK && mark->code != AL_TEXT_SOURCE;
    return x->redact && named ? 0 : al_store_mark_text(x->sink, who, mark->at_ns, mark->code, text, len);
}

static int write_all(struct export *x) {
    x->first = true;
    if (x->format == FORMAT_CSV && x->ranks)
        al_csv_rank_head(&x->buf);
    else if (x->format == FORMAT_CSV)
        al_csv_head(&x->buf, x->metric);
    if (x->format == FORMAT_JSON)
        al_buf_str(&x->buf, "{\"format\":\"alula export\",\"version\":\"" AL_VERSION "\",\"samples\":[");
    int result = each_tick(x);
    if (!result && x->format == FORMAT_JSON) {
        al_buf_str(&x->buf, "],\n\"findings\":[");
        x->first = true;
        result = al_store_findings(x->store, x->from_ns - 1, x->to_ns, put_finding, x);
        al_buf_str(&x->buf, "]}\n");
    }
    if (!result && x->format == FORMAT_SQLITE)
        result = al_store_gaps(x->store, put_gap, x);
    if (!result && x->format == FORMAT_SQLITE)
        result = al_store_read_marks(x->store, put_mark, x);
    return result || x->format == FORMAT_SQLITE ? result : flush(x);
}

// Once the file is closed: profiles are added by a writer of their own.
static int copy_profiles(struct export *x) {
    struct al_store_error e = {{0}};
    struct al_store_info info;
    al_store_info(x->store, &info);
    int64_t from = x->from ? info.start_realtime_ns + x->from_ns : INT64_MIN, to = x->to ? info.start_realtime_ns + x->to_ns : INT64_MAX;
    int result = al_profile_copy_all(x->store, x->output, from, to, x->redact, &e);
    if (result)
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
    return result;
}

static int close_output(struct export *x, int result) {
    struct al_store_error e = {{0}};
    if (x->format == FORMAT_SQLITE) {
        int closed = al_store_close(x->sink, &e);
        if (closed)
            al_cli_error("%s: %s", x->output, e.text);
        if (!result && !closed)
            result = copy_profiles(x);
        return al_error_exit_status(result ? result : closed);
    }
    if (x->out != stdout && x->out) {
        if (fclose(x->out) != 0 && !result)
            result = AL_E_IO;
        if (result)
            return fail(result, x->output);
        return 0;
    }
    if (result && result != AL_E_IO)
        return fail(result, "export");
    return al_cli_flush();
}

static int run(struct export *x) {
    struct al_store_error e = {{0}};
    struct al_store_info info;
    int status = 0, result = al_store_open(x->path, &x->store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        return al_error_exit_status(result);
    }
    al_store_info(x->store, &info);
    x->to_ns = info.duration_ns;
    if (x->from)
        status = al_cli_when("from", x->from, x->store, &x->from_ns);
    if (!status && x->to)
        status = al_cli_when("to", x->to, x->store, &x->to_ns);
    x->last_ns = x->from_ns - 1;
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        x->metric[m] = al_store_has(x->store, m);
    x->s = al_snapshot_new();
    if (!status && !x->s)
        status = fail(AL_E_NOMEM, "export");
    if (!status)
        status = open_output(x);
    if (!status)
        status = close_output(x, write_all(x));
    if (!status && al_store_damage(x->store, &e)) {
        al_cli_error("%s: damaged in places, which were left out: %s", x->path, e.text);
        status = al_error_exit_status(AL_E_FORMAT);
    }
    return status;
}

enum { OPT_FORMAT = 1, OPT_FROM, OPT_TO, OPT_REDACT, OPT_FORCE, OPT_GPU, OPT_RANKS };
static const struct option long_options[] = {{"format", required_argument, NULL, OPT_FORMAT},
                                             {"output", required_argument, NULL, 'o'},
                                             {"force", no_argument, NULL, OPT_FORCE},
                                             {"from", required_argument, NULL, OPT_FROM},
                                             {"to", required_argument, NULL, OPT_TO},
                                             {"gpu", required_argument, NULL, OPT_GPU},
                                             {"ranks", no_argument, NULL, OPT_RANKS},
                                             {"redact", no_argument, NULL, OPT_REDACT},
                                             {"help", no_argument, NULL, 'h'},
                                             {0}};

static int usage_error(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_format(struct export *x, const char *argument) {
    static const char *const words[] = {"", "csv", "json", "jsonl", "sqlite"};
    for (int i = FORMAT_CSV; i <= FORMAT_SQLITE; i++)
        if (strcmp(argument, words[i]) == 0) {
            x->format = (enum format)i;
            return 0;
        }
    return usage_error("--format %s: expected csv, json, jsonl or sqlite", argument);
}

static int take_option(struct export *x, int option, const char *argument) {
    struct al_cli_options o = AL_CLI_OPTIONS_INIT;
    int status;
    switch (option) {
    case OPT_FORMAT: return take_format(x, argument);
    case 'o': x->output = argument; return 0;
    case OPT_FORCE: x->force = true; return 0;
    case OPT_RANKS: x->ranks = true; return 0;
    case OPT_FROM: x->from = argument; return 0;
    case OPT_TO: x->to = argument; return 0;
    case OPT_GPU:
        status = al_cli_common(&o, AL_OPT_GPU, argument);
        x->gpus = o.gpus;
        return status;
    case OPT_REDACT:
        x->redact = x->redact ? x->redact : al_redact_new();
        return x->redact ? 0 : fail(AL_E_NOMEM, "export");
    default: return al_error_exit_status(AL_E_INVALID);
    }
}

static int check_usage(const struct export *x, int argc, char **argv) {
    if (!x->path)
        return usage_error("export: name the recording, as in alula export run.alula --format %s", "csv");
    if (optind < argc)
        return usage_error("export: unexpected argument %s (see alula export --help)", argv[optind]);
    if (!x->format)
        return usage_error("export: %s is missing: csv, json, jsonl or sqlite", "--format");
    if (x->ranks && x->format != FORMAT_CSV)
        return usage_error("export: %s goes with --format csv (the other formats have ranks and GPUs)", "--ranks");
    if (x->format == FORMAT_SQLITE && !x->output)
        return usage_error("export: --format sqlite writes a file: name it with %s", "-o FILE");
    return 0;
}

int al_cmd_export(int argc, char **argv) {
    struct export x = {0};
    int option, status = 0;
    while (!status && (option = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
        if (option == 'h') {
            al_redact_free(x.redact);
            fputs(help, stdout);
            return al_cli_flush();
        }
        status = take_option(&x, option, optarg);
    }
    x.path = optind < argc ? argv[optind++] : NULL;
    if (!status)
        status = check_usage(&x, argc, argv);
    if (!status)
        status = run(&x);
    al_snapshot_free(x.s);
    al_store_free(x.store);
    al_redact_free(x.redact);
    al_buf_free(&x.buf);
    return status;
}
