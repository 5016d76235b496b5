// SPDX-License-Identifier: Apache-2.0
// alula demo: plays the recorded H200 session through the stand-in driver and the very code that watches real GPUs.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"

static const char help[] =
    "Usage: alula demo [--speed N] [COMMAND [options]]\n"
    "Plays a session recorded on a real H200 through the stand-in driver: scenario -> libnvidia-ml.so.1 (stand-in) ->\n"
    "NVML backend -> windows -> rules -> screen, the same code that watches real GPUs. COMMAND is watch (default), stat,\n"
    "smi, top, memory or doctor; its options follow it. Options alone are watch's.\n\n"
    "  --scenario FILE  play this one instead of the recorded session\n"
    "  --speed N        play N times as fast (sampling stays at its interval)\n"
    "  --start TIME     begin this far into the session\n"
    "  --help           this text\n\n"
    "Examples:\n"
    "  alula demo\n"
    "  alula demo --for 60s --quiet\n"
    "  alula demo --speed 4 watch --for 30s\n"
    "  alula demo --start 60s smi --query-gpu=name,utilization.gpu,memory.used --format=csv\n";

static const struct option long_options[] = {
    {"scenario", required_argument, NULL, 's'},
    {"speed", required_argument, NULL, 'x'},
    {"start", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

bool al_cli_find_part(const char *name_built, const char *name_installed, char *out, size_t size) {
    char self[512];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return false;
    self[len] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    // self is now PREFIX (of PREFIX/bin/alula) or BUILD/src (of BUILD/src/cli/alula).
    const char *const candidates[] = {name_installed, name_built};
    for (size_t i = 0; i < 2; i++) {
        if (snprintf(out, size, "%s/%s", self, candidates[i]) >= (int)size)
            continue;
        if (access(out, R_OK) == 0)
            return true;
    }
    return false;
}

static int missing(const char *what) {
    al_cli_error("demo: the %s is not beside this alula; run make (or make install) first", what);
    return al_error_exit_status(AL_E_NOENT);
}

static int check_pace(const char *speed, const char *start) {
    double number;
    if (speed && (!al_str_double(speed, &number) || number <= 0 || number > 1000))
        al_cli_error("demo: --speed %s: expected a number above 0 and up to 1000", speed);
    else if (start && (al_unit_parse(start, AL_UNIT_SECONDS, &number) < 0 || number < 0))
        al_cli_error("demo: --start %s: expected a time such as 60s", start);
    else
        return 0;
    return al_error_exit_status(AL_E_INVALID);
}

static int set_environment(const char *scenario, const char *speed, const char *start) {
    char library[600], session[600], epoch[32];
    if (!al_cli_find_part("../tests/standin/libnvidia-ml.so.1", AL_LIBDIR "/alula/standin/libnvidia-ml.so.1", library,
                          sizeof library))
        return missing("stand-in driver");
    if (!scenario &&
        !al_cli_find_part("../tests/h200-session.txt", AL_DATADIR "/alula/h200-session.txt", session, sizeof session))
        return missing("recorded session");
    (void)snprintf(epoch, sizeof epoch, "%lld", (long long)al_monotonic_ns());
    if (setenv("ALULA_NVML_LIBRARY", library, 1) || setenv("ALULA_SCENARIO", scenario ? scenario : session, 1) ||
        setenv("ALULA_HOST", "scenario", 1) || setenv("ALULA_SCENARIO_EPOCH_NS", epoch, 1) ||
        (speed && setenv("ALULA_SCENARIO_SPEED", speed, 1)) || (start && setenv("ALULA_SCENARIO_START", start, 1)) ||
        setenv("ALULA_SOURCE", "nvml", 1))
        return al_error_exit_status(AL_E_NOMEM);
    return 0;
}

// Options without a command are watch's; argv has room for its name in front (it is the demo's own argv).
static int run_command(int argc, char **argv) {
    static char watch[] = "watch";
    if (argc == 0 || argv[0][0] == '-') {
        argv[-1] = watch;
        optind = 0;
        return al_cmd_watch(argc + 1, argv - 1);
    }
    for (const struct al_command *c = al_commands; c->name; c++)
        if (strcmp(c->name, argv[0]) == 0 && c->run != al_cmd_demo) {
            optind = 0; // getopt begins again
            return c->run(argc, argv);
        }
    al_cli_error("demo: no command %s", argv[0]);
    return al_error_exit_status(AL_E_INVALID);
}

int al_cmd_demo(int argc, char **argv) {
    const char *scenario = NULL, *speed = NULL, *start = NULL;
    int option, first = 1;
    opterr = 0; // what is not ours is watch's, and watch complains itself
    while ((option = getopt_long(argc, argv, "+h", long_options, NULL)) != -1 && option != '?') {
        switch (option) {
        case 's': scenario = optarg; break;
        case 'x': speed = optarg; break;
        case 't': start = optarg; break;
        default: fputs(help, stdout); return al_cli_flush();
        }
        first = optind;
    }
    opterr = 1;
    optind = 0;
    int status = check_pace(speed, start);
    if (!status)
        status = set_environment(scenario, speed, start);
    if (status)
        return status;
    fprintf(stderr, "alula demo: no GPU is read; %s plays through the stand-in driver\n",
            scenario ? scenario : "a session recorded on an NVIDIA H200");
    return run_command(argc - first, argv + first);
}
