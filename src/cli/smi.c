// SPDX-License-Identifier: Apache-2.0
// alula smi: nvidia-smi's queries. What goes wrong is said on stdout and with nvidia-smi's exit status, as scripts that
// were written for it expect.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/smi.h"

enum { ID = 1, LOOP, LOOP_MS, FILENAME, FORMAT, LIST, QUERY_GPU, QUERY_APPS, HELP_GPU, HELP_APPS };
enum { BAD_ARGUMENT = 2, UNSUPPORTED = 3, LOST = 15, FAILED = 255 };

static const struct al_smi_option options[] = {
    {"-i", ID, AL_SMI_VALUE},
    {"--id", ID, AL_SMI_VALUE},
    {"-lms", LOOP_MS, AL_SMI_MAYBE_VALUE},
    {"--loop-ms", LOOP_MS, AL_SMI_MAYBE_VALUE},
    {"-l", LOOP, AL_SMI_MAYBE_VALUE},
    {"--loop", LOOP, AL_SMI_MAYBE_VALUE},
    {"-f", FILENAME, AL_SMI_VALUE},
    {"--filename", FILENAME, AL_SMI_VALUE},
    {"--format", FORMAT, AL_SMI_VALUE},
    {"-L", LIST, AL_SMI_NO_VALUE},
    {"--list-gpus", LIST, AL_SMI_NO_VALUE},
    {"--query-gpu", QUERY_GPU, AL_SMI_VALUE},
    {"--query-compute-apps", QUERY_APPS, AL_SMI_VALUE},
    {"--help-query-gpu", HELP_GPU, AL_SMI_NO_VALUE},
    {"--help-query-compute-apps", HELP_APPS, AL_SMI_NO_VALUE},
    {"-h", AL_OPT_HELP, AL_SMI_NO_VALUE},
    {NULL, 0, AL_SMI_NO_VALUE},
};

static const char help[] =
    "Usage: alula smi --query-gpu=FIELDS [--format=csv[,noheader][,nounits]] [-i LIST] [-l S | -lms MS] [-f FILE]\n"
    "       alula smi --query-compute-apps=FIELDS [the same options]\n"
    "       alula smi -L\n"
    "       alula smi dmon | pmon [options; see alula smi dmon -h]\n"
    "Prints what nvidia-smi 580 prints, byte for byte, so that scripts need no change.\n"
    "\n"
    "  --query-gpu=FIELDS           one row a GPU; FIELDS as --help-query-gpu lists them, separated by commas\n"
    "  --query-compute-apps=FIELDS  one row a process that computes; see --help-query-compute-apps\n"
    "  --format=csv,noheader,nounits\n"
    "  -i, --id LIST                only these GPUs: index, UUID, PCI id or serial\n"
    "  -l, --loop [S]               again every S seconds (5 when none is given)\n"
    "  -lms, --loop-ms [MS]         again every MS milliseconds (100 when none is given)\n"
    "  -f, --filename FILE          write to FILE\n"
    "  -L, --list-gpus              one line a GPU with its UUID\n"
    "\n"
    "Examples:\n"
    "  alula smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1\n"
    "  alula smi --query-gpu=memory.used,memory.total --format=csv,noheader,nounits -i 0\n"
    "  alula smi --query-compute-apps=pid,process_name,used_memory --format=csv\n"
    "  alula smi dmon -s pucm -d 5 -o T\n"
    "\n";

struct smi {
    struct al_cli_options common;
    struct al_smi_run run;
    struct al_smi_query query;
    const char *gpu_fields, *app_fields, *format;
    bool list, zero_period;
    const char *first_query_option; // as given, for -L's complaint
    int list_status;
};

static int complain(int status, const char *format, const char *what)
{
    struct al_buf b = AL_BUF_INIT;
    al_term_string(&b, what);
    printf(format, b.data ? b.data : "");
    al_buf_free(&b);
    (void)al_cli_flush();
    return status;
}

// A period in `unit` nanoseconds. As nvidia-smi takes it: 0 is an error, what is no number means the default.
static void take_period(struct smi *s, const char *value, int64_t unit, int64_t fallback)
{
    int64_t number = 0;
    bool given = value && al_str_i64(value, &number);
    s->zero_period = given && number == 0;
    if (given && number > 0 && number <= INT32_MAX)
        s->run.period_ns = number * unit;
    else
        s->run.period_ns = fallback;
}

static void take(struct smi *s, int id, const struct al_smi_args *a)
{
    if (id != LIST && !s->first_query_option)
        s->first_query_option = a->token;
    switch (id) {
    case ID:
        s->run.ids = a->value;
        break;
    case LOOP:
        take_period(s, a->value, AL_NS_PER_S, 5 * AL_NS_PER_S);
        break;
    case LOOP_MS:
        take_period(s, a->value, AL_NS_PER_MS, 100 * AL_NS_PER_MS);
        break;
    case FILENAME:
        s->run.file = a->value;
        break;
    case FORMAT:
        s->format = a->value;
        break;
    case QUERY_GPU:
        s->gpu_fields = a->value;
        break;
    case QUERY_APPS:
        s->app_fields = a->value;
        break;
    default:
        s->list = true;
        break;
    }
}

