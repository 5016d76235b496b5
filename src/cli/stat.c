// SPDX-License-Identifier: Apache-2.0
// alula stat: gpustat's options and output (export/gpustat.h).
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "export/gpustat.h"

// psutil, too, needs two looks to tell a process's CPU share; gpustat takes them this far apart.
#define SETTLE_NS (100 * AL_NS_PER_MS)
#define SHORTEST_S 0.1
#define IDS_MAX AL_GPU_MAX

enum { OPT_JSON = 1, OPT_ID, OPT_NO_HEADER, OPT_NO_PROCESSES, OPT_NAME_WIDTH, OPT_ROLES, OPT_MIG, OPT_DEBUG };

static const char usage[] =
    "Usage: alula stat [OPTION]...\n"
    "One line a GPU with its processes, in gpustat's format; its options mean what they mean there.\n"
    "\n"
    "  -c, --show-cmd           command of each process\n"
    "  -f, --show-full-cmd      whole command line, CPU and memory of each process below the GPU\n"
    "  -u, --show-user          user of each process\n"
    "  -p, --show-pid           pid of each process\n"
    "  -F, --show-fan           fan speed (also --show-fan-speed)\n"
    "  -e, --show-codec [WHAT]  encoder and decoder utilisation: enc, dec or enc,dec (default)\n"
    "  -P, --show-power [WHAT]  power: draw, limit or draw,limit (default)\n"
    "  -a, --show-all           -c -u -p -F -e -P\n"
    "  -i, --interval [SEC]     again every SEC seconds (default 1, at least 0.1) until Ctrl-C; also --watch\n"
    "      --json               everything as JSON, gpustat's keys\n"
    "      --id LIST            only the GPUs with these indices, in this order\n"
    "      --gpuname-width N    columns for the GPU's name; 0 leaves it out\n"
    "      --no-header          no line with host, time and driver\n"
    "      --no-processes       no processes\n"
    "      --roles              rank or role of each process; also those that /proc does not show\n"
    "      --mig                MIG devices get lines of their own\n"
    "      --debug              say on stderr why a figure is missing\n"
    "      --force-color        same as --color\n"
    "\n"
    "Memory is in MiB, rounded down, although the line says MB as gpustat does. ?? means not known.\n"
    "\n"
    "Examples:\n"
    "  alula stat -cupP                 who uses which GPU, and the power\n"
    "  alula stat -i 2 --roles          every two seconds, with ranks\n"
    "  alula stat --json | jq '.gpus[].\"memory.used\"'\n"
    "\n";

// The common options but --interval, which means something else here.
static int print_help(void) {
    const char *common = strstr(al_cli_common_help, "  --interval");
    const char *behind = common ? strchr(common, '\n') : NULL;
    if (!behind)
        return al_error_exit_status(AL_E_INVALID);
    (void)printf("%s%.*s%s", usage, (int)(common - al_cli_common_help), al_cli_common_help, behind + 1);
    return al_cli_flush();
}

