// SPDX-License-Identifier: Apache-2.0
// Wiring a session: source, device, host, rules, collect.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/stored.h"
#include "cli/when.h"
#include "cli/demo_source.h"
#include "config/config.h"
#include "detect/detect.h"
#include "device/device.h"
#include "host/host.h"
#include "launch/board.h"
#include "model/select.h"
#include "scenario/scenario.h"
#include "store/store.h"

#define SCENARIO_MAX (64u << 20)
// A replay's clock starts here: 0 means "never" in places.
#define REPLAY_START_NS (3600 * AL_NS_PER_S)

static int fail(int error, const char *what, const char *detail) {
    al_cli_error("%s: %s", what, detail && *detail ? detail : al_error_text(error));
    return al_error_exit_status(error);
}

int al_cli_load_config(const char *path, struct al_config *ret) {
    struct al_config_error e = {0};
    al_config_default(ret);
    if (!path)
        return 0;
    int result = al_config_load(path, ret, &e);
    if (!result)
        return 0;
    if (e.line)
        al_cli_error("%s:%d:%d: %s", path, e.line, e.column, e.message);
    else
        al_cli_error("%s: %s", path, *e.message ? e.message : al_error_text(result));
    return al_error_exit_status(result);
}

static int load_scenario(const char *path, struct al_source **ret) {
    char *text = NULL;
    size_t len = 0;
    struct al_scenario *scenario = NULL;
    struct al_scenario_error e = {0};
    int result = al_fs_slurp(path, SCENARIO_MAX, &text, &len);
    if (result)
        return fail(result, path, NULL);
    result = al_scenario_parse(text, len, &scenario, &e);
    free(text);
    if (result) {
        al_cli_error("%s:%d:%d: %s", path, e.line, e.column, *e.message ? e.message : al_error_text(result));
        return al_error_exit_status(result);
    }
    result = al_scenario_source(scenario, ret);
    return result ? fail(result, path, NULL) : 0;
}

// --gpu that names nothing is told at once, as with a driver.
static int check_selection(struct al_source *source, const char *gpus) {
    struct al_snapshot *snapshot = gpus ? al_snapshot_new() : NULL;
    if (!snapshot)
        return gpus ? fail(AL_E_NOMEM, "--gpu", NULL) : 0;
    int result = source->ops->at(source, -1, 0, snapshot);
    bool any = result != 0;
    for (uint32_t i = 0; i < snapshot->gpu_count; i++)
        any |= al_gpu_selected(gpus, &snapshot->gpus[i].info);
    al_snapshot_free(snapshot);
    if (any)
        return 0;
    al_cli_error("no GPU matches \"%s\"", gpus);
    return al_error_exit_status(AL_E_NOENT);
}

static int open_replay(struct al_cli_session *s) {
    const struct al_cli_options *o = &s->options;
    if (!s->source)
        return fail(AL_E_NOMEM, o->source, NULL);
    int64_t realtime = s->source->start_realtime_ns ? s->source->start_realtime_ns : al_realtime_ns();
    al_clock_virtual(&s->clock, REPLAY_START_NS, realtime, o->speed < 0 ? 1 : o->speed);
    int result = al_replay_device(s->source, o->gpus, REPLAY_START_NS, &s->device);
    if (!result)
        result = al_replay_host(s->source, o->no_cmdline, REPLAY_START_NS, &s->host);
    if (!result)
        result = al_replay_ranks(s->source, REPLAY_START_NS, &s->ranks);
    return result ? fail(result, o->source, NULL) : check_selection(s->source, o->gpus);
}

// The host side of a demo: the scenario's processes do not exist on this machine, so their figures come from it too.
static int open_demo_host(struct al_cli_session *s) {
    const char *epoch = getenv("ALULA_SCENARIO_EPOCH_NS");
    int64_t start = 0;
    if (!epoch || !al_str_i64(epoch, &start))
        start = al_monotonic_ns();
    int status = load_scenario(getenv("ALULA_SCENARIO"), &s->source);
    if (status)
        return status;
    s->demo = true;
    int result = al_demo_source(s->source, start, &s->source);
    if (!result)
        result = al_replay_host(s->source, s->options.no_cmdline, start, &s->host);
    if (!result)
        result = al_replay_ranks(s->source, start, &s->ranks);
    return result ? fail(result, "demo", NULL) : 0;
}

static int open_nvml(struct al_cli_session *s) {
    const struct al_nvml_options options = {.library = NULL, .gpus = s->options.gpus};
    struct al_device_error e = {{0}};
    al_clock_real(&s->clock);
    int result = al_nvml_open(&options, &s->device, &e);
    if (result && s->options.without_device) {
        (void)al_str_copy(s->device_missing, sizeof s->device_missing, *e.message ? e.message : al_error_text(result));
    } else if (result) {
        al_cli_error("%s (`alula doctor` tells more; `alula demo` shows alula without a GPU)",
                     *e.message ? e.message : al_error_text(result));
        return al_error_exit_status(result);
    }
    if (al_str_equal(getenv("ALULA_HOST"), "scenario") && getenv("ALULA_SCENARIO"))
        return open_demo_host(s);
    const char *root = getenv("ALULA_HOST_ROOT");
    const struct al_procfs_options host = {.root = root ? root : "/", .no_cmdline = s->options.no_cmdline};
    result = al_procfs_open(&host, &s->host);
    if (!result && !root) // the boards speak of this machine's processes
        result = al_boards_open(&s->ranks);
    return result ? fail(result, host.root, NULL) : 0;
}

