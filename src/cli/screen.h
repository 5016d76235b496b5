// SPDX-License-Identifier: Apache-2.0
// Signals of the commands that take the whole terminal.
#ifndef AL_CLI_SCREEN_H
#define AL_CLI_SCREEN_H

#include <signal.h>

#include "tui/term.h"

#define AL_SCREEN_NUDGE SIGUSR1 // ends the sleep of a thread that it is sent to

// Catches what ends, halts or resizes; each writes to the eventfd. Before al_term_open.
void al_screen_signals(int eventfd);
// The same from elsewhere: there is news.
void al_screen_wake(void);
// The signal to end by; 0 none.
int al_screen_ended(void);
// Where Ctrl-Z came: gives the terminal back, stops, and takes it again afterwards.
void al_screen_halt(struct al_term *term);

#endif
