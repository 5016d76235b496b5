// SPDX-License-Identifier: Apache-2.0
// What other alulas may read of this run.
#ifndef AL_CLI_RUN_BOARD_H
#define AL_CLI_RUN_BOARD_H

#include "cli/run.h"

void al_run_board_start(const struct al_run *r); // once the job has started
void al_run_board_tick(const struct al_run *r, int64_t now_ns);
void al_run_board_stop(void); // before the link is closed

#endif
