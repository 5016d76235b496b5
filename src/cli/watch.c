// SPDX-License-Identifier: Apache-2.0
// alula watch: one line a tick and a line a finding, as text, JSON Lines or the compatibility record.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/stored.h"
#include "cli/watch_summary.h"
#include "cli/watch_text.h"
#include "detect/detect.h"
#include "export/compat.h"
#include "export/jsonl.h"
#include "push/push.h"
#include "scenario/scenario.h"

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_COMPAT };

#define TOLD_MAX 256
struct told { // how a finding was last shown; a collision shows one twice
    uint64_t key, title;
    enum al_level level;
    bool looked; // with what the processes execute
    int64_t shown_ns;
};
#define TELL_AGAIN_NS (600 * AL_NS_PER_S)

struct watch {
    struct al_sink sink; // first
    struct al_cli_session session;
    enum format format;
    bool color, quiet, verbose, pcie;
    int fail_on; // enum al_level, -1 off
    double model_size; // billions, -1 not given
    int64_t duration_ns;
    const char *record_path;
    FILE *record;
    struct al_snapshot *recorded; // what the recording already holds
    int64_t record_start_ns;
    uint64_t findings;
    struct told told[TOLD_MAX];
    bool failed, started;
    struct al_buf buf;
};

static const char help[] =
    "Usage: alula watch [options]\n"
    "Watches the GPUs: one line a tick, and what is found with its evidence and advice.\n\n"
    "  --json              JSON Lines (type session, sample, finding, end) for jq, Filebeat, Vector\n"
    "  --compat            one record a GPU and tick with the keys of GPUTracker.sample()\n"
    "  --for TIME          stop after this time (60s, 10min, 2h)\n"
    "  --fail-on LEVEL     exit with status 3 when a finding of this level or above was raised\n"
    "                      (info, warning, critical)\n"
    "  --model-size N[B]   billions of parameters: sets the memory limit (7B 80 %, 70B 90 %)\n"
    "  --summary           at the end, the last window of each GPU: mean, peak, min, deviation, quantiles, slope\n"
    "  --quiet             findings only, no line a tick\n"
    "  --verbose           at the end, what every rule thought of every GPU and job\n"
    "  --no-stacks         never look at the Python stacks of processes whose GPU idles (they are not stopped by it)\n"
    "  --pcie              also read PCIe rates by the blocking 20 ms call (not needed where GPM exists)\n"
    "  --record-scenario FILE  keep the session as a scenario that --source scenario:FILE plays\n\n";

static const char examples[] =
    "\nExamples:\n"
    "  alula watch                                   look on\n"
    "  alula watch --json | jq 'select(.type==\"finding\")'\n"
    "  alula watch --for 60s --fail-on warning       in a Slurm epilog or CI job\n"
    "  alula watch --source scenario:run.txt --speed 0\n"
    "\nExit status: 0; 2 bad option or config; 3 a finding of --fail-on; 9 no driver or GPU; 12 library missing.\n";

static int write_out(struct watch *w) {
    if (w->buf.failed)
        return AL_E_NOMEM;
    if (w->buf.len && fwrite(w->buf.data, 1, w->buf.len, stdout) != w->buf.len)
        return AL_E_IO;
    al_buf_clear(&w->buf);
    // Each tick is shown when it happens; a full disk or closed pipe ends the run.
    return fflush(stdout) == 0 ? 0 : AL_E_IO;
}

static int scenario_attr(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct watch *w = user;
    return al_collect_attr(w->session.collect, gpu, attr, AL_NS_PER_S, ret);
}

static int record_tick(struct watch *w, const struct al_snapshot *s) {
    struct al_buf b = AL_BUF_INIT;
    if (!w->recorded) {
        w->recorded = al_snapshot_new();
        if (!w->recorded)
            return AL_E_NOMEM;
        w->record_start_ns = s->monotonic_ns;
        al_scenario_print_head(&b, s, scenario_attr, w);
        al_scenario_print_tick(&b, NULL, s, w->record_start_ns);
    } else {
        al_scenario_print_tick(&b, w->recorded, s, w->record_start_ns);
    }
    int result = b.failed ? AL_E_NOMEM : al_snapshot_copy(w->recorded, s);
    if (!result && (fwrite(b.data ? b.data : "", 1, b.len, w->record) != b.len || fflush(w->record))) {
        al_cli_error("%s: %s; what was written so far is kept", w->record_path, strerror(errno));
        result = AL_E_IO;
    }
    al_buf_free(&b);
    return result;
}

