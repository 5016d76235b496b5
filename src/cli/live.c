// SPDX-License-Identifier: Apache-2.0
// alula stacks: what a process runs, live, as a table of functions, lines or threads.
#include "cli/live.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"

#define WINDOW_DEFAULT 5
#define ONCE_S 5
#define ROWS_DEFAULT 30

enum { OPT_GIL = 1, OPT_TREE, OPT_ONCE, OPT_JSON, OPT_ROWS, OPT_SORT, OPT_THREAD, OPT_WINDOW, OPT_FILTER, OPT_ASCII };

static const char usage[] =
    "Usage: alula stacks [OPTION]... PID\n"
    "What the threads of a Python process run, live: functions or lines with their shares. The process is not stopped, and\n"
    "nothing is loaded into it. CPython 3.8 to 3.15. ? lists the keys, q leaves. Where the output is not a terminal, or with\n"
    "--once or --json, it samples for --duration (5s) and prints one table.\n"
    "\n"
    "  -s, --subprocesses   also all processes below it, those that come later too\n"
    "      --tree           the whole job that it belongs to, and which rank differs from the others\n"
    "  -i, --idle           also count threads that sleep or wait in the kernel (key i)\n"
    "  -g, --gil            only count threads that hold the GIL (key g)\n"
    "  -n, --native         native frames too; idle threads then only with --idle from the start\n"
    "  -l, --lines          lines instead of functions (key l)\n"
    "  -t, --threads        threads (key t)\n"
    "      --thread NAME    only the thread of this name or id\n"
    "      --filter TEXT    only rows whose name or file holds it (key /)\n"
    "      --sort BY        self (default), total, self-time, total-time, name or difference (keys 1 to 6)\n"
    "      --window TIME    shares are of so long (5s)\n"
    "  -w, --whole          shares since the start (key w); a table always\n"
    "  -r, --rate N         samples a second, 1 to 10000 (100)\n"
    "  -d, --duration TIME  end after it, such as 10s or 2min\n"
    "      --once           print one table and end\n"
    "      --rows N         rows of the table (30; 0 all)\n"
    "      --json           the table as one JSON object\n"
    "  -p, --pid PID        the process, as py-spy writes it\n"
    "      --ascii          draw with ASCII alone\n"
    "      --no-color       no colours; so does NO_COLOR\n"
    "      --no-cmdline     leave command lines out\n"
    "      --help           this text\n"
    "\n"
    "self: the function ran itself; total: it was anywhere on the stack. Shares are of the samples of all threads that count,\n"
    "times are seconds of threads. GIL%: of the row's samples, those that held the GIL; idle%: those that slept.\n"
    "\n"
    "Examples:\n"
    "  alula stacks 4242\n"
    "  alula stacks --tree --sort difference 4242\n"
    "  alula stacks --json -d 10s --lines 4242 | jq '.rows[0]'\n"
    "\n"
    "Exit status: 0; 1 an interpreter that alula does not know, or no terminal; 2 bad option; 4 no permission; 5 no such\n"
    "process; 6 not a Python process.\n";

