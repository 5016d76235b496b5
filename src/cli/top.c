// SPDX-License-Identifier: Apache-2.0
// alula top: the full-screen view, or one picture of it as text.
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/top.h"
#include "detect/detect.h"
#include "launch/board.h"

#define HISTORY_SAMPLES 1200
#define ONCE_NS (2100 * AL_NS_PER_MS) // rates need two readings of the slow half, which is a second apart

enum { OPT_ONCE = 1, OPT_SIZE, OPT_FOR, OPT_ASCII, OPT_UTF8, OPT_NO_MOUSE, OPT_PCIE, OPT_FILTER, OPT_SORT, OPT_FLAT, OPT_KEYS };

struct choices {
    struct al_cli_options common;
    bool once, ascii, utf8, no_mouse, pcie, flat;
    int w, h; // of --once
    int64_t for_ns;
    const char *filter, *keys;
    enum al_sort sort;
};

static const char help[] =
    "Usage: alula top [options]     (or just: alula)\n"
    "The GPUs, their processes and what is found, on the whole terminal. F1 or ? lists the keys, q leaves.\n\n"
    "  --filter TEXT       processes to show: text, user:NAME, job:PID, gpu:N, rank:N\n"
    "  --sort COLUMN       gpu (default), pid, user, role, memory, sm, cpu, host, time, command or steps\n"
    "  --flat              processes as a list, not as a tree\n"
    "  --no-stacks         never look at the Python stacks of processes whose GPU idles (they are not stopped by it)\n"
    "  --pcie              also read PCIe rates by the blocking 20 ms call (not needed where GPM exists)\n"
    "  --ascii, --utf8     draw with ASCII or UTF-8, whatever the locale says\n"
    "  --no-mouse          leave the mouse to the terminal (selecting text)\n"
    "  --once              print one screen as text and end\n"
    "  --size WxH          size of that screen (default: the terminal's, else 120x40)\n"
    "  --for TIME          with --once: watch this long before (default 2s)\n"
    "  --keys KEYS         with --once: keys pressed before, as in \"<tab><enter>\" or \"s<down><enter>\"\n\n";

static const char examples[] =
    "\nExamples:\n"
    "  alula\n"
    "  alula top --filter user:alice\n"
    "  alula demo top\n"
    "  alula top --once --size 160x50 > screen.txt\n"
    "  alula top --source scenario:run.txt --speed 10\n"
    "\nExit status: 0; 2 bad option or config; 9 no driver or GPU; 12 library missing.\n";

static const struct option long_options[] = {
    AL_CLI_COMMON_OPTIONS,
    {"no-stacks", no_argument, NULL, AL_OPT_NO_STACKS},
    {"once", no_argument, NULL, OPT_ONCE},
    {"size", required_argument, NULL, OPT_SIZE},
    {"for", required_argument, NULL, OPT_FOR},
    {"ascii", no_argument, NULL, OPT_ASCII},
    {"utf8", no_argument, NULL, OPT_UTF8},
    {"no-mouse", no_argument, NULL, OPT_NO_MOUSE},
    {"pcie", no_argument, NULL, OPT_PCIE},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"sort", required_argument, NULL, OPT_SORT},
    {"flat", no_argument, NULL, OPT_FLAT},
    {"keys", required_argument, NULL, OPT_KEYS},
    {0},
};

