// SPDX-License-Identifier: Apache-2.0
#include <locale.h>
#include <stdlib.h>

#include "suites.h"

// SplitMix64 (public domain, S. Vigna).
uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

int main(void) {
    (void)setenv("TZ", "UTC", 1);
    (void)setlocale(LC_CTYPE, "C.UTF-8"); // widths of characters
    return cell_suite() + layout_suite() + history_suite() + scene_suite() + ui_suite() + frame_suite() + stacks_suite();
}
