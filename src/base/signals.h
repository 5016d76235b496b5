// SPDX-License-Identifier: Apache-2.0
#ifndef AL_BASE_SIGNALS_H
#define AL_BASE_SIGNALS_H

#include <stddef.h>

// Signal name ("SIGKILL"), or "signal N" for unnamed ones.
void al_signal_word(int number, char *out, size_t size);

#endif