static int open_recording(struct al_cli_session *s, const char *path) {
    struct al_store_error e = {{0}};
    int64_t from_ns = 0, to_ns = 0;
    int status = 0, result = al_store_open(path, &s->store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        return al_error_exit_status(result);
    }
    if (s->options.start)
        status = al_cli_when("start", s->options.start, s->store, &from_ns);
    if (!status && s->options.end)
        status = al_cli_when("end", s->options.end, s->store, &to_ns);
    if (!status && s->options.end && to_ns <= from_ns) {
        al_cli_error("--end %s: not behind the start", s->options.end);
        status = al_error_exit_status(AL_E_INVALID);
    }
    if (status)
        return status;
    result = al_store_source(s->store, from_ns, to_ns, &s->source);
    return result ? fail(result, path, NULL) : open_replay(s);
}

static int open_source(struct al_cli_session *s) {
    struct al_cli_options *o = &s->options;
    if (!o->source)
        o->source = getenv("ALULA_SOURCE");
    if (!o->source || !*o->source || strcmp(o->source, "nvml") == 0)
        return open_nvml(s);
    if (al_str_starts(o->source, "scenario:")) {
        int status = load_scenario(o->source + strlen("scenario:"), &s->source);
        return status ? status : open_replay(s);
    }
    if (al_str_starts(o->source, "replay:"))
        return open_recording(s, o->source + strlen("replay:"));
    al_cli_error("--source %s: expected nvml, scenario:FILE or replay:FILE", o->source);
    return al_error_exit_status(AL_E_INVALID);
}

static int64_t seconds_ns(double seconds) {
    return (int64_t)(seconds * 1e9 + 0.5);
}

static int open_collect(struct al_cli_session *s, uint32_t groups) {
    int64_t interval = s->options.interval_ns;
    if (!interval && s->source && !s->demo)
        interval = s->source->interval_ns;
    if (interval < 100 * AL_NS_PER_MS)
        interval = seconds_ns(s->settings.sampling_interval);
    s->interval_ns = interval;
    const struct al_collect_options options = {
        .device = s->device,
        .host = s->host,
        .ranks = s->ranks,
        .clock = &s->clock,
        .interval_ns = interval,
        .groups = groups,
        .process_period_ns = seconds_ns(s->settings.sampling_process_interval),
        .slow_period_ns = seconds_ns(s->settings.sampling_slow_interval),
        .detect = s->detect,
        .window_ns = s->options.windows ? seconds_ns(s->settings.sampling_window) : 0,
        .looks = !s->source && !getenv("ALULA_HOST_ROOT") ? &s->settings : NULL, // processes of this machine alone
        .inline_device = s->clock.virtual_time,
    };
    int result = al_collect_new(&options, &s->collect);
    if (!result)
        result = al_stored_new(s->source, s->detect, &s->settings, &s->stored);
    if (!result && s->stored)
        result = al_collect_add_sink(s->collect, al_stored_sink(s->stored));
    return result ? fail(result, "cannot start", NULL) : 0;
}

int al_cli_open(const struct al_cli_options *o, uint32_t groups, bool rules, struct al_cli_session *ret) {
    struct al_cli_session *s = ret;
    struct al_config config;
    *s = (struct al_cli_session){.options = *o};
    int status = al_cli_load_config(o->config, &config);
    s->settings = config.settings;
    if (o->no_stacks)
        s->settings.stacks_enabled = 0;
    s->texts = config.texts;
    if (!status)
        status = open_source(s);
    if (!status && rules) {
        int result = al_detect_new(&s->settings, &s->detect);
        status = result ? fail(result, "cannot start the rules", NULL) : 0;
    }
    if (!status)
        status = open_collect(s, groups);
    if (status)
        al_cli_close(s);
    return status;
}

int al_cli_damage(const struct al_cli_session *s) {
    return s->store && al_store_damage(s->store, NULL) ? al_error_exit_status(AL_E_FORMAT) : 0;
}

void al_cli_close(struct al_cli_session *s) {
    if (s->collect && al_collect_stop(s->collect) == AL_E_TIMEOUT) {
        // The driver has a thread of ours and will not give it back: leaving is all that is left to do.
        int status = s->hang_status;
        (void)fflush(stdout);
        _exit(status);
    }
    s->collect = al_collect_free(s->collect);
    s->stored = al_stored_free(s->stored);
    s->detect = al_detect_free(s->detect);
    s->device = al_device_free(s->device);
    s->host = al_host_free(s->host);
    if (s->ranks)
        s->ranks->ops->free(s->ranks);
    s->ranks = NULL;
    if (s->source)
        s->source->ops->free(s->source);
    s->source = NULL;
    struct al_store_error damage;
    if (s->store && al_store_damage(s->store, &damage))
        al_cli_error("the recording is damaged in places, which were left out: %s", damage.text);
    s->store = al_store_free(s->store);
}

int al_cli_once(struct al_cli_session *s, int64_t settle_ns, const struct al_snapshot **ret) {
    int64_t timeout = seconds_ns(s->settings.sampling_timeout);
    int result = al_collect_once(s->collect, settle_ns, timeout, ret);
    if (result == AL_E_TIMEOUT)
        al_cli_error("%s has not answered for %.0f s: the driver hangs (look for Xid lines in dmesg; a reset or reboot "
                     "may be needed)",
                     *(*ret)->hung_call ? (*ret)->hung_call : "the driver", (double)timeout / 1e9);
    else if (result)
        al_cli_error("%s", al_error_text(result));
    s->hang_status = al_error_exit_status(result);
    return s->hang_status;
}