static const struct option options[] = {
    {"subprocesses", no_argument, NULL, 's'},
    {"tree", no_argument, NULL, OPT_TREE},
    {"idle", no_argument, NULL, 'i'},
    {"gil", no_argument, NULL, 'g'},
    {"native", no_argument, NULL, 'n'},
    {"lines", no_argument, NULL, 'l'},
    {"threads", no_argument, NULL, 't'},
    {"thread", required_argument, NULL, OPT_THREAD},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"sort", required_argument, NULL, OPT_SORT},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"whole", no_argument, NULL, 'w'},
    {"rate", required_argument, NULL, 'r'},
    {"duration", required_argument, NULL, 'd'},
    {"once", no_argument, NULL, OPT_ONCE},
    {"rows", required_argument, NULL, OPT_ROWS},
    {"json", no_argument, NULL, OPT_JSON},
    {"pid", required_argument, NULL, 'p'},
    {"ascii", no_argument, NULL, OPT_ASCII},
    {"no-color", no_argument, NULL, AL_OPT_NO_COLOR},
    {"no-cmdline", no_argument, NULL, AL_OPT_NO_CMDLINE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int refuse(const char *text) {
    al_cli_error("stacks: %s", text);
    return AL_E_INVALID;
}

static int take_time(double *to, double most, const char *words) {
    return al_stacks_seconds(optarg, most, to) ? 0 : refuse(words);
}

static int take_rate(struct al_live *l) {
    return al_stacks_rate(optarg, &l->p.rate) ? 0 : refuse("--rate takes samples a second, from 1 to 10000");
}

static int take_sort(struct al_live *l) {
    for (int i = AL_HOT_SORT_SELF; i <= AL_HOT_SORT_DIFFERENCE; i++)
        if (strcmp(al_stacks_sort_word((enum al_hot_sort)i), optarg) == 0) {
            l->ui.query.sort = (enum al_hot_sort)i;
            return 0;
        }
    return refuse("--sort takes self, total, self-time, total-time, name or difference");
}

static int take_rows(struct al_live *l) {
    uint64_t rows;
    if (!al_str_u64(optarg, &rows) || rows > 1000000)
        return refuse("--rows takes a number from 0 (all) to 1000000");
    l->rows = rows ? (uint32_t)rows : UINT32_MAX;
    return 0;
}

static int take(struct al_live *l, int option) {
    struct al_hot_query *q = &l->ui.query;
    switch (option) {
    case 's': l->p.reach = l->p.reach == AL_STACKS_JOB ? AL_STACKS_JOB : AL_STACKS_BELOW; return 0;
    case OPT_TREE: l->p.reach = AL_STACKS_JOB; return 0;
    case 'i': q->idle = true; return 0;
    case 'g': q->gil = true; return 0;
    case 'n': l->p.native = true; return 0;
    case 'l': q->by = AL_HOT_BY_LINE; return 0;
    case 't': q->by = AL_HOT_BY_THREAD; return 0;
    case OPT_THREAD: l->thread = optarg; return 0;
    case OPT_FILTER: (void)al_str_copy(l->ui.filter, sizeof l->ui.filter, optarg); return 0;
    case OPT_SORT: return take_sort(l);
    case OPT_WINDOW: return take_time(&l->window_s, 3600, "--window takes a time up to an hour, such as 30s");
    case 'w': q->whole = true; return 0;
    case 'r': return take_rate(l);
    case 'd': return take_time(&l->p.seconds, AL_STACKS_DURATION_MOST, "--duration takes a time such as 10s or 2min");
    case OPT_ONCE: l->once = true; return 0;
    case OPT_ROWS: return take_rows(l);
    case OPT_JSON: l->json = true; return 0;
    case 'p':
        l->p.pid = al_stacks_pid(optarg);
        return l->p.pid ? 0 : refuse("--pid takes a process id, as in --pid 4242");
    case OPT_ASCII: l->ascii = true; return 0;
    case AL_OPT_NO_COLOR: l->no_color = true; return 0;
    case AL_OPT_NO_CMDLINE: l->no_cmdline = true; return 0;
    case 'h': l->p.help = true; return 0;
    default: return AL_E_INVALID; // getopt has said why
    }
}

static int parse(struct al_live *l, int argc, char **argv) {
    int option, result = 0;
    while (!result && !l->p.help && (option = getopt_long(argc, argv, "signltwr:d:p:h", options, NULL)) != -1)
        result = take(l, option);
    if (result || l->p.help)
        return result;
    if (!l->p.pid && argc - optind == 1)
        l->p.pid = al_stacks_pid(argv[optind++]);
    if (!l->p.pid || optind != argc)
        return refuse("name one process by its PID, as in alula stacks 4242");
    l->once |= l->json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO);
    if (l->once) {
        l->ui.query.whole = true;
        l->p.seconds = l->p.seconds > 0 ? l->p.seconds : ONCE_S;
    }
    return 0;
}

// --- what the sampler sees ---

static uint32_t process_of(struct al_live *l, const struct al_profile_target *t) {
    char role[96], name[160];
    for (uint32_t i = 0; i < l->process_count; i++)
        if (l->processes[i].target == t && l->processes[i].role == t->process.role && l->processes[i].rank == t->process.rank)
            return i;
    void *more = realloc(l->processes, (l->process_count + 1) * sizeof *l->processes);
    if (!more)
        return AL_PROFILE_NONE;
    l->processes = more;
    al_stacks_role(&t->process, role, sizeof role);
    (void)snprintf(name, sizeof name, "process %d%s%s", (int)t->process.pid, *role ? ", " : "", role);
    if (al_hot_process(l->hot, name, t->process.role == AL_ROLE_RANK ? t->process.rank : -1) != l->process_count)
        return AL_PROFILE_NONE;
    l->processes[l->process_count].target = t;
    l->processes[l->process_count].role = t->process.role;
    l->processes[l->process_count].rank = t->process.rank;
    return l->process_count++;
}

