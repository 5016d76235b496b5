// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "cli/cli.h"

const struct al_command al_commands[] = {
    {"top", "the full-screen view; also what plain alula shows on a terminal", al_cmd_top},
    {"watch", "one line a tick and a line a finding (text, JSON Lines)", al_cmd_watch},
    {"ps", "training processes: ranks, workers, GPUs, steps", al_cmd_ps},
    {"run", "start a training job and say how its steps spend their time", al_cmd_run},
    {"attach", "watch a training job that runs already, and leave no trace", al_cmd_attach},
    {"dump", "the Python stacks of all threads of a process, now", al_cmd_dump},
    {"stacks", "what a process runs, live: functions, lines, threads", al_cmd_stacks},
    {"profile", "where a process spends its time: stacks for flame graphs", al_cmd_profile},
    {"ask", "ask a running job for torch's memory summary, or to empty its cache", al_cmd_ask},
    {"report", "the closing summary of a job again, from its recording", al_cmd_report},
    {"compare", "what changed from one job to another", al_cmd_compare},
    {"serve", "answer over HTTP: /metrics for Prometheus, JSON, events", al_cmd_serve},
    {"record", "keep everything in one file, for months", al_cmd_record},
    {"replay", "play a recording as watch shows it", al_cmd_replay},
    {"export", "a recording as CSV, JSON, JSON Lines or plain SQLite", al_cmd_export},
    {"info", "what a recording holds", al_cmd_info},
    {"plot", "a metric of a recording over time: terminal, SVG, CSV", al_cmd_plot},
    {"stat", "one line a GPU, in gpustat's format", al_cmd_stat},
    {"smi", "nvidia-smi's queries, dmon, pmon and -L, byte for byte", al_cmd_smi},
    {"memory", "GPU memory of one process on each GPU", al_cmd_memory},
    {"doctor", "check driver, library, permissions, and say what to do", al_cmd_doctor},
    {"demo", "play a recorded H200 session through the stand-in driver", al_cmd_demo},
    {"check-config", "check a config file, or print all settings", al_cmd_check_config},
    {"completion", "print shell completion for bash, zsh or fish", al_cmd_completion},
    {"help", "help on a command or a metric", al_cmd_help},
    {NULL, NULL, NULL},
};

static void usage(FILE *out) {
    fprintf(out, "Usage: alula COMMAND [options]\n"
                 "Watches LLM training and serving on NVIDIA GPUs: why a GPU idles, where memory goes, what breaks next.\n\n"
                 "Commands:\n");
    for (const struct al_command *c = al_commands; c->name; c++)
        fprintf(out, "  %-14s%s\n", c->name, c->summary);
    fprintf(out, "\nalula COMMAND --help tells a command's options; alula help METRIC what a metric means.\n"
                 "Try: alula (on a terminal), alula watch, alula stat, alula doctor, or alula demo where there is no GPU.\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        static char *top[] = {(char *)"top", NULL};
        if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
            return al_cmd_top(1, top);
        usage(stderr);
        return al_error_exit_status(AL_E_INVALID);
    }
    const char *name = strcmp(argv[1], "diff") == 0 ? "compare" : argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage(stdout);
        return al_cli_flush();
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("alula %s\n", AL_VERSION);
        return al_cli_flush();
    }
    for (const struct al_command *c = al_commands; c->name; c++)
        if (strcmp(c->name, name) == 0) {
            static char as[64]; // what getopt complains as
            (void)snprintf(as, sizeof as, "alula %s", c->name);
            argv[1] = as;
            return c->run(argc - 1, argv + 1);
        }
    al_cli_error("no command %s; alula --help lists them", name);
    return al_error_exit_status(AL_E_INVALID);
}
