// SPDX-License-Identifier: Apache-2.0
// alula attach: what alula run does, for a job that runs already; and nothing is left of it afterwards.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/attach.h"
#include "cli/run_board.h"
#include "cli/run_host.h"
#include "launch/end.h"

#define WAIT_NS (10 * AL_NS_PER_S)  // for an interpreter to run its line
#define LEAVE_NS (5 * AL_NS_PER_S)  // for it to take the hook out
#define RETURN_NS (40 * AL_NS_PER_S) // for a probe to look again whether somebody listens
#define STATUS_FINDING 3
#define HELP (-1)

static const char help[] =
    "Usage: alula attach [options] PID\n"
    "Watches a training job that runs already, as alula run would: steps, phases and memory from the inside, its GPUs from\n"
    "the outside. PID is a training process, or its launcher (torchrun, swift, a shell script): then all its ranks. Ctrl-C,\n"
    "--for or the job's end ends it; everything is taken out of the job again, which goes on.\n\n"
    "  --for TIME          end after TIME (30s, 10min)\n"
    "  --wait TIME         for the processes to let alula in (default 10s)\n"
    "  --tree              all ranks of PID's job, not only PID\n"
    "  --output-dir DIR    where metrics_report.json goes; default: where the trainer says that it writes\n"
    "  --log-every N       a few lines every N steps: memory, times of the phases, GPU utilisation\n"
    "  --tensorboard[=DIR] scalars for TensorBoard: a point every --log-every steps, else about one a second; default\n"
    "                      folder: runs/alula in the output folder, beside what the trainer writes\n"
    "  --record FILE       the recording goes there; default: run.alula in the output folder (alula report run.alula)\n"
    "  --no-record         no recording\n"
    "  --fail-on WHAT      exit with status 3 when this was found: a level or above (info, warning, critical), leak (memory\n"
    "                      that is kept), rules by name (data_wait,communication ...)\n"
    "  --model-size N[B]   billions of parameters: sets the memory limit (7B 80 %, 70B 90 %)\n"
    "  --empty-cache-above SIZE|SHARE  call torch.cuda.empty_cache() at a step's end when that much is held and unused,\n"
    "                      at most once a minute; each time it says what came back and what it cost (off by default)\n"
    "  --preset debug      everything on: --log-every 1, --verbose\n"
    "  --quiet             no start line, findings and summary\n"
    "  --verbose           at the end, what every rule thought\n"
    "  --interval TIME     time between readings of the GPUs (default 500ms)\n"
    "  --gpu LIST          only these GPUs: index, UUID or PCI id, separated by commas\n"
    "  --config FILE       settings (YAML; see section training of alula check-config --print)\n"
    "  --no-cmdline        never keep command lines\n"
    "  --no-stacks         never look at the Python stacks of ranks that wait (they are not stopped by it)\n"
    "  --no-color, --color colours off or on; default: on a terminal without NO_COLOR\n"
    "  --help              this text\n"
    "\nExamples:\n"
    "  alula attach --for 60s 4242\n"
    "  alula attach --log-every 10 --output-dir . $(pgrep -f torchrun)\n"
    "  sudo alula attach --for 5min $(docker inspect -f '{{.State.Pid}}' training)\n"
    "\nExit status: 0 when it was attached; 1 a process did not let alula in in time; 4 not permitted; 5 no such process;\n"
    "3 a finding of --fail-on.\n";

enum { OPT_FOR = 200, OPT_WAIT, OPT_TREE, OPTIONS_MOST = 64 };
static const struct option own_options[] = {
    {"for", required_argument, NULL, OPT_FOR},
    {"wait", required_argument, NULL, OPT_WAIT},
    {"tree", no_argument, NULL, OPT_TREE},
    {0},
};

struct attach {
    struct al_run run;
    struct al_attach them;
    pid_t pid;
    bool tree, told;    // told: by a signal to end
    bool returned;      // their probe is there from an alula run that has gone
    bool ended;         // the job has
    int64_t for_ns, wait_ns;
};

