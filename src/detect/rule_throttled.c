// SPDX-License-Identifier: Apache-2.0
#include "detect/rule.h"
static void step(struct al_run *run) { (void)run; }
const struct al_rule al_rule_throttled = {.name = "throttled", .groups = 0, .enabled = AL_ENABLED(throttled), .step = step};
