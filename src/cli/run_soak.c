// SPDX-License-Identifier: Apache-2.0
#include "cli/run_soak.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"
#include "detect/say.h"

#define STATUS_FAILED 125
#define STATUS_FINDING 3
#define PROGRESS_NS (600 * AL_NS_PER_S)
#define GRACE_NS (60 * AL_NS_PER_S) // from SIGTERM to SIGKILL
#define RUN_LEAST_NS AL_NS_PER_S   // a shorter run is not repeated at once
#define SLOPE_BLOCKS 10            // fewer give no slope
#define SLOPES_MOST 16             // lines

enum leak { LEAK_NONE, LEAK_FOUND, LEAK_UNKNOWN };

// What the alula of one run tells the one above.
struct result {
    uint64_t steps;
    int64_t said_ns; // when it last said how far it is
    int32_t leak; // enum leak
    int32_t status;  // of the job, as waitpid gives it
    bool asked, told; // asked: ended by the soak; told: by a signal of the user
    char message[320];
};

// ---- in the alula of one run ----

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print(const char *format, ...) {
    char line[900];
    struct al_buf b = AL_BUF_INIT;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    al_buf_str(&b, "alula: soak: ");
    al_term_string(&b, line);
    al_buf_char(&b, '\n');
    al_run_print(&b);
}

static uint64_t steps_of(const struct al_run *r) {
    const struct al_book_rank *leader = al_book_leader(&r->book);
    return leader ? al_tally_steps(&leader->tally) : 0;
}

static int64_t progress_every(const struct al_run_soak *s) {
    return s->length_ns >= 4 * PROGRESS_NS ? PROGRESS_NS : s->length_ns / 4 > AL_NS_PER_S ? s->length_ns / 4 : AL_NS_PER_S;
}

void al_run_soak_tick(struct al_run *r, int64_t now_ns) {
    struct al_run_soak *s = &r->soak;
    if (!s->length_ns)
        return;
    if (now_ns - s->said_ns >= progress_every(s) && !r->quiet) {
        s->said_ns += (now_ns - s->said_ns) / progress_every(s) * progress_every(s);
        print("%s of %s, run %u, step %llu of it", al_say_seconds((double)(now_ns - s->begin_ns) / 1e9).s,
              al_say_seconds((double)s->length_ns / 1e9).s, s->number, (unsigned long long)steps_of(r));
    }
    if (now_ns >= s->end_ns && !s->asked) {
        s->asked = true;
        s->kill_ns = now_ns + GRACE_NS;
        (void)kill(r->job.pid, SIGTERM);
    }
    if (s->asked && now_ns >= s->kill_ns) {
        s->kill_ns = INT64_MAX;
        (void)kill(r->job.pid, SIGKILL);
    }
}

static struct al_say signed_bytes(double bytes) {
    struct al_say say = al_say_bytes(fabs(bytes));
    size_t len = strlen(say.s);
    if (bytes < 0 && len + 2 < sizeof say.s) {
        memmove(say.s + 1, say.s, len + 1);
        say.s[0] = '-';
    }
    return say;
}

static void put_slope(struct al_buf *b, const char *between, const char *what, const struct al_floor *f) {
    struct al_floor_trend t;
    if (!f->count)
        return;
    al_buf_printf(b, "%s %s ", between, what);
    if (al_floor_trend(f, SLOPE_BLOCKS, &t)) {
        al_buf_str(b, "too little data");
        return;
    }
    al_buf_printf(b, "%s a step (95 %% interval %s to %s)", signed_bytes(t.per_step).s, signed_bytes(t.low).s,
                  signed_bytes(t.high).s);
}

