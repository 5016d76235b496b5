// SPDX-License-Identifier: Apache-2.0
// alula serve: the session over HTTP.
#include <stdatomic.h>
#include <stdio.h>

#include "alula-version.h"
#include "base/str.h"
#include "cli/cli.h"
#include "detect/detect.h"
#include "detect/xid.h"
#include "pods/pods.h"
#include "push/push.h"
#include "serve/notify.h"
#include "serve/serve.h"

static const char help[] =
    "Usage: alula serve [options]\n"
    "Watches the GPUs and answers over HTTP: /metrics for Prometheus, /api/v1 for programs, events as they come.\n\n"
    "  --listen ADDR:PORT  where to listen (default 127.0.0.1:9810; :9810 is every address)\n"
    "  --dcgm-names        dcgm-exporter's names and labels too, for dashboards made for them\n"
    "  --max-processes N   processes with series of their own (default 64); the rest are summed as pid=\"other\"\n"
    "  --pod-resources SOCKET  ask the kubelet which pods hold the GPUs (" AL_PODS_SOCKET ")\n"
    "  --insecure-listen   beyond loopback also without tokens or users\n\n";

static const char examples[] =
    "\nTLS, tokens, users and the names that clients may call this host by are set in the config, section serve.\n\n"
    "Examples:\n"
    "  alula serve                                   then: curl http://127.0.0.1:9810/metrics\n"
    "  alula serve --listen 10.0.0.7:9810 --config /etc/alula/alula.yaml\n"
    "  alula serve --dcgm-names\n"
    "\nExit status: 0 ended by a signal or the recording's end; 1 the port is taken; 2 bad option or config; 4 nothing\n"
    "protects an address beyond loopback; 9 no driver or GPU; 12 library missing.\n";

struct serve {
    struct al_sink sink; // first: hears the ticks, for SIGHUP
    struct al_cli_session session;
    struct al_serve_options o;
    struct al_serve *serve;
    struct al_push *push; // NULL: nothing is pushed
    const char *pod_socket; // NULL: no kubelet is asked
    struct al_pods *pods;
    const char *listen; // of the command line
    bool dcgm_names, insecure_listen;
    int64_t max_processes; // -1: the config's
};

enum { OPT_LISTEN = 1, OPT_DCGM, OPT_PROCESSES, OPT_INSECURE, OPT_PODS };
static const struct option long_options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"dcgm-names", no_argument, NULL, OPT_DCGM},
    {"max-processes", required_argument, NULL, OPT_PROCESSES},
    {"insecure-listen", no_argument, NULL, OPT_INSECURE},
    {"pod-resources", required_argument, NULL, OPT_PODS},
    AL_CLI_COMMON_OPTIONS,
    {0},
};