static void look_for_thread(struct al_live *l, const struct al_stack_thread *thread, uint32_t track) {
    uint64_t tid;
    if (!l->thread || l->thread_found)
        return;
    if (strcmp(thread->name, l->thread) != 0 && !(al_str_u64(l->thread, &tid) && (pid_t)tid == thread->tid))
        return;
    l->thread_found = true;
    l->ui.query.track = track;
    (void)snprintf(l->ui.thread_name, sizeof l->ui.thread_name, "thread %d %s", (int)thread->tid, thread->name);
}

static int add(struct al_profiling *p, struct al_profile_target *t, const struct al_stack_thread *thread, uint32_t track, uint32_t stack) {
    struct al_live *l = p->user;
    if (!al_hot_knows(l->hot, track)) {
        char name[96];
        (void)snprintf(name, sizeof name, "thread %d %s", (int)thread->tid, thread->name);
        int result = al_hot_thread(l->hot, track, process_of(l, t), name);
        if (result)
            return result;
        look_for_thread(l, thread, track);
    }
    // Who waits for the GIL sleeps in the kernel too, but is not idle: as in dump and profile.
    unsigned state = thread->waits_gil == AL_STACK_YES ? AL_HOT_WAITS : thread->idle == AL_STACK_YES ? AL_HOT_IDLE : 0;
    state |= thread->holds_gil == AL_STACK_YES ? AL_HOT_GIL : 0;
    return al_hot_add(l->hot, track, stack, state);
}

static int forget(struct al_live *l) {
    l->forgets++;
    al_hot_reset(l->hot, true);
    l->process_count = 0;
    l->thread_found = false;
    l->ui.query.track = l->ui.open = AL_PROFILE_NONE;
    l->ui.thread_name[0] = '\0';
    return al_profiling_forget(&l->p);
}

static int ticked(struct al_profiling *p, int64_t now_ns) {
    struct al_live *l = p->user;
    int result = 0;
    if (al_hot_full(l->hot, p->profile)) {
        l->forgot_ns = now_ns;
        result = forget(l);
    }
    return result ? result : al_hot_tick(l->hot, now_ns);
}

void al_live_reset(struct al_live *l) {
    al_hot_reset(l->hot, false);
}

// --- what stands around the rows ---

static void name_process(struct al_live *l, uint32_t processes, bool *ret_no_gil) {
    char role[96], version[48] = "";
    const struct al_profile_target *t = l->p.target_count ? l->p.targets[0] : NULL;
    for (uint32_t i = 0; i < l->p.target_count; i++)
        if (l->p.targets[i]->process.pid == l->p.pid)
            t = l->p.targets[i];
    *ret_no_gil = l->no_gil;
    if (!t || (!t->stack && l->title[0])) // of one that has ended, what was known stays
        return;
    if (t->stack) {
        struct al_stack_info info;
        al_stack_get_info(t->stack, &info);
        *ret_no_gil = l->no_gil = info.free_threaded;
        (void)al_str_copy(version, sizeof version, ", Python ");
        al_stacks_version(info.version, version + 9, sizeof version - 9);
    }
    al_stacks_role(&t->process, role, sizeof role);
    int n = snprintf(l->title, sizeof l->title, "process %d%s%s%s", (int)l->p.pid, *role ? ", " : "", role, version);
    if (processes > 1)
        (void)snprintf(l->title + n, sizeof l->title - (size_t)n, ", %u processes", (unsigned)processes);
    if (!l->no_cmdline)
        (void)al_str_copy(l->command, sizeof l->command, t->process.command);
}

