// SPDX-License-Identifier: Apache-2.0
// inject-tool PID LINE [SCRIPT | --stopped | --calling]: gives a line to a process, for tests that need no more of
// alula attach than that. The last two let the tracer die at that moment.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "launch/inject_parts.h"

int main(int argc, char **argv) {
    struct al_inject t;
    char why[AL_INJECT_WHY] = "";
    const char *last = argc > 3 ? argv[3] : "";
    if (argc < 3)
        return 2;
    int root = open("/", O_PATH | O_DIRECTORY);
    int result = al_inject_look(root, (pid_t)atoi(argv[1]), &t, why, sizeof why);
    if (!result && strcmp(last, "--stopped") == 0)
        result = al_inject_by_stop(&t, argv[2], AL_INJECT_DIES_STOPPED, why, sizeof why);
    else if (!result && strcmp(last, "--calling") == 0)
        result = al_inject_by_stop(&t, argv[2], AL_INJECT_DIES_CALLING, why, sizeof why);
    else if (!result)
        result = al_inject(&t, argv[2], last, why, sizeof why);
    printf("%d %08x %s%s\n", result, t.version, t.remote ? "remote " : "", why);
    return result != 0;
}
