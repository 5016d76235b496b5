// SPDX-License-Identifier: Apache-2.0
#include "launch/job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/environment.h"

// Left alone: what cannot be caught, what a fault raises, and job control, where the kernel's default is right: Ctrl-Z
// stops alula and the job together, and fg wakes both.
static const int left_alone[] = {SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGSEGV, SIGBUS,
                                 SIGFPE,  SIGILL,  SIGABRT, SIGTRAP, SIGSYS,  SIGPROF};

static void fill_blocked(sigset_t *set) {
    sigfillset(set);
    for (size_t i = 0; i < sizeof left_alone / sizeof *left_alone; i++)
        sigdelset(set, left_alone[i]);
}

_Noreturn static void become(const struct al_job_options *o, const struct al_job *j, int tell_fd) {
    struct al_environment added;
    al_environment_set(o, &added);
    (void)sigaction(SIGCHLD, &j->child_before, NULL);
    (void)sigprocmask(SIG_SETMASK, &j->before, NULL);
    (void)execvp(o->argv[0], o->argv);
    if (errno == E2BIG) {
        al_environment_undo(&added); // it fits without alula's part
        (void)execvp(o->argv[0], o->argv);
    }
    int error = errno;
    (void)!write(tell_fd, &error, sizeof error);
    _exit(127);
}

static int wait_for_exec(struct al_job *j, int fd, int *ret_errno) {
    int error = 0;
    ssize_t len;
    while ((len = read(fd, &error, sizeof error)) < 0 && errno == EINTR)
        continue;
    if (len != (ssize_t)sizeof error)
        return 0; // closed by exec
    *ret_errno = error;
    while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return error == ENOENT || error == ENOTDIR ? AL_E_NOENT : AL_E_DENIED;
}

const char *al_job_why(const char *program, int result, int error) {
    if (result != AL_E_NOENT)
        return strerror(error);
    // Where the file is there, it is what its first line names, or its loader, that is not.
    return strchr(program, '/') && access(program, F_OK) == 0 ? "the interpreter that it names is not there" : "command not found";
}

int al_job_start(const struct al_job_options *options, struct al_job *ret, int *ret_errno) {
    struct al_job *j = ret;
    struct sigaction plain = {.sa_handler = SIG_DFL};
    int tell[2];
    memset(j, 0, sizeof *j);
    *ret_errno = 0;
    j->signal_fd = -1;
    fill_blocked(&j->blocked);
    (void)sigaction(SIGCHLD, &plain, &j->child_before); // an inherited SIG_IGN would hide the status
    (void)sigprocmask(SIG_BLOCK, &j->blocked, &j->before);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); // ranks that outlive their launcher tell how they ended
    if (pipe2(tell, O_CLOEXEC)) {
        *ret_errno = errno;
        return AL_E_IO;
    }
    j->signal_fd = signalfd(-1, &j->blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    j->pid = j->signal_fd < 0 ? -1 : fork();
    if (j->pid == 0)
        become(options, j, tell[1]);
    *ret_errno = errno;
    (void)close(tell[1]);
    int result = j->pid < 0 ? AL_E_IO : wait_for_exec(j, tell[0], ret_errno);
    (void)close(tell[0]);
    if (result)
        al_job_done(j);
    else
        al_sentinel_start(&j->sentinel, &j->blocked);
    return result;
}

void al_job_reap(struct al_job *j, al_job_orphan_fn *fn, void *user) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == j->pid) {
            j->ended = true;
            j->status = status;
        } else if (pid == j->sentinel.pid) {
            j->sentinel.pid = 0;
        } else if (fn) {
            fn(user, pid, status);
        }
    }
}

static bool ends_jobs(int number) {
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

// The terminal's signals go to the group; but its hang-up goes to the session's leader alone, which may be alula.
static bool reached_job(struct al_job *j, const struct signalfd_siginfo *info) {
    if (j->sentinel.pid <= 0)
        return info->ssi_code == SI_KERNEL && getsid(0) != getpid();
    return al_sentinel_saw(&j->sentinel, (int)info->ssi_signo);
}

int al_job_signals(struct al_job *j, al_job_orphan_fn *fn, void *user) {
    struct signalfd_siginfo info;
    int told = 0;
    while (read(j->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) {
            al_job_reap(j, fn, user);
            continue;
        }
        if (number == SIGPIPE || number == SIGXFSZ)
            continue; // alula's own: a write that failed says so itself
        if (ends_jobs(number))
            told = number;
        if (!j->ended && !reached_job(j, &info))
            (void)kill(j->pid, number);
    }
    return told;
}

void al_job_done(struct al_job *j) {
    al_sentinel_stop(&j->sentinel);
    if (j->signal_fd >= 0)
        (void)close(j->signal_fd);
    j->signal_fd = -1;
}

_Noreturn void al_job_exit_as(struct al_job *j) {
    if (!WIFSIGNALED(j->status))
        _exit(WIFEXITED(j->status) ? WEXITSTATUS(j->status) : 125);
    int number = WTERMSIG(j->status);
    const struct rlimit none = {0, 0};
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t one;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)sigaction(number, &plain, NULL);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    // As PID 1 the kernel keeps such a signal from us.
    _exit(128 + number);
}
