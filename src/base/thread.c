// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <signal.h>
#include <time.h>

#include "base/err.h"

int al_thread_start(pthread_t *ret, void *(*body)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(ret, NULL, body, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? AL_E_NOMEM : 0;
}

void al_thread_cond(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}
