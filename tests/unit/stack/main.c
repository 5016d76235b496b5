// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_differ();
    failed += al_test_layout();
    failed += al_test_lines();
    failed += al_test_local();
    failed += al_test_maps();
    failed += al_test_text();
    failed += al_test_value();
    failed += al_test_walk();
    return failed != 0;
}
