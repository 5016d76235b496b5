// SPDX-License-Identifier: Apache-2.0
// alula replay: `watch` on a recording.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "Usage: alula replay FILE [options]\n"
    "Plays a recording: the lines that `alula watch` would have printed, and the findings. Where every tick is kept, the\n"
    "same rules run again; where the recording was thinned, the findings stored in it are shown.\n"
    "Every command plays one too: alula top --source replay:FILE.\n\n"
    "  --speed N           N times as fast; 0 does not wait at all\n"
    "  --start TIME        begin there: 10min (from the start), -10min (from the end), 12:30 or 2026-11-29T12:30:15 (UTC)\n"
    "  --end TIME          stop there\n"
    "  and all options of watch, such as --json, --quiet, --fail-on, --summary\n\n"
    "Examples:\n"
    "  alula replay run.alula --speed 10\n"
    "  alula replay run.alula --speed 0 --quiet      only the findings\n"
    "  alula replay run.alula --start 12:30 --end 12:40 --json\n"
    "\nExit status: 0; 2 bad option; 3 a finding of --fail-on; 5 no such file; 6 not a recording, newer, or damaged.\n";

static bool asks_help(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

int al_cmd_replay(int argc, char **argv) {
    if (asks_help(argc, argv)) {
        fputs(help, stdout);
        return al_cli_flush();
    }
    // First or last, so that options need not be known here.
    int file = argc > 1 && argv[1][0] != '-' ? 1 : argc - 1;
    if (argc < 2 || argv[file][0] == '-') {
        if (argc > 1)
            return al_cmd_watch(argc, argv); // tells what is wrong with the options
        al_cli_error("replay: name the recording first, as in alula replay run.alula");
        return al_error_exit_status(AL_E_INVALID);
    }
    char **args = calloc((size_t)argc + 2, sizeof *args);
    size_t size = strlen(argv[file]) + sizeof "--source=replay:";
    char *source = malloc(size);
    int status = al_error_exit_status(AL_E_NOMEM), count = 0;
    if (args && source) {
        (void)snprintf(source, size, "--source=replay:%s", argv[file]);
        args[count++] = argv[0];
        args[count++] = source;
        for (int i = 1; i < argc; i++)
            if (i != file)
                args[count++] = argv[i];
        status = al_cmd_watch(count, args);
    }
    free(args);
    free(source);
    return status;
}
