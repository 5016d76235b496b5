// SPDX-License-Identifier: Apache-2.0
// alula top on a terminal: one thread samples, this one draws and answers keys. A driver call that hangs, a reading that
// is late, a long interval: none of them keeps a key waiting.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/thread.h"
#include "cli/screen.h"
#include "cli/top.h"

#define FRAME_NS (40 * AL_NS_PER_MS)   // at most 25 frames a second, however fast a recording plays
#define AGE_MS 1000                    // without news the ages are drawn anew this often
#define LEAVE_NS (500 * AL_NS_PER_MS)  // a sampling thread that does not come back by then is left behind

// --- the sampling thread ---

static void *sample(void *argument) {
    struct al_top *t = argument;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, AL_SCREEN_NUDGE);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (;;) {
        // In this order: quit is set before stop, so that neither is missed.
        atomic_store(&t->stop, 0);
        if (atomic_load(&t->quit))
            break;
        int64_t interval = atomic_exchange(&t->interval_wanted, 0);
        if (interval)
            al_collect_set_interval(t->session.collect, interval);
        int result = al_collect_run(t->session.collect, 0, &t->stop);
        if (result) {
            atomic_store(&t->result, result);
            atomic_store(&t->ended, 1);
            al_screen_wake();
            break;
        }
    }
    return NULL;
}

// Ends the sampling thread's wait, if it waits.
static void nudge(struct al_top *t) {
    atomic_store(&t->stop, 1);
    (void)pthread_kill(t->thread, AL_SCREEN_NUDGE);
}

// False when the thread does not come back in time.
static bool finish(struct al_top *t) {
    int64_t began = al_monotonic_ns();
    atomic_store(&t->quit, 1);
    while (al_monotonic_ns() - began < LEAVE_NS) {
        nudge(t);
        int64_t until = al_realtime_ns() + 10 * AL_NS_PER_MS;
        struct timespec limit = {.tv_sec = until / AL_NS_PER_S, .tv_nsec = until % AL_NS_PER_S};
        if (pthread_timedjoin_np(t->thread, NULL, &limit) == 0)
            return true;
    }
    return false;
}

// --- signals to processes ---

// Field 22 of /proc/PID/stat; 0 when it cannot be read.
static uint64_t start_ticks(pid_t pid) {
    char path[40], text[1024], number[32];
    size_t len = 0;
    uint64_t ticks = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    len = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[len] = '\0';
    const char *at = strrchr(text, ')'); // the name may hold anything
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (at && al_str_copy_n(number, sizeof number, at, strcspn(at, " ")))
        (void)al_str_u64(number, &ticks);
    return ticks;
}

static int send(pid_t pid, uint64_t ticks, int number) {
    int fd = (int)syscall(SYS_pidfd_open, pid, 0), result;
    if (fd < 0 && errno != ENOSYS && errno != EPERM)
        return errno;
    // The handle is held while the identity is looked at: a pid that was given to somebody else is not hit.
    if (start_ticks(pid) != ticks)
        result = ESRCH;
    else if (fd >= 0)
        result = syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0 ? 0 : errno;
    else
        result = kill(pid, number) == 0 ? 0 : errno;
    if (fd >= 0)
        (void)close(fd);
    return result;
}

static const char *signal_name(int number) {
    for (const struct al_signal_row *s = al_signals; s->number; s++)
        if (s->number == number)
            return s->name;
    return "the signal";
}

void al_top_signal(struct al_ui *ui, const struct al_snapshot *s, bool local) {
    pid_t pid = ui->target.pid;
    const struct al_proc *p = s ? al_snapshot_proc(s, pid) : NULL;
    const char *name = signal_name(ui->target.number);
    ui->message_bad = true;
    if (!local) {
        (void)snprintf(ui->message, sizeof ui->message, "not sent: these processes are of a recording, not of this machine");
        return;
    }
    if (!ui->target.start_ticks || (p && p->foreign)) {
        (void)snprintf(ui->message, sizeof ui->message,
                       "not sent: %d belongs to another pid namespace; its number means something else here", (int)pid);
        return;
    }
    int error = send(pid, ui->target.start_ticks, ui->target.number);
    if (error == EPERM)
        (void)snprintf(ui->message, sizeof ui->message, "not permitted: %d belongs to %s", (int)pid,
                       p && *p->user ? p->user : "somebody else");
    else if (error == ESRCH)
        (void)snprintf(ui->message, sizeof ui->message, "%d is gone already", (int)pid);
    else if (error)
        (void)snprintf(ui->message, sizeof ui->message, "%s to %d: %s", name, (int)pid, strerror(error));
    else
        (void)snprintf(ui->message, sizeof ui->message, "%s was sent to %d", name, (int)pid);
    ui->message_bad = error != 0;
}

