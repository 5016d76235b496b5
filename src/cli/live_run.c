// SPDX-License-Identifier: Apache-2.0
// alula stacks on a terminal: one thread samples, this one draws and answers keys.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "cli/cli.h"
#include "cli/live.h"
#include "cli/screen.h"

#define FRAME_MS 500

static void *sample(void *argument) {
    struct al_live *l = argument;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, AL_SCREEN_NUDGE);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    int result = al_profiling_sample(&l->p);
    atomic_store(&l->result, result);
    atomic_store(&l->done, 1);
    al_screen_wake();
    return NULL;
}

static void finish(struct al_live *l) {
    atomic_store(&l->stop, 1);
    while (!atomic_load(&l->done)) { // a nudge that comes before its sleep is lost
        (void)pthread_kill(l->sampler, AL_SCREEN_NUDGE);
        (void)poll(NULL, 0, 1);
    }
    (void)pthread_join(l->sampler, NULL);
}

struct screen {
    struct al_live *l;
    struct al_term *term;
    struct al_grid grid;
    struct al_stacks_in in;
    uint32_t forgets; // of the rows that `in` has
};

// fresh: with new figures, unless the screen is paused.
static int draw(struct screen *s, bool fresh) {
    struct al_live *l = s->l;
    int w, h, result = 0;
    al_term_size(s->term, &w, &h);
    pthread_mutex_lock(&l->lock);
    if (fresh || !s->in.view || s->forgets != l->forgets) {
        result = al_live_take(l, &s->in);
        s->forgets = l->forgets;
    }
    s->in.realtime_ns = al_realtime_ns();
    if (!result)
        result = al_grid_resize(&s->grid, w, h);
    if (!result) {
        al_grid_clear(&s->grid);
        al_stacks_draw(&s->grid, &s->in, &l->ui);
    }
    pthread_mutex_unlock(&l->lock);
    if (!result)
        al_term_show(s->term, &s->grid);
    return result;
}

// Answers every key that is there; true when the user leaves.
static bool answer(struct screen *s, bool *ret_any, int *ret_result) {
    struct al_term_mouse mouse;
    uint32_t key;
    while ((key = al_term_key(s->term, &mouse)) != AL_KEY_NONE) {
        *ret_any = true;
        pthread_mutex_lock(&s->l->lock);
        if (s->forgets != s->l->forgets && !(*ret_result = al_live_take(s->l, &s->in)))
            s->forgets = s->l->forgets;
        enum al_stacks_action action = key == AL_KEY_MOUSE ? al_stacks_mouse(&s->l->ui, &s->in, mouse.y, mouse.what)
                                                           : al_stacks_key(&s->l->ui, &s->in, key);
        if (action == AL_STACKS_RESET)
            al_live_reset(s->l);
        pthread_mutex_unlock(&s->l->lock);
        if (action == AL_STACKS_QUIT)
            return true;
        if (action == AL_STACKS_REDRAW)
            al_term_forget(s->term);
        // The next key is for what this one left behind.
        *ret_result = draw(s, true);
        if (*ret_result)
            return true;
    }
    return false;
}

static int loop(struct screen *s, int wake) {
    int result = draw(s, true);
    int64_t due = al_monotonic_ns() + FRAME_MS * AL_NS_PER_MS;
    bool leave = false;
    while (!leave && !result && !al_screen_ended()) {
        struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {wake, POLLIN, 0}};
        uint64_t count;
        bool any = false;
        int64_t left = (due - al_monotonic_ns()) / AL_NS_PER_MS;
        int n = poll(fds, 2, left > 0 ? (int)left : 0);
        if (n > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            return AL_E_IO;
        bool news = n > 0 && fds[1].revents & POLLIN &&
                    read(wake, &count, sizeof count) > 0; // NOLINT(clang-analyzer-unix.BlockInCriticalSection): no lock is held, and it does not block
        al_screen_halt(s->term);
        if (n > 0 && fds[0].revents & POLLIN)
            leave = answer(s, &any, &result);
        if (n > 0 && fds[0].revents & POLLIN && !any && !news)
            return AL_E_IO; // readable, but nothing to read: the terminal was closed
        if (leave || result)
            break;
        if (s->l->p.seconds > 0 && atomic_load(&s->l->done) && !s->l->p.all_ended)
            break; // --duration is over
        if (news || al_monotonic_ns() >= due) {
            result = draw(s, !s->l->ui.paused);
            due = al_monotonic_ns() + FRAME_MS * AL_NS_PER_MS;
        }
    }
    return result;
}

int al_live_run(struct al_live *l) {
    const struct al_term_options options = {.color = l->color, .mouse = true, .instead = "alula stacks --once"};
    struct screen s = {.l = l};
    char error[256];
    int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0) {
        al_cli_error("stacks: %s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    al_screen_signals(wake);
    int result = al_term_open(&options, &s.term, error, sizeof error);
    if (result) {
        al_cli_error("stacks: %s", error);
        (void)close(wake);
        return result == AL_E_NOLIB ? al_error_exit_status(result) : 1;
    }
    s.grid.ascii = l->ascii;
    l->p.lock = &l->lock;
    l->p.stop = &l->stop;
    l->p.mute = true;
    result = al_thread_start(&l->sampler, sample, l);
    if (!result) {
        result = loop(&s, wake);
        finish(l);
    }
    al_term_close(s.term);
    al_grid_free(&s.grid);
    (void)close(wake);
    int sampling = atomic_load(&l->result);
    if (!result && sampling)
        result = sampling;
    if (result && result != AL_E_IO)
        al_cli_error("stacks: %s", al_error_text(result));
    return al_screen_ended() ? 128 + al_screen_ended() : result == AL_E_IO ? 128 + SIGHUP : al_error_exit_status(result);
}
