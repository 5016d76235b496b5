// SPDX-License-Identifier: Apache-2.0
// The service manager's notification protocol (sd_notify(3)): datagrams to the socket of NOTIFY_SOCKET.
#ifndef AL_SERVE_NOTIFY_H
#define AL_SERVE_NOTIFY_H

#include <stdint.h>

// Sends "READY=1", "WATCHDOG=1" and the like. 0 also when nobody listens; AL_E_IO when it could not be sent.
int al_notify(const char *state);
// How often WATCHDOG=1 is due: half of WATCHDOG_USEC; 0 when this process is not watched.
int64_t al_notify_watchdog_ns(void);

#endif
