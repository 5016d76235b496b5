// SPDX-License-Identifier: Apache-2.0
#include "launch/output_dir.h"

#include <stddef.h>
#include <string.h>

const char *al_output_dir(char *const *argv) {
    static const char *const names[] = {"--output_dir", "--output-dir", "--save"};
    const char *found = NULL;
    for (size_t i = 0; argv[i]; i++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            size_t len = strlen(names[n]);
            if (strncmp(argv[i], names[n], len) != 0)
                continue;
            if (argv[i][len] == '=' && argv[i][len + 1])
                found = argv[i] + len + 1;
            else if (!argv[i][len] && argv[i + 1] && argv[i + 1][0] && argv[i + 1][0] != '-')
                found = argv[i + 1];
        }
    return found;
}
