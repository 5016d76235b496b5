// SPDX-License-Identifier: Apache-2.0
// The terminal: ncursesw, opened on first use. One at a time, used by one thread.
#ifndef AL_TUI_TERM_H
#define AL_TUI_TERM_H

#include <stddef.h>

#include "tui/cell.h"
#include "tui/ui.h"

struct al_term_options {
    bool color, mouse;
    const char *instead; // what to use where there is no such terminal
};

struct al_term_mouse {
    int x, y;
    enum al_mouse what;
};

struct al_term;

// Takes stdin and stdout over. error[size] says in words why not: AL_E_UNSUPPORTED when alula was built without ncurses
// or the terminal cannot move its cursor, AL_E_NOLIB, AL_E_NOENT for an unknown TERM.
// Handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT give the terminal back before the process dies; SIGWINCH,
// SIGTSTP and the like are the caller's (install them before).
int al_term_open(const struct al_term_options *o, struct al_term **ret, char *error, size_t size);
// Gives the terminal back. NULL is fine.
struct al_term *al_term_close(struct al_term *t);
// Gives it back for a while (SIGTSTP), and takes it again.
void al_term_suspend(struct al_term *t);
void al_term_resume(struct al_term *t);

// The same at once, from a signal handler, before _exit: output that waits for a halted terminal is thrown away.
void al_term_rescue(void);

bool al_term_colors(const struct al_term *t);
// Asks the kernel for the size and adopts it.
void al_term_size(struct al_term *t, int *ret_w, int *ret_h);
// Shows the grid; only what differs from the last one is sent.
void al_term_show(struct al_term *t, const struct al_grid *g);
// The next show sends everything.
void al_term_forget(struct al_term *t);
// The next key that is there, AL_KEY_NONE when none; AL_KEY_MOUSE fills *ret.
uint32_t al_term_key(struct al_term *t, struct al_term_mouse *ret);

#endif