int al_live_take(struct al_live *l, struct al_stacks_in *ret) {
    struct al_stack_counts c;
    uint32_t processes = 0;
    int64_t now = al_monotonic_ns(), began = l->p.began_ns ? l->p.began_ns : now;
    bool no_gil;
    for (uint32_t i = 0; i < l->p.target_count; i++)
        processes += l->p.targets[i]->stack != NULL;
    name_process(l, processes, &no_gil);
    al_profiling_counts(&l->p, &c);
    l->ui.query.filter = l->ui.filter;
    *ret = (struct al_stacks_in){.view = &l->view, .profile = l->p.profile, .title = l->title, .command = l->command};
    ret->said = l->p.said;
    ret->ended = l->p.all_ended ? "the process has ended" : NULL;
    ret->rate = l->p.rate;
    ret->own = now > began ? (double)(l->p.cpu_ns ? l->p.cpu_ns : al_process_cpu_ns() - l->p.cpu_began_ns) /
                                 (double)((l->p.ended_ns ? l->p.ended_ns : now) - began) : 0;
    ret->window_s = l->window_s;
    ret->moved = c.threads ? (double)c.unstable / (double)c.threads : 0;
    ret->unreadable = c.threads ? (double)c.unreadable / (double)c.threads : 0;
    ret->late = l->p.late;
    ret->processes = processes;
    ret->no_gil = no_gil;
    if (l->forgot_ns && now - l->forgot_ns < 60 * AL_NS_PER_S)
        ret->said = "too many different stacks for alula's memory: counting began anew";
    int result = al_hot_rows(l->hot, l->p.profile, &l->ui.query, &l->view);
    for (int i = 0; i < 3 && !result && l->ui.open != AL_PROFILE_NONE; i++) {
        struct al_hot_query q = l->ui.query;
        q.part = (enum al_hot_part)(AL_HOT_LINES_OF + i);
        q.of = l->ui.open;
        q.by = i ? AL_HOT_BY_FUNCTION : AL_HOT_BY_LINE;
        q.sort = AL_HOT_SORT_TOTAL;
        q.filter = NULL;
        q.reverse = false;
        result = al_hot_rows(l->hot, l->p.profile, &q, &l->around[i]);
        ret->around = l->around;
    }
    return result;
}

// --- a table ---

static int once(struct al_live *l) {
    struct al_buf b = AL_BUF_INIT;
    struct al_stacks_in in;
    al_cli_signals();
    int result = al_profiling_sample(&l->p);
    if (result)
        al_cli_error("stacks: %s; what there is is printed", al_error_text(result));
    int taken = al_live_take(l, &in);
    if (!taken && l->thread && !l->thread_found) {
        al_cli_error("stacks: no thread %s was seen", l->thread);
        return al_error_exit_status(AL_E_NOENT);
    }
    if (!taken && l->json)
        al_live_json(&b, l, &in);
    else if (!taken)
        al_live_text(&b, l, &in);
    if (!taken && b.failed)
        taken = AL_E_NOMEM;
    if (taken)
        al_cli_error("stacks: %s", al_error_text(taken));
    else
        (void)fwrite(b.data, 1, b.len, stdout);
    al_buf_free(&b);
    int status = al_cli_flush();
    return status ? status : al_error_exit_status(result ? result : taken);
}

static void set_charset(struct al_live *l) {
    (void)setlocale(LC_CTYPE, "");
    l->ascii |= strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

static int run(struct al_live *l) {
    const struct al_cli_options common = {.no_color = l->no_color};
    l->hot = al_hot_new((int64_t)(l->window_s * 1e9));
    l->p.profile = al_profile_new();
    if (!l->hot || !l->p.profile) {
        al_cli_error("stacks: %s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    l->p.user = l;
    l->p.add = add;
    l->p.ticked = ticked;
    l->p.bare = true;
    l->p.idle = !l->p.native || l->ui.query.idle; // idle threads cost nothing: they are not read again; but unwound they would be
    l->p.cmdline = !l->no_cmdline;
    int result = al_profiling_open(&l->p);
    if (result)
        return al_error_exit_status(result);
    l->color = al_cli_use_color(&common, stdout);
    set_charset(l);
    return l->once ? once(l) : al_live_run(l);
}

int al_cmd_stacks(int argc, char **argv) {
    struct al_live l = {.window_s = WINDOW_DEFAULT, .rows = ROWS_DEFAULT};
    l.p.rate = AL_STACKS_RATE_DEFAULT;
    l.p.name = "stacks";
    al_stacks_ui_init(&l.ui);
    pthread_mutex_init(&l.lock, NULL);
    if (parse(&l, argc, argv))
        return al_error_exit_status(AL_E_INVALID);
    if (l.p.help) {
        fputs(usage, stdout);
        return al_cli_flush();
    }
    int status = run(&l);
    al_profiling_close(&l.p);
    al_hot_free(l.hot);
    al_hot_view_free(&l.view);
    for (int i = 0; i < 3; i++)
        al_hot_view_free(&l.around[i]);
    free(l.processes);
    return status;
}
