// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    return tally_suite() + floor_suite() + mfu_suite() + rises_suite() + nccl_suite() + spread_suite();
}
