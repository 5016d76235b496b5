// SPDX-License-Identifier: Apache-2.0
#include "launch/sentinel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define WAIT_MS 100
#define OLD_NS AL_NS_PER_S // what came earlier belongs to a signal that was handled (or merged) before

struct word {
    int64_t at_ns;
    int64_t number;
};

_Noreturn static void live(int fd, const sigset_t *signals, pid_t parent) {
    siginfo_t info;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "alula-signals");
    if (getppid() != parent)
        _exit(0);
    // It must not hold a pipe open that somebody reads to its end.
    int keep = dup2(fd, 0);
    for (int i = 1; i < 1024; i++)
        (void)close(i);
    if (keep != 0)
        _exit(0);
    for (;;) {
        int number = sigwaitinfo(signals, &info);
        if (number <= 0 || number == SIGCHLD)
            continue;
        struct word w = {al_monotonic_ns(), number};
        (void)!write(0, &w, sizeof w);
    }
}

void al_sentinel_start(struct al_sentinel *s, const sigset_t *signals) {
    int fds[2];
    pid_t parent = getpid();
    *s = (struct al_sentinel){0, -1};
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
        return;
    pid_t pid = fork();
    if (pid == 0)
        live(fds[1], signals, parent);
    (void)close(fds[1]);
    if (pid < 0) {
        (void)close(fds[0]);
        return;
    }
    *s = (struct al_sentinel){pid, fds[0]};
}

void al_sentinel_stop(struct al_sentinel *s) {
    if (s->pid > 0) {
        (void)kill(s->pid, SIGKILL);
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        (void)close(s->fd);
    }
    *s = (struct al_sentinel){0, -1};
}

bool al_sentinel_saw(struct al_sentinel *s, int number) {
    int64_t start = al_monotonic_ns(), now = start;
    while (s->pid > 0 && now - start < WAIT_MS * AL_NS_PER_MS) {
        struct word w;
        while (read(s->fd, &w, sizeof w) == (ssize_t)sizeof w)
            if (w.number == number && start - w.at_ns < OLD_NS)
                return true;
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        (void)poll(&p, 1, (int)(WAIT_MS - (now - start) / AL_NS_PER_MS));
        if (p.revents & (POLLHUP | POLLERR))
            return false;
        now = al_monotonic_ns();
    }
    return false;
}