static void print_slopes(const struct al_run *r) {
    uint32_t lines = 0;
    for (uint32_t i = 0; i < r->book.rank_count; i++) {
        const struct al_tally *t = &r->book.ranks[i]->tally;
        struct al_buf b = AL_BUF_INIT;
        if (!al_tally_trains(t) || lines++ >= SLOPES_MOST)
            continue;
        al_buf_printf(&b, "run %u, rank %lld, %llu steps", r->soak.number, (long long)(t->rank < 0 ? 0 : t->rank),
                      (unsigned long long)al_tally_steps(t));
        put_slope(&b, ";", "host", &t->host.anon);
        for (uint32_t d = 0; d < t->device_count; d++) {
            al_buf_printf(&b, "; cuda:%d", (int)t->memory[d].device);
            put_slope(&b, "", "allocated", &t->memory[d].allocated);
            put_slope(&b, ",", "reserved", &t->memory[d].reserved);
            put_slope(&b, ",", "outside torch", &t->memory[d].outside);
        }
        if (b.data && !b.failed)
            print("%s", b.data);
        al_buf_free(&b);
    }
}

static bool is_leak_rule(const char *rule) {
    return strcmp(rule, "allocated") == 0 || strcmp(rule, "outside_torch") == 0 || strcmp(rule, "host") == 0;
}

// No rule that could see a leak could judge: unknown.
static void judge(struct al_run *r, struct result *ret) {
    const struct al_steps_verdict *v;
    bool judged = false;
    uint32_t count = al_book_judge(&r->book, false, &v);
    for (uint32_t i = 0; i < count && ret->leak != LEAK_FOUND; i++) {
        if (!is_leak_rule(v[i].rule))
            continue;
        judged |= v[i].verdict == AL_VERDICT_FINDING || v[i].verdict == AL_VERDICT_QUIET;
        bool leak = v[i].verdict == AL_VERDICT_FINDING && al_run_is_leak(&v[i].finding);
        if (!leak && ret->message[0])
            continue;
        if (leak || (v[i].verdict != AL_VERDICT_QUIET && v[i].verdict != AL_VERDICT_FINDING))
            (void)al_str_copy(ret->message, sizeof ret->message, v[i].finding.message);
        ret->leak = leak ? LEAK_FOUND : LEAK_NONE;
    }
    if (r->leak && ret->leak != LEAK_FOUND) {
        ret->leak = LEAK_FOUND;
        (void)al_str_copy(ret->message, sizeof ret->message, "host memory grows (rule host_memory)");
    }
    if (ret->leak != LEAK_FOUND && !judged)
        ret->leak = LEAK_UNKNOWN;
}

void al_run_soak_tell(struct al_run *r) {
    struct result result = {.status = r->job.status, .asked = r->soak.asked, .told = r->told_signal != 0, .said_ns = r->soak.said_ns};
    if (!r->soak.length_ns)
        return;
    pthread_mutex_lock(&r->lock);
    result.steps = steps_of(r);
    judge(r, &result);
    pthread_mutex_unlock(&r->lock);
    if (!r->quiet)
        print_slopes(r);
    (void)!write(r->soak.tell_fd, &result, sizeof result);
}

// ---- the alula above ----

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDS (sizeof ends / sizeof *ends)

static volatile sig_atomic_t child_pid, told_signal;

// The terminal's signals reach the whole group by themselves.
static void on_end(int number, siginfo_t *info, void *context) {
    (void)context;
    told_signal = number;
    if (child_pid > 0 && info->si_code != SI_KERNEL)
        (void)kill((pid_t)child_pid, number);
}

static void handle_ends(struct sigaction *before) {
    struct sigaction own = {.sa_sigaction = on_end, .sa_flags = SA_SIGINFO};
    for (size_t i = 0; i < ENDS; i++)
        (void)sigaction(ends[i], &own, &before[i]);
}

static void restore_ends(const struct sigaction *before) {
    for (size_t i = 0; i < ENDS; i++)
        (void)sigaction(ends[i], &before[i], NULL);
}