static const struct option options[] = {
    // Before the common ones: this --interval may stand without a value.
    {"interval", optional_argument, NULL, 'i'},
    {"watch", optional_argument, NULL, 'i'},
    {"show-cmd", no_argument, NULL, 'c'},
    {"show-full-cmd", no_argument, NULL, 'f'},
    {"show-user", no_argument, NULL, 'u'},
    {"show-pid", no_argument, NULL, 'p'},
    {"show-fan", no_argument, NULL, 'F'},
    {"show-fan-speed", no_argument, NULL, 'F'},
    {"show-codec", optional_argument, NULL, 'e'},
    {"show-power", optional_argument, NULL, 'P'},
    {"show-all", no_argument, NULL, 'a'},
    {"json", no_argument, NULL, OPT_JSON},
    {"id", required_argument, NULL, OPT_ID},
    {"gpuname-width", required_argument, NULL, OPT_NAME_WIDTH},
    {"no-header", no_argument, NULL, OPT_NO_HEADER},
    {"no-processes", no_argument, NULL, OPT_NO_PROCESSES},
    {"roles", no_argument, NULL, OPT_ROLES},
    {"mig", no_argument, NULL, OPT_MIG},
    {"debug", no_argument, NULL, OPT_DEBUG},
    {"force-color", no_argument, NULL, AL_OPT_COLOR},
    AL_CLI_COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

struct stat_command {
    struct al_cli_options common;
    struct al_gpustat_options print;
    bool json, debug, help;
    double watch_s; // 0: once
    const char *id;
    uint32_t ids[IDS_MAX], positions[IDS_MAX];
    uint32_t id_count;
};

static int bad_value(const char *option, const char *value, const char *want) {
    al_cli_error("stat: %s %s: expected %s", option, value, want);
    return al_error_exit_status(AL_E_INVALID);
}

// `-i 5` and `-i5` alike: the next word is the value unless it is an option.
static const char *optional_value(int argc, char **argv) {
    if (optarg)
        return optarg;
    if (optind < argc && argv[optind][0] != '-')
        return argv[optind++];
    return NULL;
}

static int take_interval(struct stat_command *st, const char *value) {
    double seconds = 1;
    if (value && !al_str_double(value, &seconds) && al_unit_parse(value, AL_UNIT_SECONDS, &seconds) < 0)
        return bad_value("--interval", value, "seconds");
    if (!(seconds >= 0 && seconds <= 86400))
        return bad_value("--interval", value, "0 to 86400 seconds");
    st->watch_s = seconds > 0 && seconds < SHORTEST_S ? SHORTEST_S : seconds;
    return 0;
}

static int take_codec(struct al_gpustat_options *o, const char *value) {
    static const struct { const char *word; bool enc, dec; } words[] = {
        {"", false, false}, {"enc", true, false}, {"dec", false, true}, {"enc,dec", true, true}};
    value = value ? value : "enc,dec";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(value, words[i].word) == 0) {
            o->show_enc = words[i].enc;
            o->show_dec = words[i].dec;
            return 0;
        }
    return bad_value("--show-codec", value, "enc, dec or enc,dec");
}

static int take_power(struct al_gpustat_options *o, const char *value) {
    static const struct { const char *word; bool draw, limit; } words[] = {
        {"", false, false}, {"draw", true, false}, {"limit", true, true}, {"draw,limit", true, true},
        {"limit,draw", true, true}};
    value = value ? value : "draw,limit";
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(value, words[i].word) == 0) {
            o->show_power = words[i].draw;
            o->show_power_limit = words[i].limit;
            return 0;
        }
    return bad_value("--show-power", value, "draw, limit or draw,limit");
}

static int take_ids(struct stat_command *st, const char *list) {
    char word[16];
    st->id = list;
    st->id_count = 0;
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        uint64_t index;
        if (!al_str_copy_n(word, sizeof word, p, strcspn(p, ",")) || !al_str_u64(word, &index) ||
            index > UINT32_MAX || st->id_count == IDS_MAX)
            return bad_value("--id", list, "indices separated by commas, such as 0,2");
        st->ids[st->id_count++] = (uint32_t)index;
    }
    return 0;
}

static int take_width(struct al_gpustat_options *o, const char *value) {
    uint64_t width;
    if (!al_str_u64(value, &width) || width > 1000)
        return bad_value("--gpuname-width", value, "a number from 0 to 1000");
    o->name_width = (int)width;
    return 0;
}

static void show_all(struct al_gpustat_options *o) {
    o->show_cmd = o->show_user = o->show_pid = o->show_fan = true;
    o->show_enc = o->show_dec = o->show_power = o->show_power_limit = true;
}

static int take_option(struct stat_command *st, int option, int argc, char **argv) {
    struct al_gpustat_options *o = &st->print;
    switch (option) {
    case 'c': o->show_cmd = true; return 0;
    case 'f': o->show_full_cmd = true; return 0;
    case 'u': o->show_user = true; return 0;
    case 'p': o->show_pid = true; return 0;
    case 'F': o->show_fan = true; return 0;
    case 'e': return take_codec(o, optional_value(argc, argv));
    case 'P': return take_power(o, optional_value(argc, argv));
    case 'a': show_all(o); return 0;
    case 'i': return take_interval(st, optional_value(argc, argv));
    case 'h':
    case AL_OPT_HELP: st->help = true; return 0;
    case OPT_JSON: st->json = true; return 0;
    case OPT_ID: return take_ids(st, optarg);
    case OPT_NAME_WIDTH: return take_width(o, optarg);
    case OPT_NO_HEADER: o->no_header = true; return 0;
    case OPT_NO_PROCESSES: o->no_processes = true; return 0;
    case OPT_ROLES: o->roles = true; return 0;
    case OPT_MIG: o->mig = true; return 0;
    case OPT_DEBUG: st->debug = true; return 0;
    default: {
        int status = al_cli_common(&st->common, option, optarg);
        return status < 0 ? al_error_exit_status(AL_E_INVALID) : status; // getopt has told what it did not know
    }
    }
}

