// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

int main(void) {
    return lanes_suite() + damage_suite() + crash_suite() ? 1 : 0;
}
