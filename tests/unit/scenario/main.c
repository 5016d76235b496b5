// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

struct al_scenario *parsed(const char *text) {
    struct al_scenario *s;
    struct al_scenario_error e;
    if (al_scenario_parse(text, strlen(text), &s, &e) != 0)
        fail_msg("%d:%d: %s", e.line, e.column, e.message);
    return s;
}

int main(void) {
    return errors_suite() + play_suite() + print_suite() ? 1 : 0;
}
