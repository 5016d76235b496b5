// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_capture();
    failed += al_test_capture_stop();
    failed += al_test_merge();
    failed += al_test_names();
    failed += al_test_rule();
    return failed != 0;
}