static int usage_error(const char *format, const char *what) {
    al_cli_error(format, what);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_size(struct choices *c, const char *argument) {
    char text[16];
    int64_t w = 0, h = 0;
    const char *x = strchr(argument, 'x');
    bool fine = x && al_str_copy_n(text, sizeof text, argument, (size_t)(x - argument)) && al_str_i64(text, &w) &&
                al_str_i64(x + 1, &h);
    if (!fine || w < 1 || h < 1 || w > AL_GRID_MAX || h > AL_GRID_MAX)
        return usage_error("--size %s: expected columns and rows such as 120x40", argument);
    c->w = (int)w;
    c->h = (int)h;
    return 0;
}

static int take_for(struct choices *c, const char *argument) {
    double seconds;
    if ((al_unit_parse(argument, AL_UNIT_SECONDS, &seconds) < 0 && !al_str_double(argument, &seconds)) || seconds < 0 ||
        seconds > 1e8)
        return usage_error("--for %s: expected a time such as 10s or 2min", argument);
    c->for_ns = (int64_t)(seconds * 1e9);
    return 0;
}

static int take_sort(struct choices *c, const char *argument) {
    static const char *const words[AL_SORT_COUNT] = {"gpu", "pid", "user", "role", "memory", "sm", "cpu", "host", "time", "command", "steps"};
    for (int i = 0; i < AL_SORT_COUNT; i++)
        if (strcmp(words[i], argument) == 0) {
            c->sort = (enum al_sort)i;
            return 0;
        }
    return usage_error("--sort %s: expected gpu, pid, user, role, memory, sm, cpu, host, time, command or steps", argument);
}

// 0 taken, -1 not known, else an exit status.
static int take_option(struct choices *c, int option, const char *argument) {
    switch (option) {
    case OPT_ONCE: c->once = true; return 0;
    case OPT_SIZE: return take_size(c, argument);
    case OPT_FOR: return take_for(c, argument);
    case OPT_ASCII: c->ascii = true; return 0;
    case OPT_UTF8: c->utf8 = true; return 0;
    case OPT_NO_MOUSE: c->no_mouse = true; return 0;
    case OPT_PCIE: c->pcie = true; return 0;
    case OPT_FILTER: c->filter = argument; return 0;
    case OPT_SORT: return take_sort(c, argument);
    case OPT_FLAT: c->flat = true; return 0;
    case OPT_KEYS: c->keys = argument; return 0;
    default: return al_cli_common(&c->common, option, argument);
    }
}

// True when letters beyond ASCII can be shown. Only the character set is taken from the locale: numbers stay as they are.
static bool set_charset(const struct choices *c) {
    const char *wanted = getenv("LC_ALL");
    wanted = wanted && *wanted ? wanted : getenv("LC_CTYPE");
    wanted = wanted && *wanted ? wanted : getenv("LANG");
    bool named = wanted && (strcasestr(wanted, "utf-8") || strcasestr(wanted, "utf8"));
    if (!setlocale(LC_CTYPE, "") || c->utf8) {
        // A UTF-8 locale that is not installed here is UTF-8 all the same.
        if (c->utf8 || named)
            (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
    return !c->ascii && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

// --- the collecting side ---

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_top *t = (struct al_top *)sink;
    uint64_t one = 1;
    pthread_mutex_lock(&t->lock);
    int result = al_history_push(t->history, s);
    t->last_tick_ns = al_monotonic_ns();
    pthread_mutex_unlock(&t->lock);
    (void)!write(t->wake, &one, sizeof one);
    return result;
}

static const struct al_sink_ops ops = {.name = "top", .groups = AL_GROUP_ALL, .tick = on_tick};

static int worse_first(const void *a, const void *b) {
    const struct al_finding *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? 1 : -1;
    return (x->began_ns > y->began_ns) - (x->began_ns < y->began_ns);
}

int al_top_take(struct al_top *t) {
    const struct al_finding *open[AL_TOP_FINDINGS];
    int result = 0;
    al_collect_lock(t->session.collect);
    const struct al_snapshot *s = al_collect_snapshot(t->session.collect);
    if (s)
        result = al_snapshot_copy(t->shown, s);
    t->have_snapshot = s && !result;
    size_t count = al_detect_open(t->session.detect, open, AL_TOP_FINDINGS);
    t->finding_count = 0;
    for (size_t i = 0; i < count && i < AL_TOP_FINDINGS; i++)
        t->findings[t->finding_count++] = *open[i];
    al_collect_unlock(t->session.collect);
    if (t->finding_count > 1)
        qsort(t->findings, t->finding_count, sizeof t->findings[0], worse_first);
    return result;
}

struct al_scene_in al_top_input(const struct al_top *t) {
    return (struct al_scene_in){.s = t->have_snapshot ? t->shown : NULL,
                               .history = t->history,
                               .findings = t->findings,
                               .finding_count = t->finding_count,
                               .silent_ns = t->silent_ns,
                               .source = t->source,
                               .ended = atomic_load(&t->ended)};
}

// --- one picture ---

// The next key of --keys; moves *text on.
static uint32_t next_key(const char **text) {
    static const struct {
        const char *name;
        uint32_t key;
    } names[] = {
        {"<enter>", AL_KEY_ENTER}, {"<tab>", AL_KEY_TAB},   {"<esc>", AL_KEY_ESCAPE},     {"<up>", AL_KEY_UP},
        {"<down>", AL_KEY_DOWN},   {"<left>", AL_KEY_LEFT}, {"<right>", AL_KEY_RIGHT},    {"<pgdn>", AL_KEY_PAGE_DOWN},
        {"<pgup>", AL_KEY_PAGE_UP}, {"<home>", AL_KEY_HOME}, {"<end>", AL_KEY_END},        {"<f1>", AL_KEY_F0 + 1},
        {"<backspace>", AL_KEY_BACKSPACE},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (al_str_starts(*text, names[i].name)) {
            *text += strlen(names[i].name);
            return names[i].key;
        }
    return (unsigned char)*(*text)++;
}

static int picture(struct al_top *t, const struct choices *c) {
    struct al_buf out = AL_BUF_INIT;
    int result = al_top_take(t);
    struct al_scene_in in = al_top_input(t);
    in.ended = false; // the picture is of a moment
    if (!result)
        result = al_tui_frame(&t->tui, &in, c->w, c->h);
    for (const char *keys = c->keys; keys && *keys && !result;) {
        (void)al_tui_key(&t->tui, &in, next_key(&keys));
        result = al_tui_frame(&t->tui, &in, c->w, c->h);
    }
    if (!result && t->tui.color)
        al_grid_print_color(&t->tui.grid, &out);
    else if (!result)
        al_grid_print(&t->tui.grid, &out);
    if (!result && out.failed)
        result = AL_E_NOMEM;
    if (!result && out.len)
        (void)fwrite(out.data, 1, out.len, stdout);
    al_buf_free(&out);
    if (result)
        al_cli_error("%s", al_error_text(result));
    int status = al_cli_flush();
    return result ? al_error_exit_status(result) : status;
}

static int once(struct al_top *t, const struct choices *c) {
    al_cli_signals();
    int result = al_collect_run(t->session.collect, c->for_ns ? c->for_ns : ONCE_NS, &al_cli_stop);
    if (result && result != AL_E_END) {
        al_cli_error("%s", al_error_text(result));
        return al_error_exit_status(result);
    }
    return picture(t, c);
}

// --- starting ---

// "scenario:/a/long/way/run.txt" -> "scenario run.txt"
static void shorten(char *out, size_t size, const char *source) {
    const char *colon = strchr(source, ':'), *slash = strrchr(source, '/');
    if (!colon) {
        (void)al_str_copy(out, size, source);
        return;
    }
    const char *name = slash && slash > colon ? slash + 1 : colon + 1;
    (void)snprintf(out, size, "%.*s %s", (int)(colon - source), source, name);
}

static void name_source(struct al_top *t) {
    const struct al_cli_session *s = &t->session;
    if (s->demo)
        (void)al_str_copy(t->source, sizeof t->source, "demo");
    else if (s->source)
        shorten(t->source, sizeof t->source, s->options.source);
    else if (*s->device_missing)
        (void)al_str_copy(t->source, sizeof t->source, "no NVIDIA driver");
}

static void count_run(void *user, const struct al_board *board) {
    (void)board;
    ++*(unsigned *)user;
}

// Where a job is watched there is something to see without a GPU as well.
static bool jobs_are_watched(void) {
    unsigned runs = 0;
    al_boards_each(count_run, &runs);
    return runs > 0;
}

static int open_top(struct al_top *t, const struct choices *c) {
    t->sink.ops = &ops;
    t->shown = al_snapshot_new();
    t->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&t->lock, NULL);
    if (!t->shown || t->wake < 0 || al_history_new(HISTORY_SAMPLES, &t->history) != 0) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    struct al_cli_options options = c->common;
    options.without_device = jobs_are_watched();
    int status = al_cli_open(&options, c->pcie ? AL_GROUP_PCIE : 0, true, &t->session);
    if (!status) {
        (void)al_collect_add_sink(t->session.collect, &t->sink);
        t->last_tick_ns = al_monotonic_ns();
        name_source(t);
    }
    return status;
}

static void close_top(struct al_top *t) {
    if (t->session.collect)
        al_cli_close(&t->session);
    al_history_free(t->history);
    al_snapshot_free(t->shown);
    al_tui_free(&t->tui);
    if (t->wake >= 0)
        (void)close(t->wake);
}

static int run(const struct choices *c) {
    struct al_top t = {.wake = -1};
    sigset_t all, before;
    // The session's threads inherit this: signals are for the thread of the screen.
    sigfillset(&all);
    if (!c->once)
        (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int status = open_top(&t, c);
    if (!c->once)
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!status) {
        bool color = al_cli_use_color(&c->common, stdout);
        al_tui_init(&t.tui, t.session.interval_ns, !set_charset(c), color);
        (void)al_str_copy(t.tui.ui.filter, sizeof t.tui.ui.filter, c->filter ? c->filter : "");
        t.tui.ui.sort = c->sort;
        t.tui.ui.tree = !c->flat;
        status = c->once ? once(&t, c) : al_top_run(&t, color, !c->no_mouse);
        t.session.hang_status = status;
    }
    close_top(&t);
    return status;
}

static int check(struct choices *c) {
    if (!c->once && (c->w || c->for_ns || c->keys))
        return usage_error("%s", "--size, --for and --keys go with --once");
    if (!c->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return usage_error("%s", "top needs a terminal; alula top --once prints one screen, alula watch a line a tick");
    if (c->once && !c->w) {
        c->w = 120;
        c->h = 40;
    }
    // A picture of a recording need not wait for it.
    if (c->once && c->common.speed < 0)
        c->common.speed = 0;
    return 0;
}

int al_cmd_top(int argc, char **argv) {
    struct choices c = {.common = AL_CLI_OPTIONS_INIT};
    int option, status = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s%s", help, al_cli_common_help, examples);
            return al_cli_flush();
        }
        status = take_option(&c, option, optarg);
        if (status)
            return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
    }
    if (optind < argc)
        return usage_error("top: unexpected argument %s (see alula top --help)", argv[optind]);
    status = check(&c);
    return status ? status : run(&c);
}
