// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    return test_book() + test_keep() + test_tree() + test_compare();
}
