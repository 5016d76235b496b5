// SPDX-License-Identifier: Apache-2.0
#ifndef AL_CLI_RUN_HOST_H
#define AL_CLI_RUN_HOST_H

#include "cli/run.h"

void al_run_host_start(struct al_run *r);
void al_run_host_stop(struct al_run *r);

#endif
