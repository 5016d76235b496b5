// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

const char *al_test_golden_dir;

int main(int argc, char **argv) {
    al_test_golden_dir = argc > 1 ? argv[1] : "tests/golden";
    int failed = 0;
    failed += al_test_compat();
    failed += al_test_flame();
    failed += al_test_gpustat();
    failed += al_test_hot();
    failed += al_test_json();
    failed += al_test_openmetrics();
    failed += al_test_profile();
    failed += al_test_ps();
    failed += al_test_smi();
    failed += al_test_smi_monitor();
    failed += al_test_summary();
    failed += al_test_tensorboard();
    return failed != 0;
}
