// SPDX-License-Identifier: Apache-2.0
// alula record: a session with rules into a recording.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "cli/when.h"
#include "config/config.h"
#include "detect/detect.h"
#include "store/store.h"

#define VERDICTS_EVERY_NS (10 * AL_NS_PER_S)

struct record {
    struct al_sink sink; // first
    struct al_cli_session session;
    struct al_store_options o;
    struct al_sink *store;
    struct al_buf config;
    int64_t duration_ns, start_ns, verdicts_ns, shown_ns;
    uint64_t findings;
    bool quiet, terminal;
};

static const char help[] =
    "Usage: alula record -o FILE [options]\n"
    "Watches as `alula watch` does and keeps everything in one SQLite file: samples, processes, findings, config.\n\n"
    "  -o, --output FILE   the recording, by custom NAME.alula; readable by its owner only\n"
    "  --force             replace FILE when it is a recording that nobody writes\n"
    "  --for TIME          stop after this time (60s, 10min, 2h)\n"
    "  --keep TIME         delete what is older (7d); default: keep all\n"
    "  --plain TIME        plain tables hold this much (default 1h); older ticks are in compressed chunks\n"
    "  --full TIME         every tick for this long (default 24h); then 10 s with mean, minimum and maximum\n"
    "  --coarse TIME       10 s until this age (default 7d); then 1 min\n"
    "  --no-wal            lock the file for good instead of a -wal file beside it (done by itself on NFS, Lustre ...)\n"
    "  --no-stacks         never look at the Python stacks of processes whose GPU idles (they are not stopped by it)\n"
    "  --quiet             no progress line\n\n";

static const char examples[] =
    "\nExamples:\n"
    "  alula record -o run.alula                     until Ctrl-C\n"
    "  alula record -o run.alula --for 2h --keep 7d\n"
    "  alula replay run.alula --speed 10             look at it again\n"
    "  sqlite3 run.alula 'SELECT time, uuid, power_watts FROM sample_times'\n"
    "\nExit status: 0; 1 disk full or writing failed; 2 bad option; 4 FILE exists or is being written; 9 no driver or GPU.\n";

static void progress(struct record *r, const struct al_snapshot *s, bool last) {
    struct al_store_stats st;
    char size[32], time[32];
    int64_t now = al_monotonic_ns();
    if (!r->terminal || (!last && now - r->shown_ns < AL_NS_PER_S))
        return;
    r->shown_ns = now;
    al_store_stats(r->store, &st);
    (void)al_fmt_bytes(size, sizeof size, (double)st.file_bytes);
    (void)al_fmt_duration(time, sizeof time, s ? (double)(s->monotonic_ns - r->start_ns) / 1e9 : 0);
    fprintf(stderr, "\r\033[K%s: %s, %s, %llu finding%s%s", r->o.path, time, size, (unsigned long long)r->findings,
            r->findings == 1 ? "" : "s", last ? "\n" : "");
}

static void keep_verdict(void *user, const char *rule, const char *key, enum al_verdict verdict, const char *why) {
    static const char *const words[] = {"nothing found", "finding", "too little data", "cannot tell"};
    struct record *r = user;
    (void)al_store_verdict(r->store, rule, key, words[verdict], why ? why : "");
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct record *r = (struct record *)sink;
    if (!r->start_ns)
        r->start_ns = r->verdicts_ns = s->monotonic_ns;
    if (s->monotonic_ns - r->verdicts_ns >= VERDICTS_EVERY_NS) {
        r->verdicts_ns = s->monotonic_ns;
        al_detect_verdicts(r->session.detect, keep_verdict, r);
    }
    int result = r->store->ops->tick(r->store, s);
    progress(r, s, false);
    return result;
}

static int on_finding(struct al_sink *sink, const struct al_snapshot *s, const struct al_finding *f) {
    struct record *r = (struct record *)sink;
    r->findings += f->phase == AL_PHASE_BEGAN;
    return r->store->ops->finding(r->store, s, f);
}

static const struct al_sink_ops record_ops = {
    .name = "record", .groups = AL_GROUP_ALL, .tick = on_tick, .finding = on_finding};