static int parse(struct stat_command *st, int argc, char **argv) {
    int option, status = 0;
    while (!status && !st->help && (option = getopt_long(argc, argv, "cfupFe::P::ai::h", options, NULL)) != -1)
        status = take_option(st, option, argc, argv);
    if (status || st->help)
        return status;
    const char *wrong = NULL;
    if (optind < argc)
        wrong = "takes options only (see alula stat --help)";
    else if (st->json && st->watch_s > 0)
        wrong = "--json and --interval cannot be used together (alula watch --json streams)";
    else if (st->common.force_color && st->common.no_color)
        wrong = "--color and --no-color cannot be used together";
    else if (st->id && st->common.gpus)
        wrong = "--id and --gpu cannot be used together";
    if (!wrong)
        return 0;
    al_cli_error("stat: %s", wrong);
    return al_error_exit_status(AL_E_INVALID);
}

// The codeset that the user's locale asks for; where that locale is not installed, its name tells.
static bool takes_utf8(void) {
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (l) {
        bool utf8 = strcmp(nl_langinfo_l(CODESET, l), "UTF-8") == 0;
        freelocale(l);
        return utf8;
    }
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
    }
    return false;
}

static void choose_looks(struct stat_command *st) {
    const char *term = getenv("TERM"), *deep = getenv("COLORTERM");
    st->print.ascii = !takes_utf8();
    if (!al_cli_use_color(&st->common, stdout))
        return;
    st->print.color = st->common.force_color ? AL_GPUSTAT_FORCED_COLOR : AL_GPUSTAT_COLOR;
    st->print.deep_colors = !term || !*term || strstr(term, "256color") || (deep && *deep);
}

static uint32_t needed_groups(const struct stat_command *st) {
    const struct al_gpustat_options *o = &st->print;
    uint32_t groups = AL_GROUP_FAST;
    if (st->json || o->show_fan || o->show_enc || o->show_dec || o->show_power)
        groups |= AL_GROUP_SLOW;
    if (st->json || !o->no_processes)
        groups |= AL_GROUP_PROCESS | AL_GROUP_HOST;
    return groups;
}

static bool is_selected(const struct stat_command *st, const struct al_gpu *gpu) {
    return !gpu->info.is_mig || st->print.mig;
}

// --id in the user's order, as positions in this snapshot.
static int find_ids(struct stat_command *st, const struct al_snapshot *s) {
    for (uint32_t i = 0; i < st->id_count; i++) {
        uint32_t at = 0;
        while (at < s->gpu_count && (s->gpus[at].info.is_mig || s->gpus[at].info.index != st->ids[i]))
            at++;
        if (at == s->gpu_count) {
            al_cli_error("stat: no GPU with index %u", st->ids[i]);
            return al_error_exit_status(AL_E_NOENT);
        }
        st->positions[i] = at;
    }
    st->print.gpus = st->id ? st->positions : NULL;
    st->print.gpu_count = st->id_count;
    if (st->common.gpus && !s->gpu_count) {
        al_cli_error("stat: --gpu %s: no such GPU", st->common.gpus);
        return al_error_exit_status(AL_E_NOENT);
    }
    return 0;
}

