// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_capture();
    failed += al_test_capture_stop();
    failed += al_test_merge();
    return failed != 0;
}
