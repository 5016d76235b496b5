// SPDX-License-Identifier: Apache-2.0
// Options that every subcommand has, messages, signals.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "model/select.h"

const char al_cli_common_help[] =
    "Common options:\n"
    "  --source SOURCE     nvml (default), scenario:FILE or replay:FILE; also from ALULA_SOURCE\n"
    "  --interval TIME     time between readings, from 100ms (default 500ms)\n"
    "  --gpu LIST          only these GPUs: index, UUID or PCI id, separated by commas\n"
    "  --speed N           play a scenario or recording N times as fast; 0 does not wait at all\n"
    "  --start, --end TIME play this part of a recording (10min, -10min from its end, 12:30)\n"
    "  --config FILE       settings (YAML; see alula check-config --print)\n"
    "  --no-cmdline        never show or keep command lines\n"
    "  --no-color, --color colours off or on; default: on a terminal without NO_COLOR\n"
    "  --help              this text\n";

void al_cli_error(const char *format, ...) {
    char text[1024];
    struct al_buf b = AL_BUF_INIT;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    al_buf_str(&b, "alula: ");
    al_term_string(&b, text);
    al_buf_char(&b, '\n');
    if (b.data)
        (void)!write(STDERR_FILENO, b.data, b.len);
    al_buf_free(&b);
}

static int bad(const char *option, const char *value, const char *want) {
    al_cli_error("--%s %s: %s", option, value, want);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_interval(struct al_cli_options *o, const char *argument) {
    double seconds;
    // Bare numbers are seconds, as in every `watch -n`.
    if (al_unit_parse(argument, AL_UNIT_SECONDS, &seconds) < 0 && !al_str_double(argument, &seconds))
        return bad("interval", argument, "expected a time such as 500ms or 2s");
    if (seconds < 0.1 || seconds > 3600)
        return bad("interval", argument, "must lie between 100ms and 1h: the driver's own samples come every 200 ms or so");
    o->interval_ns = (int64_t)(seconds * 1e9 + 0.5);
    return 0;
}

static int take_gpus(struct al_cli_options *o, const char *argument) {
    char item[AL_UUID_MAX];
    if (!*argument || al_gpu_select_check(argument, item, sizeof item) < 0)
        return bad("gpu", argument, "expected indices, UUIDs (GPU-…) or PCI ids (00000000:83:00.0), separated by commas");
    o->gpus = argument;
    return 0;
}

int al_cli_common(struct al_cli_options *o, int option, const char *argument) {
    switch (option) {
    case AL_OPT_SOURCE: o->source = argument; return 0;
    case AL_OPT_INTERVAL: return take_interval(o, argument);
    case AL_OPT_GPU: return take_gpus(o, argument);
    case AL_OPT_NO_COLOR: o->no_color = true; return 0;
    case AL_OPT_COLOR: o->force_color = true; return 0;
    case AL_OPT_NO_CMDLINE: o->no_cmdline = true; return 0;
    case AL_OPT_NO_STACKS: o->no_stacks = true; return 0;
    case AL_OPT_CONFIG: o->config = argument; return 0;
    case AL_OPT_SPEED:
        if (!al_str_double(argument, &o->speed) || o->speed < 0 || o->speed > 1e6)
            return bad("speed", argument, "expected a number from 0 (do not wait) to 1000000");
        return 0;
    case AL_OPT_START: o->start = argument; return 0;
    case AL_OPT_END: o->end = argument; return 0;
    default: return -1;
    }
}

bool al_cli_use_color(const struct al_cli_options *o, FILE *stream) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (o->no_color)
        return false;
    if (o->force_color)
        return true;
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && isatty(fileno(stream));
}

int al_cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (errno == EPIPE)
        return 128 + SIGPIPE;
    al_cli_error("cannot write the output: %s", strerror(errno));
    return al_error_exit_status(AL_E_IO);
}

_Atomic int al_cli_stop;
_Atomic int al_cli_reload;

static void on_signal(int number) {
    if (number == SIGHUP) {
        atomic_store(&al_cli_reload, 1);
        return;
    }
    // The second one does not wait for anything any more.
    if (atomic_exchange(&al_cli_stop, number) != 0)
        _exit(128 + number);
}

void al_cli_signals(void) {
    struct sigaction a = {.sa_handler = on_signal};
    sigemptyset(&a.sa_mask);
    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGHUP, &a, NULL);
    // A closed pipe shows as EPIPE at the next write.
    a.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &a, NULL);
}

void al_cli_print_settings(struct al_buf *b, const struct al_settings *s) {
    for (unsigned i = 0; i < al_setting_count; i++) {
        const struct al_setting_info *info = &al_setting_table[i];
        double value;
        memcpy(&value, (const char *)s + info->offset, sizeof value);
        if (!i || strcmp(info->section, al_setting_table[i - 1].section) != 0)
            al_buf_printf(b, "%s:\n", info->section);
        al_buf_printf(b, "  %s: ", info->key);
        al_config_print_value(b, info, value);
        al_buf_char(b, '\n');
    }
}