static void say_what_is_missing(const struct stat_command *st, const struct al_snapshot *s) {
    static const struct { const char *key; enum al_gpu_metric metric; } figures[] = {
        {"temperature.gpu", AL_GPU_TEMP}, {"fan.speed", AL_GPU_FAN}, {"utilization.gpu", AL_GPU_UTIL},
        {"utilization.enc", AL_GPU_ENC_UTIL}, {"utilization.dec", AL_GPU_DEC_UTIL}, {"power.draw", AL_GPU_POWER},
        {"enforced.power.limit", AL_GPU_POWER_ENFORCED}, {"memory.used", AL_GPU_MEM_USED},
        {"memory.total", AL_GPU_MEM_TOTAL}};
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        const struct al_gpu *gpu = &s->gpus[g];
        if (!is_selected(st, gpu))
            continue;
        for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
            uint32_t status = gpu->m[figures[i].metric].status;
            if (status != AL_STATUS_OK)
                al_cli_error("GPU %u: %s: %s", gpu->info.index, figures[i].key, al_status_text(status));
        }
        if (gpu->process_status != AL_STATUS_OK)
            al_cli_error("GPU %u: processes: %s", gpu->info.index, al_status_text(gpu->process_status));
    }
}

static int print_once(struct stat_command *st, const struct al_snapshot *s, const char *before, const char *after) {
    struct al_buf b = AL_BUF_INIT;
    int status = find_ids(st, s);
    if (status)
        return status;
    if (st->debug)
        say_what_is_missing(st, s);
    al_buf_str(&b, before);
    if (st->json)
        al_gpustat_json(&b, s, &st->print);
    else
        al_gpustat_text(&b, s, &st->print);
    al_buf_str(&b, after);
    if (b.failed) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        status = al_error_exit_status(AL_E_NOMEM);
    } else {
        (void)fwrite(b.data, 1, b.len, stdout);
        status = al_cli_flush();
    }
    al_buf_free(&b);
    return status;
}

static bool source_is_over(const struct al_cli_session *session, int64_t start) {
    return session->clock.virtual_time && session->source &&
           al_clock_now(&session->clock) - start > session->source->duration_ns;
}

// gpustat's watch mode: the alternate screen, drawn over from its first line. Without a terminal the lines just follow.
static int watch(struct stat_command *st, struct al_cli_session *session, int64_t settle) {
    bool screen = isatty(STDOUT_FILENO);
    int64_t start = al_clock_now(&session->clock), next = start, period = (int64_t)(st->watch_s * 1e9);
    int status = 0;
    al_cli_signals();
    if (screen) {
        st->print.eol = "\033[K\n";
        (void)fputs("\033[?1049h", stdout);
    }
    while (!status && !al_cli_stop && !source_is_over(session, start)) {
        const struct al_snapshot *s;
        status = al_cli_once(session, settle, &s);
        if (!status)
            status = print_once(st, s, screen ? "\033[H" : "", screen ? "\033[J" : "");
        settle = 0;
        next += period;
        int64_t now = al_clock_now(&session->clock);
        next = next > now ? next : now;
        while (!status && !al_cli_stop && al_clock_now(&session->clock) < next)
            (void)al_clock_sleep_until(&session->clock, next);
    }
    if (screen)
        (void)fputs("\033[?1049l", stdout);
    int flushed = al_cli_flush();
    if (status || flushed)
        return status ? status : flushed;
    return al_cli_stop && al_cli_stop != SIGINT ? 128 + al_cli_stop : 0; // Ctrl-C is how one leaves
}

int al_cmd_stat(int argc, char **argv) {
    struct stat_command st = {.common = AL_CLI_OPTIONS_INIT, .print = {.name_width = -1}};
    struct al_cli_session session;
    const struct al_snapshot *s;
    int status = parse(&st, argc, argv);
    if (status)
        return status;
    if (st.help)
        return print_help();
    choose_looks(&st);
    if (st.id)
        st.common.gpus = st.id;
    if (st.common.gpus && strstr(st.common.gpus, "MIG-"))
        st.print.mig = true;
    status = al_cli_open(&st.common, needed_groups(&st), false, &session);
    if (status)
        return status;
    int64_t settle = st.json || st.print.show_full_cmd ? SETTLE_NS : 0;
    if (st.watch_s > 0)
        status = watch(&st, &session, settle);
    else if (!(status = al_cli_once(&session, settle, &s)))
        status = print_once(&st, s, "", "");
    al_cli_close(&session);
    return status;
}
