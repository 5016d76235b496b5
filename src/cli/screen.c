// SPDX-License-Identifier: Apache-2.0
#include "cli/screen.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

static volatile sig_atomic_t caught; // the signal to end by
static volatile sig_atomic_t halted; // SIGTSTP
static int wake_fd = -1;

void al_screen_wake(void) {
    uint64_t one = 1;
    int saved = errno;
    (void)!write(wake_fd, &one, sizeof one);
    errno = saved;
}

static void on_end(int number) {
    if (caught) { // the second one does not wait for a terminal that takes no output
        al_term_rescue();
        _exit(128 + number);
    }
    caught = number;
    al_screen_wake();
}
static void on_halt(int number) {
    (void)number;
    halted = 1;
    al_screen_wake();
}
static void on_nothing(int number) { // SIGWINCH, SIGCONT: a new frame; AL_SCREEN_NUDGE: out of a sleep
    if (number != AL_SCREEN_NUDGE)
        al_screen_wake();
}

static void catch(int number, void (*handler)(int)) {
    struct sigaction a = {.sa_handler = handler};
    sigemptyset(&a.sa_mask);
    (void)sigaction(number, &a, NULL);
}

void al_screen_signals(int eventfd) {
    wake_fd = eventfd;
    catch(SIGTERM, on_end);
    catch(SIGINT, on_end);
    catch(SIGHUP, on_end);
    catch(SIGQUIT, on_end);
    catch(SIGTSTP, on_halt);
    catch(SIGWINCH, on_nothing);
    catch(SIGCONT, on_nothing);
    catch(AL_SCREEN_NUDGE, on_nothing);
    catch(SIGPIPE, SIG_IGN);
}

int al_screen_ended(void) {
    return caught;
}

void al_screen_halt(struct al_term *term) {
    if (!halted)
        return;
    halted = 0;
    al_term_suspend(term);
    catch(SIGTSTP, SIG_DFL);
    (void)raise(SIGTSTP);
    catch(SIGTSTP, on_halt); // back again
    al_term_resume(term);
}