static void reload(struct watch *w) {
    struct al_config config;
    const char *path = w->session.options.config;
    if (!atomic_exchange(&al_cli_reload, 0))
        return;
    if (!path) {
        al_cli_error("SIGHUP: no --config given, nothing to reload");
    } else if (al_cli_load_config(path, &config) == 0) {
        if (w->model_size > 0)
            config.settings.memory_model_size = w->model_size;
        al_detect_settings(w->session.detect, &config.settings);
        w->session.settings = config.settings;
        al_cli_error("SIGHUP: %s reloaded; thresholds are in force, sampling times apply from the next start", path);
    } else {
        al_cli_error("SIGHUP: the settings from before stay in force");
    }
}

static int show_finding(void *user, const struct al_snapshot *s, const struct al_finding *f);

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct watch *w = (struct watch *)sink;
    reload(w);
    if (!w->started && w->format == FORMAT_JSON)
        al_jsonl_session(&w->buf, s, AL_VERSION);
    w->started = true;
    if (w->format == FORMAT_JSON && !w->quiet)
        al_jsonl_sample(&w->buf, s);
    if (w->format == FORMAT_COMPAT)
        for (uint32_t i = 0; i < s->gpu_count; i++)
            al_compat_sample(&w->buf, s, i);
    if (w->format == FORMAT_TEXT && !w->quiet)
        al_watch_tick_line(&w->buf, s, w->color);
    int result = w->record ? record_tick(w, s) : 0;
    if (!result)
        result = al_stored_tick(w->session.stored, s, show_finding, w);
    return result ? result : write_out(w);
}

static uint64_t hash(uint64_t h, const char *text) {
    for (; *text; text++) // FNV-1a
        h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
    return h;
}

// What lasts for hours needs no line each 10 s: from a minute on, each comes after twice the time of the one before.
static bool is_due(const struct told *t, const struct al_finding *f) {
    int64_t wait = t->shown_ns - f->began_ns < TELL_AGAIN_NS ? t->shown_ns - f->began_ns : TELL_AGAIN_NS;
    return f->updated_ns - f->began_ns <= 60 * AL_NS_PER_S || f->updated_ns - t->shown_ns >= wait;
}

// As text: one line, with the advice when it is new or was told long ago. Updates of what is only good to know would fill
// the screen.
static void show_text(struct watch *w, const struct al_snapshot *s, const struct al_finding *f) {
    uint64_t key = hash(0xcbf29ce484222325ULL, f->key), title = hash(key, f->title);
    struct told *t = &w->told[key % TOLD_MAX];
    bool another = t->key != key || t->title != title;
    bool update = f->phase == AL_PHASE_UPDATED, looked = al_watch_is_looked(f), news = looked && (another || !t->looked);
    if (update && !news && (f->level == AL_LEVEL_INFO || (!another && t->level == f->level && !is_due(t, f)))) {
        t->level = f->level;
        return;
    }
    bool old = f->phase == AL_PHASE_BEGAN && f->updated_ns - t->shown_ns >= TELL_AGAIN_NS;
    bool whole = f->phase != AL_PHASE_ENDED && (another || old || news);
    *t = (struct told){key, title, f->level, looked, f->updated_ns};
    al_watch_finding_lines(&w->buf, s, f, whole, w->color);
}

static int show_finding(void *user, const struct al_snapshot *s, const struct al_finding *f) {
    struct watch *w = user;
    w->findings += f->phase == AL_PHASE_BEGAN;
    if (w->fail_on >= 0 && f->phase != AL_PHASE_ENDED && (int)f->level >= w->fail_on)
        w->failed = true;
    if (w->format == FORMAT_JSON)
        al_jsonl_finding(&w->buf, s, f);
    if (w->format == FORMAT_TEXT)
        show_text(w, s, f);
    return write_out(w);
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *finding) {
    struct watch *w = (struct watch *)sink;
    struct al_finding f = *finding;
    return al_stored_keep(w->session.stored, &f) ? show_finding(w, s, &f) : 0;
}

