// SPDX-License-Identifier: Apache-2.0
#include "detect/rule.h"
static void step(struct al_run *run) { (void)run; }
const struct al_rule al_rule_uneven = {.name = "uneven", .groups = 0, .enabled = AL_ENABLED(uneven), .step = step};
