// SPDX-License-Identifier: Apache-2.0
// Threads beside the main one.
#ifndef AL_BASE_THREAD_H
#define AL_BASE_THREAD_H

#include <pthread.h>

// With all signals blocked there: they are for the main thread alone. AL_E_NOMEM.
int al_thread_start(pthread_t *ret, void *(*body)(void *), void *argument);
// Waits on it with a limit are by CLOCK_MONOTONIC.
void al_thread_cond(pthread_cond_t *cond);

#endif