static int print_help(int id)
{
    struct al_buf b = AL_BUF_INIT;
    if (id == AL_OPT_HELP) {
        al_buf_str(&b, help);
        al_buf_str(&b, al_cli_common_help);
    } else {
        al_smi_query_help(&b, id == HELP_GPU ? AL_SMI_GPU : AL_SMI_APPS);
    }
    if (b.data)
        (void)fwrite(b.data, 1, b.len, stdout);
    al_buf_free(&b);
    return al_cli_flush();
}

// Does any argument name a command? nvidia-smi words its refusal by that.
static bool has_command(const struct smi *s, const struct al_smi_args *a)
{
    for (int i = 1; i < a->argc; i++)
        if (al_str_starts(a->argv[i], "--query-") || strcmp(a->argv[i], "-L") == 0)
            return true;
    return s->list;
}

static int refuse(const struct smi *s, int id, const struct al_smi_args *a)
{
    if (id == AL_SMI_MISSING)
        return complain(FAILED, "ERROR: Option %s is missing its value. Please run 'nvidia-smi -h' for help.\n\n",
                        a->token);
    if (has_command(s, a))
        return complain(BAD_ARGUMENT, "ERROR: Option %s is not recognized. Please run 'nvidia-smi -h' for help.\n\n",
                        a->token);
    return complain(FAILED, "ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", a->token);
}

// 0, or the exit status with the reason printed (also of a help page: then *ret_done is set).
static int parse(struct smi *s, struct al_smi_args *a, bool *ret_done)
{
    int id;
    while ((id = al_smi_next(a)) != AL_SMI_END) {
        *ret_done = id == AL_OPT_HELP || id == HELP_GPU || id == HELP_APPS;
        if (*ret_done)
            return print_help(id);
        if (id == AL_SMI_FAILED)
            return a->status;
        if (id < 0)
            return refuse(s, id, a);
        take(s, id, a);
    }
    return 0;
}

static int check(struct smi *s)
{
    if (s->list && s->first_query_option)
        return complain(BAD_ARGUMENT,
                        "ERROR: Option %s is not valid for this command. Please run 'nvidia-smi -h' for help.\n\n",
                        s->first_query_option);
    if (s->list)
        return 0;
    if (s->gpu_fields && s->app_fields)
        return complain(BAD_ARGUMENT, "Only one --query-* switch can be used at a time.%s\n", "");
    if (!s->gpu_fields && !s->app_fields && s->first_query_option)
        return complain(FAILED, "ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n",
                        s->first_query_option);
    if (!s->gpu_fields && !s->app_fields) {
        al_cli_error("smi: say what to print: --query-gpu=FIELDS, --query-compute-apps=FIELDS, -L, dmon or pmon");
        return BAD_ARGUMENT;
    }
    if (s->zero_period)
        return complain(BAD_ARGUMENT, "Provided [-l(ms) | --loop(-ms)=] value is incorrect. "
                                      "Loop frequency must be greater than 0.%s\n\n", "");
    if (s->run.ids && s->run.ids[0] == '\0')
        return complain(FAILED, "Failed to parse device string on command line%s", "");
    return 0;
}

static int parse_query(struct smi *s)
{
    char bad[256];
    enum al_smi_list list = s->app_fields ? AL_SMI_APPS : AL_SMI_GPU;
    int result = al_smi_query_parse(list, s->app_fields ? s->app_fields : s->gpu_fields, &s->query, bad, sizeof bad);
    if (result == AL_E_NOENT)
        return complain(BAD_ARGUMENT, "Field \"%s\" is not a valid field to query.\n\n", bad);
    if (result < 0) {
        al_cli_error("smi: more than %d fields", AL_SMI_FIELDS_MAX);
        return BAD_ARGUMENT;
    }
    if (al_smi_query_format(&s->query, s->format) < 0)
        return complain(BAD_ARGUMENT, "Format modifier is not recognized.%s\n", "");
    return 0;
}

static void print_query(void *user, struct al_buf *b, struct al_smi_view *view, uint64_t tick)
{
    const struct smi *s = user;
    if (tick == 0 && s->query.header)
        al_smi_query_header(b, &s->query);
    al_smi_query_rows(b, &s->query, view);
}

static void print_list(void *user, struct al_buf *b, struct al_smi_view *view, uint64_t tick)
{
    struct smi *s = user;
    (void)tick;
    if (view->gpu_count == 0)
        al_buf_str(b, "No devices found.\n");
    if (al_smi_list_gpus(b, view) < 0)
        s->list_status = LOST;
}

static int run(struct smi *s)
{
    int status = s->list ? 0 : parse_query(s);
    if (status)
        return status;
    s->run.print = s->list ? print_list : print_query;
    s->run.user = s;
    s->run.none_is_fine = s->list;
    status = al_smi_run(&s->run, &s->common, s->list ? 0 : s->query.groups);
    return status ? status : s->list_status;
}

int al_cmd_smi(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "dmon") == 0 || strcmp(argv[1], "pmon") == 0))
        return al_smi_monitor_command(argc - 1, argv + 1);
    struct smi *s = calloc(1, sizeof *s);
    if (!s) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    s->common.speed = -1;
    struct al_smi_args a = {.argc = argc, .at = 1, .argv = argv, .options = options, .common = &s->common};
    bool done = false;
    int status = parse(s, &a, &done);
    if (!status && !done)
        status = check(s);
    if (!status && !done)
        status = run(s);
    free(s);
    return status;
}
