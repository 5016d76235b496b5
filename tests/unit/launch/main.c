// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    return ask_suite() + link_suite() + end_suite() + board_suite() + inject_suite();
}
