// SPDX-License-Identifier: Apache-2.0
// alula ps: who trains here, as trees of processes.
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "export/ps.h"
#include "host/host.h"
#include "launch/board.h"

#define SETTLE_NS (200 * AL_NS_PER_MS) // a process's CPU share needs two looks
#define RUNS_MOST 256

enum { OPT_JSON = 1, OPT_ALL, OPT_USER };

static const char usage[] =
    "Usage: alula ps [OPTION]...\n"
    "The training processes of this machine as trees: launchers, ranks, DataLoader workers, serving engines, with their GPUs,\n"
    "memory and age; and step, steps per second, share of data wait and phase of those that an alula run watches. Found are\n"
    "processes that hold a GPU and what alula run started, with all that is above and below them.\n"
    "\n"
    "  -a, --all            also training that uses no GPU (torchrun, accelerate, deepspeed, swift, megatron), found by its\n"
    "                       command line\n"
    "  -u, --user USER      only this user's processes: name or number\n"
    "      --json           as JSON, in bytes, seconds and ratios; unknown is null\n"
    "\n"
    "GPU MEM is what the driver counts, RSS ANON the private part of the host memory, DATA the share of step time that\n"
    "waits for the next batch; ~ stands behind a figure that is old, a time behind a phase that lasts.\n"
    "\n"
    "Examples:\n"
    "  alula ps\n"
    "  alula ps --all --user alice\n"
    "  alula ps --json | jq '.processes[] | select(.role == \"rank\") | .training.step'\n"
    "\n"
    "Exit status: 0, also when there is nothing to list; 2 bad option.\n"
    "\n";

static const struct option options[] = {
    {"all", no_argument, NULL, OPT_ALL},
    {"user", required_argument, NULL, OPT_USER},
    {"json", no_argument, NULL, OPT_JSON},
    AL_CLI_COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

struct ps {
    struct al_cli_options common;
    struct al_ps_options print;
    bool json, all, help;
    struct al_board_head heads[RUNS_MOST];
    struct al_ps_run runs[RUNS_MOST];
    uint32_t run_count;
};

static int parse(struct ps *p, int argc, char **argv) {
    int option, status = 0;
    while (!status && (option = getopt_long(argc, argv, "au:h", options, NULL)) != -1) {
        switch (option) {
        case 'a':
        case OPT_ALL: p->all = true; break;
        case 'u':
        case OPT_USER: p->print.user = optarg; break;
        case OPT_JSON: p->json = true; break;
        case 'h':
        case AL_OPT_HELP: p->help = true; return 0;
        default:
            status = al_cli_common(&p->common, option, optarg);
            status = status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
        }
    }
    if (!status && optind < argc) {
        al_cli_error("ps: takes options only (see alula ps --help)");
        status = al_error_exit_status(AL_E_INVALID);
    }
    return status;
}

static void note_run(void *user, const struct al_board *board) {
    struct ps *p = user;
    if (p->run_count == RUNS_MOST)
        return;
    struct al_board_head *h = &p->heads[p->run_count];
    *h = board->head;
    p->runs[p->run_count++] = (struct al_ps_run){h->job, h->pid, h->command, h->output, h->record, h->began_realtime_ns};
}

// What is to be looked at beyond the processes on GPUs: the commands that alulas run, and what --all finds.
static void set_roots(struct ps *p, struct al_cli_session *session) {
    static pid_t pids[AL_PROCFS_ROOTS];
    size_t count = 0;
    if (session->source || !session->ranks)
        return;
    al_boards_each(note_run, p);
    for (uint32_t i = 0; i < p->run_count && count < AL_PROCFS_ROOTS; i++)
        if (p->runs[i].job > 0)
            pids[count++] = p->runs[i].job;
    if (p->all)
        count = al_host_find_trainings(pids, count, AL_PROCFS_ROOTS);
    al_procfs_roots(session->host, pids, count);
}

static void choose_looks(struct ps *p) {
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    uint64_t width;
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    p->print.ascii = !l || strcmp(nl_langinfo_l(CODESET, l), "UTF-8") != 0;
    if (l)
        freelocale(l);
    p->print.color = al_cli_use_color(&p->common, stdout);
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        p->print.width = size.ws_col;
    else if (columns && al_str_u64(columns, &width) && width >= 20 && width <= 10000)
        p->print.width = (unsigned)width;
}

static void say_nothing(const struct ps *p, const struct al_cli_session *session) {
    if (p->print.user)
        al_cli_error("no training process of user %s", p->print.user);
    else if (p->all)
        al_cli_error("no training process: nothing on a GPU, no alula run, no torchrun, accelerate, deepspeed or swift");
    else
        al_cli_error("no training process on a GPU or below an alula run (--all also looks for training without a GPU)");
    if (*session->device_missing)
        al_cli_error("the GPUs could not be asked: %s", session->device_missing);
}

static int show(struct ps *p, struct al_cli_session *session, const struct al_snapshot *s) {
    struct al_buf b = AL_BUF_INIT;
    uint32_t count = 0;
    p->print.runs = p->runs;
    p->print.run_count = p->run_count;
    p->print.device_missing = session->device_missing;
    int result = p->json ? al_ps_json(&b, s, &p->print, &count) : al_ps_table(&b, s, &p->print, &count);
    int status = 0;
    if (result) {
        al_cli_error("%s", al_error_text(result));
        status = al_error_exit_status(result);
    } else {
        if (!count && !p->json)
            say_nothing(p, session);
        (void)fwrite(b.data ? b.data : "", 1, b.len, stdout);
        status = al_cli_flush();
    }
    al_buf_free(&b);
    return status;
}

int al_cmd_ps(int argc, char **argv) {
    static struct ps p; // large
    static struct al_cli_session session;
    const struct al_snapshot *s;
    p = (struct ps){.common = AL_CLI_OPTIONS_INIT};
    p.common.without_device = true;
    int status = parse(&p, argc, argv);
    if (status)
        return status;
    if (p.help) {
        (void)printf("%s%s", usage, al_cli_common_help);
        return al_cli_flush();
    }
    choose_looks(&p);
    status = al_cli_open(&p.common, AL_GROUP_FAST | AL_GROUP_PROCESS | AL_GROUP_PROCUTIL | AL_GROUP_HOST | AL_GROUP_NODE, false,
                         &session);
    if (status)
        return status;
    set_roots(&p, &session);
    status = al_cli_once(&session, SETTLE_NS, &s);
    if (!status)
        status = show(&p, &session, s);
    al_cli_close(&session);
    return status;
}
