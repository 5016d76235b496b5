// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_alerts();
    failed += al_test_gzip();
    failed += al_test_otlp();
    failed += al_test_queue();
    failed += al_test_url();
    return failed != 0;
}