static int usage_error(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

// 0 taken, -1 unknown, otherwise an exit status.
static int take_option(struct serve *s, struct al_cli_options *o, int option, const char *argument) {
    switch (option) {
    case OPT_LISTEN: s->listen = argument; return 0;
    case OPT_DCGM: s->dcgm_names = true; return 0;
    case OPT_INSECURE: s->insecure_listen = true; return 0;
    case OPT_PODS: s->pod_socket = argument; return 0;
    case OPT_PROCESSES:
        if (!al_str_i64(argument, &s->max_processes) || s->max_processes < 0 || s->max_processes > 4096)
            return usage_error("--max-processes %s: expected a number from 0 to 4096", argument);
        return 0;
    default: return al_cli_common(o, option, argument);
    }
}

static const char *xid_text(uint32_t code) {
    return al_xid_info(code)->meaning;
}

static int64_t ns(double seconds) {
    return (int64_t)(seconds * 1e9 + 0.5);
}

// Real time after which a sample is no longer told: the sensor rule's limit, or three ticks where they are further
// apart.
static int64_t stale_after(const struct al_cli_session *s) {
    double interval = s->source && s->source->interval_ns ? (double)s->source->interval_ns / 1e9 : s->settings.sampling_interval;
    if (s->options.interval_ns)
        interval = (double)s->options.interval_ns / 1e9;
    if (s->clock.virtual_time && s->clock.speed > 0)
        interval /= s->clock.speed;
    return ns(3 * interval > s->settings.sensor_stale_after ? 3 * interval : s->settings.sensor_stale_after);
}

static void fill_options(struct serve *s) {
    const struct al_settings *set = &s->session.settings;
    const struct al_texts *texts = &s->session.texts;
    s->o = (struct al_serve_options){
        .collect = s->session.collect,
        .device = s->session.device,
        .listen = s->listen ? s->listen : texts->serve_listen,
        .tls_certificate = texts->serve_tls_certificate,
        .tls_key = texts->serve_tls_key,
        .tokens_file = texts->serve_tokens_file,
        .users_file = texts->serve_users_file,
        .hosts = texts->serve_hosts,
        .anonymous = set->serve_anonymous != 0,
        .insecure_listen = s->insecure_listen || set->serve_insecure_listen != 0,
        .dcgm_names = s->dcgm_names || set->serve_dcgm_names != 0,
        .max_connections = (uint32_t)set->serve_max_connections,
        .max_processes = (uint32_t)(s->max_processes >= 0 ? (double)s->max_processes : set->serve_max_processes),
        .header_timeout_ns = ns(set->serve_header_timeout),
        .idle_timeout_ns = ns(set->serve_idle_timeout),
        .answer_timeout_ns = ns(set->serve_answer_timeout),
        .stale_after_ns = stale_after(&s->session),
        .version = AL_VERSION,
        .xid_text = xid_text,
        .push_stats = s->push ? al_push_stats : NULL,
        .push = s->push,
        .pods_read = s->pods ? al_pods_read : NULL,
        .pods = s->pods,
    };
}

// SIGHUP: thresholds and credentials; what was opened with the old settings stays as it is.
static int on_tick(struct al_sink *sink, const struct al_snapshot *snapshot) {
    struct serve *s = (struct serve *)sink;
    struct al_config config;
    (void)snapshot;
    if (!atomic_exchange(&al_cli_reload, 0))
        return 0;
    const char *path = s->session.options.config;
    if (!path) {
        al_cli_error("SIGHUP: no --config given, nothing to reload");
    } else if (al_cli_load_config(path, &config)) {
        al_cli_error("SIGHUP: the settings from before stay in force");
    } else {
        al_detect_settings(s->session.detect, &config.settings);
        al_serve_reload(s->serve);
        al_cli_error("SIGHUP: %s reloaded; thresholds and the files of tokens and users are in force", path);
    }
    return 0;
}

static const struct al_sink_ops reload_ops = {.name = "reload", .tick = on_tick};

static int run(struct serve *s, const struct al_cli_options *o) {
    char error[512];
    int status = al_cli_open(o, 0, true, &s->session);
    if (status)
        return status;
    status = al_cli_push(&s->session, &s->push);
    if (status) {
        al_cli_close(&s->session);
        return status;
    }
    if (s->pod_socket && al_pods_new(s->pod_socket, &s->pods))
        al_cli_error("--pod-resources %s: the path is too long for a socket; no kubelet is asked", s->pod_socket);
    fill_options(s);
    al_cli_signals();
    int result = al_serve_new(&s->o, &s->serve, error, sizeof error);
    if (result) {
        al_cli_error("%s", error);
        status = al_error_exit_status(result);
    } else {
        (void)al_collect_add_sink(s->session.collect, al_serve_sink(s->serve));
        (void)al_collect_add_sink(s->session.collect, &s->sink);
        if (s->pods)
            (void)al_collect_add_sink(s->session.collect, al_pods_sink(s->pods));
        al_cli_error("serving on %s", al_serve_url(s->serve));
        (void)al_notify("READY=1");
        result = al_collect_run(s->session.collect, 0, &al_cli_stop);
        (void)al_notify("STOPPING=1");
        if (result && result != AL_E_END)
            al_cli_error("%s", al_error_text(result));
        status = al_error_exit_status(result);
    }
    s->serve = al_serve_free(s->serve);
    s->push = al_push_free(s->push);
    s->pods = al_pods_free(s->pods);
    s->session.hang_status = status;
    al_cli_close(&s->session);
    return status;
}

int al_cmd_serve(int argc, char **argv) {
    struct serve s = {.sink = {&reload_ops}, .max_processes = -1};
    struct al_cli_options o = AL_CLI_OPTIONS_INIT;
    int option, status;
    o.windows = true;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s%s", help, al_cli_common_help, examples);
            return al_cli_flush();
        }
        status = take_option(&s, &o, option, optarg);
        if (status)
            return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
    }
    if (optind < argc)
        return usage_error("serve: unexpected argument %s (see alula serve --help)", argv[optind]);
    return run(&s, &o);
}
