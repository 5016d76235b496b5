// SPDX-License-Identifier: Apache-2.0
// alula check-config: is this file right, and what would be in force?
#include "base/buf.h"
#include "cli/cli.h"
#include "config/config.h"

static const char help[] =
    "Usage: alula check-config [--print] [FILE]\n"
    "Checks a config file: YAML sections of settings, each value with its unit. An error names line and column.\n\n"
    "  --print   print all settings as they would be in force, with their meaning (without FILE: the defaults)\n"
    "  --help    this text\n\n"
    "Examples:\n"
    "  alula check-config --print > alula.yaml\n"
    "  alula check-config alula.yaml && kill -HUP $(pidof alula)\n"
    "\nExit status: 0 the file is right; 2 it is not; 5 there is no such file.\n";

static const struct option long_options[] = {{"print", no_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {0}};

int al_cmd_check_config(int argc, char **argv) {
    bool print = false;
    int option;
    while ((option = getopt_long(argc, argv, "hp", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return al_cli_flush();
        }
        if (option != 'p')
            return al_error_exit_status(AL_E_INVALID);
        print = true;
    }
    if (argc - optind > 1 || (argc == optind && !print)) {
        al_cli_error("check-config: name one file (or --print for the defaults)");
        return al_error_exit_status(AL_E_INVALID);
    }
    struct al_config config;
    const char *path = argc > optind ? argv[optind] : NULL;
    int status = al_cli_load_config(path, &config);
    if (status)
        return status;
    if (print) {
        struct al_buf b = AL_BUF_INIT;
        al_config_print(&b, &config);
        fputs(b.data ? b.data : "", stdout);
        al_buf_free(&b);
    } else {
        printf("%s: fine\n", path);
    }
    return al_cli_flush();
}
