// SPDX-License-Identifier: Apache-2.0
#include "collector.h"

int main(void) {
    return marks_suite() + manners_suite() + hosts_suite() + loop_suite() ? 1 : 0;
}
