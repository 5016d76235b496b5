// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    int failed = 0;
    failed += al_test_auth();
    failed += al_test_notify();
    failed += al_test_request();
    failed += al_test_sha256();
    return failed != 0;
}
