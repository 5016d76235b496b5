// SPDX-License-Identifier: Apache-2.0
#include "detect/rule.h"
static void step(struct al_run *run) { (void)run; }
const struct al_rule al_rule_orphan = {.name = "orphan", .groups = 0, .enabled = AL_ENABLED(orphan), .step = step};
