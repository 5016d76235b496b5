// SPDX-License-Identifier: Apache-2.0
// Times and spans in options of the commands about recordings.
#ifndef AL_CLI_WHEN_H
#define AL_CLI_WHEN_H

#include <stdint.h>

struct al_store;

// "90s", "10min", "7d" (bare numbers are seconds), above 0. 0, or an exit status with the message printed.
int al_cli_span(const char *option, const char *text, int64_t *ret_ns);
// A place in a recording, as ns since its start: a span from its start ("10min"), from its end ("-10min"), a time of day
// (12:30, 12:30:15) or a date with time (2026-11-29T12:30:15), both UTC. Outside the recording is an error.
int al_cli_when(const char *option, const char *text, struct al_store *store, int64_t *ret_ns);

#endif
