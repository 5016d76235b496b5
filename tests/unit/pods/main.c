// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_h2();
    failed += al_test_list();
    return failed != 0;
}