static const struct al_sink_ops watch_ops = {
    .name = "watch",
    .groups = AL_GROUP_ALL,
    .tick = on_tick,
    .finding = on_finding,
};

static void verdict_line(void *user, const char *rule, const char *key, enum al_verdict verdict, const char *why) {
    static const char *const words[] = {"nothing found", "finding", "too little data", "cannot tell"};
    struct watch *w = user;
    al_buf_printf(&w->buf, "  %-13s ", rule);
    al_term_string(&w->buf, key);
    al_buf_printf(&w->buf, ": %s%s%s\n", words[verdict], why && *why ? ": " : "", why ? why : "");
}

static void summary(struct watch *w) {
    const struct al_series_set *windows = al_collect_series(w->session.collect);
    const struct al_snapshot *s = al_collect_snapshot(w->session.collect);
    if (!windows || !s)
        return;
    if (w->format == FORMAT_JSON)
        al_watch_summary_json(&w->buf, s, windows);
    if (w->format == FORMAT_TEXT)
        al_watch_summary(&w->buf, s, windows);
}

static void end(struct watch *w) {
    struct al_collect_cost c;
    summary(w);
    al_collect_cost(w->session.collect, &c);
    double cpu = c.wall_ns > 0 ? (double)c.process_cpu_ns / (double)c.wall_ns : 0;
    if (w->format == FORMAT_JSON) {
        const struct al_snapshot *last = al_collect_snapshot(w->session.collect);
        al_jsonl_head(&w->buf, "end", al_clock_realtime(&w->session.clock), last ? last->node.hostname : "");
        al_buf_printf(&w->buf, ",\"ticks\":%llu,\"skipped_ticks\":%llu,\"late_ticks\":%llu,\"findings\":%llu",
                      (unsigned long long)c.ticks, (unsigned long long)c.skipped, (unsigned long long)c.late,
                      (unsigned long long)w->findings);
        al_buf_str(&w->buf, ",\"jitter_mean_seconds\":");
        al_buf_number(&w->buf, (double)c.jitter_mean_ns / 1e9);
        al_buf_str(&w->buf, ",\"jitter_max_seconds\":");
        al_buf_number(&w->buf, (double)c.jitter_max_ns / 1e9);
        al_buf_str(&w->buf, ",\"cpu_ratio\":");
        al_buf_number(&w->buf, cpu);
        al_buf_str(&w->buf, "}\n");
    }
    if (w->format == FORMAT_TEXT) {
        al_buf_printf(&w->buf, "%llu ticks, %llu late, %llu left out; %llu finding%s; own cost %.2f %% of one core, "
                      "ticks began %.1f ms late on average\n",
                      (unsigned long long)c.ticks, (unsigned long long)c.late, (unsigned long long)c.skipped,
                      (unsigned long long)w->findings, w->findings == 1 ? "" : "s", cpu * 100,
                      (double)c.jitter_mean_ns / 1e6);
        if (w->verbose)
            al_detect_verdicts(w->session.detect, verdict_line, w);
    }
    (void)write_out(w);
}

enum { OPT_JSON = 1, OPT_COMPAT, OPT_FOR, OPT_FAIL_ON, OPT_QUIET, OPT_VERBOSE, OPT_SUMMARY, OPT_RECORD, OPT_PCIE, OPT_MODEL };
static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"compat", no_argument, NULL, OPT_COMPAT},
    {"for", required_argument, NULL, OPT_FOR},
    {"fail-on", required_argument, NULL, OPT_FAIL_ON},
    {"model-size", required_argument, NULL, OPT_MODEL},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"summary", no_argument, NULL, OPT_SUMMARY},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"no-stacks", no_argument, NULL, AL_OPT_NO_STACKS},
    {"pcie", no_argument, NULL, OPT_PCIE},
    {"record-scenario", required_argument, NULL, OPT_RECORD},
    AL_CLI_COMMON_OPTIONS,
    {0},
};

