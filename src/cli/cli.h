// SPDX-License-Identifier: Apache-2.0
// What all subcommands share: common options, opening a session, messages, exit.
#ifndef AL_CLI_CLI_H
#define AL_CLI_CLI_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "collect/collect.h"
#include "config/config.h"
#include "model/source.h"

struct al_cli_options {
    const char *source;   // "nvml", "scenario:FILE", "replay:FILE"; NULL: ALULA_SOURCE or nvml
    const char *gpus;     // --gpu
    const char *config;   // --config
    int64_t interval_ns;  // --interval; 0: the config's or 500 ms
    double speed;         // --speed of a scenario; 1 real time, 0 as fast as possible; < 0 not given
    bool no_color, force_color, no_cmdline;
    bool no_stacks;       // --no-stacks, of those commands that take it
    const char *start, *end; // --start, --end of a recording
    bool without_device;  // go on with the host alone where no driver answers
    bool windows;         // keep sliding windows (sampling.window long)
};
#define AL_CLI_OPTIONS_INIT {.speed = -1}

// Long options of every subcommand; append to its table and hand unknown values to al_cli_common.
enum {
    AL_OPT_SOURCE = 1000,
    AL_OPT_INTERVAL,
    AL_OPT_GPU,
    AL_OPT_NO_COLOR,
    AL_OPT_COLOR,
    AL_OPT_NO_CMDLINE,
    AL_OPT_NO_STACKS,
    AL_OPT_CONFIG,
    AL_OPT_SPEED,
    AL_OPT_START,
    AL_OPT_END,
    AL_OPT_HELP
};
#define AL_CLI_COMMON_OPTIONS                                                                                          \
    {"source", required_argument, NULL, AL_OPT_SOURCE}, {"interval", required_argument, NULL, AL_OPT_INTERVAL},        \
        {"gpu", required_argument, NULL, AL_OPT_GPU}, {"no-color", no_argument, NULL, AL_OPT_NO_COLOR},                \
        {"color", no_argument, NULL, AL_OPT_COLOR}, {"no-cmdline", no_argument, NULL, AL_OPT_NO_CMDLINE},              \
        {"config", required_argument, NULL, AL_OPT_CONFIG}, {"speed", required_argument, NULL, AL_OPT_SPEED},          \
        {"start", required_argument, NULL, AL_OPT_START}, {"end", required_argument, NULL, AL_OPT_END},                \
        {"help", no_argument, NULL, AL_OPT_HELP}
// Text of those options for a --help page.
extern const char al_cli_common_help[];

// 0 taken; -1 not one of ours; otherwise an exit status (the message is printed).
int al_cli_common(struct al_cli_options *o, int option, const char *argument);

struct al_cli_session {
    struct al_cli_options options;
    struct al_settings settings;
    struct al_texts texts;
    struct al_source *source; // NULL with nvml
    struct al_store *store;   // behind a recording's source
    struct al_stored *stored; // of a thinned recording; else NULL
    struct al_device *device;
    struct al_host *host;
    struct al_ranks *ranks; // NULL: nothing tells of ranks
    struct al_clock clock;
    int64_t interval_ns; // of the sampling
    struct al_detect *detect; // only with rules
    struct al_collect *collect;
    char device_missing[256]; // why no driver answers, with without_device; else ""
    bool demo;                // NVML is the stand-in and the host side comes from its scenario too
    int hang_status;          // exit status for the case that al_cli_close finds a hanging driver
};

// Defaults overlaid with the file (NULL: defaults alone). 0, or an exit status with the message printed.
int al_cli_load_config(const char *path, struct al_config *ret);
struct al_buf;
// The settings as a recording keeps them: thresholds and times only, since words of the config may be secrets.
void al_cli_print_settings(struct al_buf *b, const struct al_settings *s);
// Opens source, host, rules (when asked) and collect. 0, or an exit status with the message printed to stderr.
int al_cli_open(const struct al_cli_options *o, uint32_t groups, bool rules, struct al_cli_session *ret);
// 6 when parts of the recording that is played could not be read; al_cli_close says which.
int al_cli_damage(const struct al_cli_session *s);
struct al_push;
// Starts what the sections push and webhook of the config ask for (*ret NULL: nothing); before the session runs. Free it
// (push/push.h) before al_cli_close. 0, or an exit status with the message printed.
int al_cli_push(const struct al_cli_session *s, struct al_push **ret);
// When the driver hangs in a call it does not return: it leaves with hang_status.
void al_cli_close(struct al_cli_session *s);
// One snapshot with the usual time limit; prints the reason and returns an exit status when there is none.
int al_cli_once(struct al_cli_session *s, int64_t settle_ns, const struct al_snapshot **ret);
// Set by SIGINT, SIGTERM and SIGPIPE once al_cli_signals was called; a second SIGINT ends at once.
extern _Atomic int al_cli_stop;
extern _Atomic int al_cli_reload; // set by SIGHUP
void al_cli_signals(void);

// "alula: ..." on stderr, one line, cleaned of control bytes.
void al_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Where a part of alula lies: below BUILD/src or below PREFIX. False when neither has it.
bool al_cli_find_part(const char *name_built, const char *name_installed, char *out, size_t size);
bool al_cli_use_color(const struct al_cli_options *o, FILE *stream);
// Flushes stdout; a full disk or closed pipe becomes an exit status.
int al_cli_flush(void);

struct al_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); // argv[0] is the command's name; returns the exit status
};
extern const struct al_command al_commands[]; // ends with name NULL

int al_cmd_ps(int argc, char **argv);
int al_cmd_run(int argc, char **argv);
int al_cmd_attach(int argc, char **argv);
int al_cmd_dump(int argc, char **argv);
int al_cmd_stacks(int argc, char **argv);
int al_cmd_profile(int argc, char **argv);
int al_cmd_ask(int argc, char **argv);
int al_cmd_serve(int argc, char **argv);
int al_cmd_stat(int argc, char **argv);
int al_cmd_smi(int argc, char **argv);
int al_cmd_top(int argc, char **argv);
int al_cmd_watch(int argc, char **argv);
int al_cmd_memory(int argc, char **argv);
int al_cmd_record(int argc, char **argv);
int al_cmd_replay(int argc, char **argv);
int al_cmd_export(int argc, char **argv);
int al_cmd_report(int argc, char **argv);
int al_cmd_compare(int argc, char **argv);
int al_cmd_info(int argc, char **argv);
int al_cmd_plot(int argc, char **argv);
int al_cmd_doctor(int argc, char **argv);
int al_cmd_demo(int argc, char **argv);
int al_cmd_check_config(int argc, char **argv);
int al_cmd_help(int argc, char **argv);
int al_cmd_completion(int argc, char **argv);

#endif
