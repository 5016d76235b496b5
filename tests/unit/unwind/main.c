// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "suites.h"

// live: what needs other processes, ptrace and perf; tables: what does not. Both without a word.
int main(int argc, char **argv) {
    int failed = 0;
    if (argc < 2 || !strcmp(argv[1], "live")) {
        failed += al_test_capture();
        failed += al_test_capture_stop();
    }
    if (argc > 1 && strcmp(argv[1], "tables") != 0)
        return failed != 0;
    failed += al_test_merge();
    failed += al_test_names();
    failed += al_test_rule();
    return failed != 0;
}