static int usage_error(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_for(struct watch *w, const char *argument) {
    double seconds;
    if ((al_unit_parse(argument, AL_UNIT_SECONDS, &seconds) < 0 && !al_str_double(argument, &seconds)) ||
        seconds <= 0 || seconds > 1e9)
        return usage_error("--for %s: expected a time such as 60s, 10min or 2h", argument);
    w->duration_ns = (int64_t)(seconds * 1e9);
    return 0;
}

static int take_model_size(struct watch *w, const char *argument) {
    char digits[32];
    size_t len = strlen(argument);
    bool billions = len && (argument[len - 1] == 'B' || argument[len - 1] == 'b');
    (void)al_str_copy_n(digits, sizeof digits, argument, len - billions);
    if (!al_str_double(digits, &w->model_size) || w->model_size <= 0 || w->model_size > 10000)
        return usage_error("--model-size %s: expected billions of parameters, such as 7B", argument);
    return 0;
}

// 0 taken, -1 unknown, otherwise an exit status.
static int take_option(struct watch *w, struct al_cli_options *o, int option, const char *argument) {
    switch (option) {
    case OPT_JSON: w->format = FORMAT_JSON; return 0;
    case OPT_COMPAT: w->format = FORMAT_COMPAT; return 0;
    case OPT_FOR: return take_for(w, argument);
    case OPT_FAIL_ON:
        w->fail_on = al_level_from_word(argument);
        return w->fail_on < 0 ? usage_error("--fail-on %s: expected info, warning or critical", argument) : 0;
    case OPT_MODEL: return take_model_size(w, argument);
    case OPT_QUIET: w->quiet = true; return 0;
    case OPT_VERBOSE: w->verbose = true; return 0;
    case OPT_SUMMARY: o->windows = true; return 0;
    case OPT_PCIE: w->pcie = true; return 0;
    case OPT_RECORD: w->record_path = argument; return 0;
    default: return al_cli_common(o, option, argument);
    }
}

static int open_record(struct watch *w) {
    if (!w->record_path)
        return 0;
    // Command lines and user names are nobody else's business.
    int fd = open(w->record_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    w->record = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (w->record)
        return 0;
    al_cli_error("%s: %s", w->record_path, errno == EEXIST ? "exists already; choose another name" : strerror(errno));
    return al_error_exit_status(AL_E_IO);
}

static int run(struct watch *w, const struct al_cli_options *o) {
    struct al_push *push = NULL;
    int status = open_record(w);
    if (!status)
        status = al_cli_open(o, w->pcie ? AL_GROUP_PCIE : 0, true, &w->session);
    if (status)
        return status;
    if (w->model_size > 0) {
        w->session.settings.memory_model_size = w->model_size;
        al_detect_settings(w->session.detect, &w->session.settings);
    }
    w->color = w->format == FORMAT_TEXT && al_cli_use_color(o, stdout);
    al_cli_signals();
    (void)al_collect_add_sink(w->session.collect, &w->sink);
    status = al_cli_push(&w->session, &push);
    if (status) {
        al_cli_close(&w->session);
        return status;
    }
    int result = al_collect_run(w->session.collect, w->duration_ns, &al_cli_stop);
    al_push_free(push);
    if (result && result != AL_E_END && result != AL_E_IO)
        al_cli_error("%s", al_error_text(result));
    if (result != AL_E_IO)
        end(w);
    status = al_cli_flush();
    if (!status && result != AL_E_IO)
        status = al_error_exit_status(result);
    if (!status && result == AL_E_IO)
        status = al_error_exit_status(AL_E_IO);
    if (!status && w->failed)
        status = 3;
    if (!status)
        status = al_cli_damage(&w->session);
    w->session.hang_status = status;
    al_cli_close(&w->session);
    return status;
}

int al_cmd_watch(int argc, char **argv) {
    struct watch w = {.sink = {&watch_ops}, .fail_on = -1, .model_size = -1};
    struct al_cli_options o = AL_CLI_OPTIONS_INIT;
    int option, status = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s%s", help, al_cli_common_help, examples);
            return al_cli_flush();
        }
        status = take_option(&w, &o, option, optarg);
        if (status)
            return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
    }
    if (optind < argc)
        return usage_error("watch: unexpected argument %s (see alula watch --help)", argv[optind]);
    status = run(&w, &o);
    if (w.record)
        (void)fclose(w.record);
    al_snapshot_free(w.recorded);
    al_buf_free(&w.buf);
    return status;
}