static int ask_attr(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct record *r = user;
    return al_collect_attr(r->session.collect, gpu, attr, AL_NS_PER_S, ret);
}

enum { OPT_FORCE = 1, OPT_FOR, OPT_KEEP, OPT_PLAIN, OPT_FULL, OPT_COARSE, OPT_NO_WAL, OPT_QUIET };
static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"force", no_argument, NULL, OPT_FORCE},
    {"for", required_argument, NULL, OPT_FOR},
    {"keep", required_argument, NULL, OPT_KEEP},
    {"plain", required_argument, NULL, OPT_PLAIN},
    {"full", required_argument, NULL, OPT_FULL},
    {"coarse", required_argument, NULL, OPT_COARSE},
    {"no-wal", no_argument, NULL, OPT_NO_WAL},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"no-stacks", no_argument, NULL, AL_OPT_NO_STACKS},
    AL_CLI_COMMON_OPTIONS,
    {0},
};

static int take_option(struct record *r, struct al_cli_options *o, int option, const char *argument) {
    switch (option) {
    case 'o': r->o.path = argument; return 0;
    case OPT_FORCE: r->o.force = true; return 0;
    case OPT_FOR: return al_cli_span("for", argument, &r->duration_ns);
    case OPT_KEEP: return al_cli_span("keep", argument, &r->o.keep_ns);
    case OPT_PLAIN: return al_cli_span("plain", argument, &r->o.plain_ns);
    case OPT_FULL: return al_cli_span("full", argument, &r->o.full_ns);
    case OPT_COARSE: return al_cli_span("coarse", argument, &r->o.coarse_ns);
    case OPT_NO_WAL: r->o.no_wal = true; return 0;
    case OPT_QUIET: r->quiet = true; return 0;
    default: return al_cli_common(o, option, argument);
    }
}

static int finish(struct record *r, int result) {
    struct al_store_error e = {{0}};
    progress(r, al_collect_snapshot(r->session.collect), true);
    int closed = al_store_close(r->store, &e);
    r->store = NULL;
    if (closed) {
        al_cli_error("%s: %s; recording stopped, what was written before is kept", r->o.path, e.text);
        return al_error_exit_status(AL_E_IO);
    }
    if (result && result != AL_E_END)
        al_cli_error("%s", al_error_text(result));
    return al_error_exit_status(result);
}

static int run(struct record *r, const struct al_cli_options *o) {
    struct al_store_error e = {{0}};
    int status = al_cli_open(o, AL_GROUP_ALL, true, &r->session);
    if (status)
        return status;
    al_cli_print_settings(&r->config, &r->session.settings);
    r->o.version = AL_VERSION;
    r->o.config = r->config.data;
    r->o.attr = ask_attr;
    r->o.user = r;
    al_cli_signals();
    (void)signal(SIGXFSZ, SIG_IGN); // a file size limit shows as an error of the write instead
    int result = al_store_writer(&r->o, &r->store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        status = al_error_exit_status(result);
    } else {
        r->terminal = !r->quiet && isatty(STDERR_FILENO);
        (void)al_collect_add_sink(r->session.collect, &r->sink);
        result = al_collect_run(r->session.collect, r->duration_ns, &al_cli_stop);
        status = finish(r, result);
    }
    r->session.hang_status = status;
    al_cli_close(&r->session);
    return status;
}

int al_cmd_record(int argc, char **argv) {
    struct record r = {.sink = {&record_ops}};
    struct al_cli_options o = AL_CLI_OPTIONS_INIT;
    int option;
    while ((option = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s%s", help, al_cli_common_help, examples);
            return al_cli_flush();
        }
        int status = take_option(&r, &o, option, optarg);
        if (status)
            return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
    }
    if (optind < argc || !r.o.path) {
        if (r.o.path)
            al_cli_error("record: unexpected argument %s (see alula record --help)", argv[optind]);
        else
            al_cli_error("record: name the file, as in alula record -o run.alula");
        return al_error_exit_status(AL_E_INVALID);
    }
    int status = run(&r, &o);
    al_buf_free(&r.config);
    return status;
}