// One run; its alula's status as waitpid gives it. False: it told nothing.
static bool one_run(struct al_run *r, int (*run)(struct al_run *), const struct sigaction *before, struct result *ret,
                    int *ret_status) {
    int tell[2];
    sigset_t held, mask;
    *ret_status = STATUS_FAILED << 8;
    if (pipe2(tell, O_CLOEXEC))
        return false;
    sigemptyset(&held);
    for (size_t i = 0; i < ENDS; i++)
        sigaddset(&held, ends[i]);
    (void)sigprocmask(SIG_BLOCK, &held, &mask); // until the child's pid is known and its handlers are the old ones
    pid_t pid = fork();
    if (pid == 0) {
        restore_ends(before);
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        (void)close(tell[0]);
        r->soak.tell_fd = tell[1];
        r->record.off |= r->soak.number > 1; // one recording shows what hundreds would
        int status = run(r);
        _exit(status == 126 || status == 127 ? status : STATUS_FAILED);
    }
    child_pid = pid;
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    (void)close(tell[1]);
    while (pid > 0 && waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        continue;
    child_pid = 0;
    bool told = pid > 0 && read(tell[0], ret, sizeof *ret) == (ssize_t)sizeof *ret;
    (void)close(tell[0]);
    return told;
}

_Noreturn static void exit_as(int status) {
    struct al_job like = {.status = status, .signal_fd = -1};
    al_job_exit_as(&like);
}

struct sum {
    uint32_t runs, leaks, unknown;
    uint64_t steps;
    bool failed; // a finding of --fail-on
    char message[320], why[320];
};

static void add(struct sum *sum, const struct result *one, int status) {
    sum->runs++;
    sum->steps += one->steps;
    sum->failed |= WIFEXITED(status) && WEXITSTATUS(status) == STATUS_FINDING;
    sum->leaks += one->leak == LEAK_FOUND;
    sum->unknown += one->leak == LEAK_UNKNOWN;
    if (one->leak == LEAK_FOUND && !sum->message[0])
        (void)al_str_copy(sum->message, sizeof sum->message, one->message);
    if (one->leak == LEAK_UNKNOWN && !sum->why[0])
        (void)al_str_copy(sum->why, sizeof sum->why, one->message);
}

static void say_sum(const struct sum *sum, int64_t passed_ns) {
    const char *s = sum->runs == 1 ? "" : "s";
    struct al_say time = al_say_seconds((double)passed_ns / 1e9);
    if (sum->leaks)
        print("%u run%s in %s, %llu steps: a leak in %u of them: %s", sum->runs, s, time.s, (unsigned long long)sum->steps,
              sum->leaks, sum->message);
    else if (sum->unknown == sum->runs)
        print("%u run%s in %s, %llu steps: cannot tell whether memory leaks: %s", sum->runs, s, time.s,
              (unsigned long long)sum->steps, sum->why[0] ? sum->why : "too little data");
    else
        print("%u run%s in %s, %llu steps: no leak found%s", sum->runs, s, time.s, (unsigned long long)sum->steps,
              sum->unknown ? " (some runs were too short to tell)" : "");
}

static void pause_until(int64_t until_ns) {
    int64_t left;
    while (!told_signal && (left = until_ns - al_monotonic_ns()) > 0) {
        struct timespec t = {.tv_sec = left / AL_NS_PER_S, .tv_nsec = left % AL_NS_PER_S};
        (void)nanosleep(&t, NULL);
    }
}

int al_run_soak(struct al_run *r, int (*run)(struct al_run *)) {
    struct sigaction before[ENDS];
    struct sum sum = {0};
    struct result one;
    int status;
    r->soak.begin_ns = r->soak.said_ns = al_monotonic_ns();
    r->soak.end_ns = r->soak.begin_ns + r->soak.length_ns;
    handle_ends(before);
    for (;;) {
        int64_t begin = al_monotonic_ns();
        r->soak.number++;
        if (!one_run(r, run, before, &one, &status))
            break; // it could not begin, or died: said already
        add(&sum, &one, status);
        r->soak.said_ns = one.said_ns;
        if (one.told || told_signal || (one.status && !one.asked))
            break;
        if (one.asked || al_monotonic_ns() >= r->soak.end_ns) {
            status = 0;
            break;
        }
        pause_until(begin + RUN_LEAST_NS);
    }
    restore_ends(before);
    if (sum.runs && !r->quiet)
        say_sum(&sum, al_monotonic_ns() - r->soak.begin_ns);
    // A job that failed by itself shows as without a soak.
    if (status == 0 && sum.failed)
        _exit(STATUS_FINDING);
    exit_as(status);
}