static int take_time(const char *name, const char *argument, int64_t *ret) {
    double seconds;
    if (al_unit_parse(argument, AL_UNIT_SECONDS, &seconds) || seconds <= 0 || seconds > 1e8) {
        al_cli_error("--%s %s: expected a time with its unit, such as 30s or 10min", name, argument);
        return al_error_exit_status(AL_E_INVALID);
    }
    *ret = (int64_t)(seconds * 1e9);
    return 0;
}

static int take_option(struct attach *t, int option, const char *argument) {
    switch (option) {
    case OPT_FOR: return take_time("for", argument, &t->for_ns);
    case OPT_WAIT: return take_time("wait", argument, &t->wait_ns);
    case OPT_TREE: t->tree = true; return 0;
    default: return al_run_take_option(&t->run, option, argument);
    }
}

static int listen_to_signals(struct attach *t) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    t->run.job.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return t->run.job.signal_fd < 0 ? AL_E_IO : 0;
}

static void take_signals(struct attach *t) {
    struct signalfd_siginfo info;
    while (read(t->run.job.signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        t->told |= info.ssi_signo != SIGPIPE;
}

static void name_command(struct attach *t) {
    char words[4096];
    int root;
    if (al_fs_root("/", &root))
        return;
    ssize_t length = al_fs_readf(root, words, sizeof words, "proc/%d/cmdline", (int)t->pid);
    (void)close(root);
    if (length > 0)
        al_run_name_command(&t->run, words, (size_t)length);
    else
        (void)al_str_copy(t->run.book.job.command, sizeof t->run.book.job.command, "the command");
}

// Each that was refused, with its reason. The exit status of the first.
static int say_refused(const struct attach *t) {
    int error = 0;
    for (uint32_t i = 0; i < t->them.count; i++) {
        const struct al_attach_process *p = &t->them.processes[i];
        if (p->state != AL_ATTACH_REFUSED)
            continue;
        if (*p->why)
            al_cli_error("attach: %s%s", al_str_starts(p->why, "process ") || al_str_starts(p->why, "no process") ||
                         al_str_starts(p->why, "kernel.") ? "" : "it is left alone: ", p->why);
        error = error ? error : p->error;
    }
    al_attach_say_late(&t->them);
    return al_error_exit_status(error);
}

static void look(struct attach *t, int64_t due_ns) {
    struct pollfd p[1 + AL_ATTACH_MOST];
    uint32_t count = al_attach_poll(&t->them, p);
    al_run_wait(&t->run, p, count, due_ns);
    int64_t now = al_monotonic_ns();
    al_run_note_ends(&t->run, now);
    take_signals(t);
    al_run_accept(&t->run, now);
    al_run_ask_tick(&t->run, now);
    al_attach_hear(&t->them);
}

// The probe of an alula run that has gone is listened for where that one did. False: there is none.
static bool take_over(struct attach *t, int *ret_status) {
    static char text[1 << 18];
    const struct al_attach_process *p = NULL;
    int root;
    *ret_status = 0;
    for (uint32_t i = 0; i < t->them.count && !p; i++)
        if (t->them.processes[i].state == AL_ATTACH_FOUND)
            p = &t->them.processes[i];
    if (!p || al_fs_root("/", &root))
        return false;
    ssize_t length = al_fs_readf(root, text, sizeof text, "proc/%d/environ", (int)p->pid);
    (void)close(root);
    const char *path = NULL;
    for (ssize_t at = 0; at < length && !path; at += (ssize_t)strlen(text + at) + 1)
        if (al_str_starts(text + at, "ALULA_SOCKET="))
            path = text + at + strlen("ALULA_SOCKET=");
    if (!path || !*path)
        return false;
    int result = t->them.foreign ? AL_E_DENIED : al_link_take_over(&t->run.link, path);
    if (!result)
        return true;
    al_cli_error(result == AL_E_AGAIN ? "attach: process %d is watched by an alula run already"
                                      : "attach: process %d was started by an alula run in another container or of another user: "
                                        "attach to it there", (int)p->pid);
    *ret_status = al_error_exit_status(result);
    return true;
}

static int wait_for_return(struct attach *t) {
    int64_t until = al_monotonic_ns() + (t->wait_ns > RETURN_NS ? t->wait_ns : RETURN_NS);
    t->returned = true;
    while (!t->told && !t->run.book.rank_count && al_monotonic_ns() < until)
        look(t, until);
    if (t->run.book.rank_count || t->told)
        return 0;
    al_cli_error("attach: the probe that alula run brought into process %d did not come back: it looks at the end of a step, at "
                 "most every 30 s", (int)t->pid);
    return al_error_exit_status(AL_E_TIMEOUT);
}

static int go_in(struct attach *t) {
    char why[AL_INJECT_WHY];
    struct al_run *r = &t->run;
    if (!r->probed || !r->hooked) {
        al_cli_error("attach: the probe or its start hook is not installed beside this alula");
        return al_error_exit_status(AL_E_NOENT);
    }
    int result = al_attach_open(&t->them, &r->link, r->hook, r->probe, why, sizeof why);
    if (result) {
        al_cli_error("attach: %s", why);
        return al_error_exit_status(result);
    }
    r->linked = true;
    al_attach_ask(&t->them, &r->link);
    int64_t until = al_monotonic_ns() + t->wait_ns;
    while (!t->told && al_attach_count(&t->them, AL_ATTACH_ASKED) && al_monotonic_ns() < until)
        look(t, until);
    al_attach_give_up(&t->them);
    int status = say_refused(t);
    return al_attach_count(&t->them, AL_ATTACH_THERE) ? 0 : status ? status : al_error_exit_status(AL_E_GONE);
}

static int enter(struct attach *t) {
    int status;
    struct al_attach_job job = {.top = t->pid};
    int result = al_attach_init(&t->them);
    if (!result)
        result = al_attach_find(&t->them, t->pid, t->tree, &job);
    t->run.job.pid = job.top;
    if (!result)
        result = listen_to_signals(t);
    if (result) {
        al_cli_error("attach: %s", result == AL_E_INVALID ? job.several : al_error_text(result));
        return al_error_exit_status(result);
    }
    if (!al_attach_count(&t->them, AL_ATTACH_FOUND))
        return say_refused(t);
    t->run.elsewhere = *t->them.root;
    if (take_over(t, &status)) {
        t->run.linked = !status;
        return status ? status : wait_for_return(t);
    }
    return go_in(t);
}

static void say_start(const struct attach *t) {
    struct al_buf b = AL_BUF_INIT;
    uint32_t count = 0;
    if (t->run.quiet)
        return;
    al_buf_str(&b, "alula: attached to ");
    for (uint32_t i = 0; i < t->them.count; i++) {
        const struct al_attach_process *p = &t->them.processes[i];
        if (p->state != AL_ATTACH_THERE && !t->returned)
            continue;
        al_buf_printf(&b, "%s%d", count++ ? ", " : "pid ", (int)p->pid);
        if (al_str_starts(p->word, "there "))
            al_buf_printf(&b, " (%s)", p->word + 6);
    }
    al_buf_str(&b, ": ");
    al_term_string(&b, t->run.book.job.command);
    if (t->returned)
        al_buf_str(&b, "; its probe is that of an alula run that has gone");
    al_buf_str(&b, t->for_ns ? "; Ctrl-C ends it sooner than --for, and the job goes on\n" : "; Ctrl-C ends it, and the job goes on\n");
    al_run_print(&b);
}

static bool all_ended(const struct attach *t) {
    if (!t->returned)
        return !al_attach_count(&t->them, AL_ATTACH_THERE);
    for (uint32_t i = 0; i < t->run.book.rank_count; i++)
        if (!t->run.ranks[i].book->ended)
            return false;
    return t->run.book.rank_count > 0;
}

static void watch(struct attach *t) {
    int64_t until = t->for_ns ? al_monotonic_ns() + t->for_ns : INT64_MAX, due = al_monotonic_ns();
    while (!t->told && !(t->ended = all_ended(t))) {
        int64_t now = al_monotonic_ns();
        if (now >= until)
            break;
        look(t, due < until ? due : until);
        now = al_monotonic_ns();
        if (now < due)
            continue;
        al_run_tick(&t->run, now);
        due = now + AL_RUN_TICK_NS;
    }
}

static void leave(struct attach *t) {
    int64_t until = al_monotonic_ns() + LEAVE_NS;
    al_attach_leave(&t->them);
    while (al_attach_count(&t->them, AL_ATTACH_LEAVING) && al_monotonic_ns() < until)
        look(t, until);
}

static void say_left(const struct attach *t) {
    struct al_buf b = AL_BUF_INIT;
    uint32_t left = al_attach_count(&t->them, AL_ATTACH_LEFT), late = al_attach_count(&t->them, AL_ATTACH_LEAVING);
    if (t->run.quiet)
        return;
    if (t->ended)
        al_buf_str(&b, "alula: the job has ended\n");
    else if (t->returned)
        al_buf_str(&b, "alula: the job goes on, its probe waits for another alula attach\n");
    else if (left || late)
        al_buf_printf(&b, "alula: taken out of %u process%s, the job goes on\n", left + late, left + late == 1 ? "" : "es");
    if (late && !t->ended)
        al_buf_printf(&b, "alula: %u of them had no time for it yet and will do so by themselves\n", late);
    for (uint32_t i = 0; i < t->them.count; i++)
        if (al_str_starts(t->them.processes[i].word, "left: "))
            al_buf_printf(&b, "alula: pid %d: %s\n", (int)t->them.processes[i].pid, t->them.processes[i].word + 6);
    al_run_print(&b);
}

static int attach(struct attach *t) {
    struct al_run *r = &t->run;
    static char *const none[] = {NULL};
    r->argv = none;
    r->job.pid = t->pid;
    r->attached = r->goes_on = true;
    int status = al_run_prepare(r);
    if (status)
        return status;
    name_command(t);
    status = enter(t);
    if (status || t->told) {
        al_attach_leave(&t->them);
        if (r->linked)
            al_link_close(&r->link);
        al_attach_free(&t->them);
        return status;
    }
    r->book.job.pid = r->job.pid;
    r->book.job.attached = true;
    (void)signal(SIGXFSZ, SIG_IGN); // a file size limit shows as an error of the write
    al_run_record_open(r);
    say_start(t);
    al_run_ask_start(r);
    al_run_board_start(r);
    al_run_device_start(r);
    al_run_host_start(r);
    watch(t);
    leave(t);
    r->goes_on = !t->ended;
    say_left(t);
    al_run_finish(r);
    al_attach_free(&t->them);
    // A driver that hangs keeps its thread: nothing is freed under it.
    _exit(r->failed ? STATUS_FINDING : 0);
}

static int parse(struct attach *t, int argc, char **argv) {
    static struct option options[OPTIONS_MOST];
    size_t count = 0;
    for (const struct option *o = al_run_options; o->name && count + 4 < OPTIONS_MOST; o++)
        options[count++] = *o;
    memcpy(options + count, own_options, sizeof own_options);
    int option, status = 0;
    while (!status && (option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h')
            return HELP;
        status = take_option(t, option, optarg) ? al_error_exit_status(AL_E_INVALID) : 0;
    }
    uint64_t pid = 0;
    if (!status && t->run.record.off && t->run.record.named) {
        al_cli_error("attach: --record and --no-record contradict each other");
        status = al_error_exit_status(AL_E_INVALID);
    }
    if (!status && (argc - optind != 1 || !al_str_u64(argv[optind], &pid) || !pid || pid > INT32_MAX)) {
        al_cli_error("attach: name one process by its PID, as in alula attach --for 60s 4242");
        status = al_error_exit_status(AL_E_INVALID);
    }
    t->pid = (pid_t)pid;
    return status;
}

int al_cmd_attach(int argc, char **argv) {
    struct attach *t = calloc(1, sizeof *t);
    if (!t)
        return al_error_exit_status(AL_E_NOMEM);
    t->wait_ns = WAIT_NS;
    t->run.name = "attach";
    t->run.options = (struct al_cli_options)AL_CLI_OPTIONS_INIT;
    t->run.fail_on = -1;
    int status = parse(t, argc, argv);
    if (status == HELP) {
        fputs(help, stdout);
        status = al_cli_flush();
    } else if (!status) {
        status = attach(t);
    }
    free(t);
    return status;
}