// --- the screen ---

static int draw(struct al_top *t, struct al_term *term) {
    int w, h;
    al_term_size(term, &w, &h);
    pthread_mutex_lock(&t->lock);
    t->silent_ns = atomic_load(&t->ended) || t->tui.ui.paused ? 0 : al_monotonic_ns() - t->last_tick_ns;
    struct al_scene_in in = al_top_input(t);
    int result = al_tui_frame(&t->tui, &in, w, h);
    pthread_mutex_unlock(&t->lock);
    if (!result)
        al_term_show(term, &t->tui.grid);
    return result;
}

// Answers every key that is there; true when the user leaves.
static bool answer(struct al_top *t, struct al_term *term, bool *ret_any) {
    struct al_term_mouse mouse;
    uint32_t key;
    while ((key = al_term_key(term, &mouse)) != AL_KEY_NONE) {
        struct al_scene_in in = al_top_input(t);
        enum al_action action = key == AL_KEY_MOUSE ? al_tui_mouse(&t->tui, &in, mouse.x, mouse.y, mouse.what)
                                                    : al_tui_key(&t->tui, &in, key);
        *ret_any = true;
        switch (action) {
        case AL_ACTION_QUIT: return true;
        case AL_ACTION_SIGNAL: al_top_signal(&t->tui.ui, in.s, !t->session.source); break;
        case AL_ACTION_INTERVAL:
            atomic_store(&t->interval_wanted, t->tui.ui.interval_ns);
            if (!atomic_load(&t->ended))
                nudge(t);
            break;
        case AL_ACTION_REDRAW: al_term_forget(term); break;
        case AL_ACTION_NONE: break;
        }
        // The next key is for what this one left behind.
        if (draw(t, term) != 0)
            return true;
    }
    return false;
}

// Waits for a key, news or a signal. False when the terminal is gone.
static bool wait_for(struct al_top *t, int64_t timeout_ms, bool *ret_key, bool *ret_news) {
    struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {t->wake, POLLIN, 0}};
    uint64_t count;
    int n = poll(fds, 2, (int)timeout_ms);
    *ret_key = n > 0 && fds[0].revents & POLLIN;
    *ret_news = n > 0 && fds[1].revents & POLLIN && read(t->wake, &count, sizeof count) > 0;
    return !(n > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

static int loop(struct al_top *t, struct al_term *term) {
    int64_t drawn_ns = 0;
    bool news = true, key = false, leave = false;
    while (!leave && !al_screen_ended()) {
        int64_t now = al_monotonic_ns(), wait = FRAME_NS - (now - drawn_ns);
        al_screen_halt(term);
        if (news && wait <= 0) {
            if (!t->tui.ui.paused && al_top_take(t) != 0)
                return AL_E_NOMEM;
            if (draw(t, term) != 0)
                return AL_E_NOMEM;
            drawn_ns = al_monotonic_ns();
            news = false;
        }
        bool more = false;
        if (!wait_for(t, news ? wait / AL_NS_PER_MS + 1 : AGE_MS, &key, &more))
            return AL_E_IO;
        bool any = false;
        if (key)
            leave = answer(t, term, &any);
        if (key && !any && !more)
            return AL_E_IO; // readable, but nothing to read: the terminal was closed
        news |= more || (!key && !more);
    }
    return 0;
}

int al_top_run(struct al_top *t, bool color, bool mouse) {
    const struct al_term_options options = {.color = color, .mouse = mouse, .instead = "alula watch or alula top --once"};
    struct al_term *term = NULL;
    char error[256];
    al_screen_signals(t->wake);
    int result = al_term_open(&options, &term, error, sizeof error);
    if (result) {
        al_cli_error("%s", error);
        return result == AL_E_NOLIB ? al_error_exit_status(result) : 1;
    }
    t->tui.color = al_term_colors(term);
    result = al_thread_start(&t->thread, sample, t);
    bool finished = true;
    if (!result) {
        result = loop(t, term);
        finished = finish(t);
    }
    al_term_close(term);
    int sampling = atomic_load(&t->result);
    int status = al_screen_ended() ? 128 + al_screen_ended() : result == AL_E_IO ? 128 + SIGHUP : al_error_exit_status(result);
    if (sampling && sampling != AL_E_END) {
        al_cli_error("%s", al_error_text(sampling));
        status = al_error_exit_status(sampling);
    }
    if (!finished)
        _exit(status); // the sampling thread still stands in somebody else's call
    return status;
}
