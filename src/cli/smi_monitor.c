// SPDX-License-Identifier: Apache-2.0
// alula smi dmon and pmon.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/smi.h"
#include "export/smi_monitor.h"

enum { ID = 1, DELAY, COUNT, SELECT, OPTIONS, FILENAME, FORMAT, GPM, GPM_OPTIONS };
enum { FAILED = 255 };

// pmon ends before --format.
static const struct al_smi_option options[] = {
    {"--format", FORMAT, AL_SMI_VALUE},
    {"--gpm-metrics", GPM, AL_SMI_MAYBE_VALUE},
    {"--gpm-options", GPM_OPTIONS, AL_SMI_VALUE},
#define PMON_FROM 3
    {"-i", ID, AL_SMI_VALUE},
    {"--id", ID, AL_SMI_VALUE},
    {"-d", DELAY, AL_SMI_VALUE},
    {"--delay", DELAY, AL_SMI_VALUE},
    {"-c", COUNT, AL_SMI_VALUE},
    {"--count", COUNT, AL_SMI_VALUE},
    {"-s", SELECT, AL_SMI_VALUE},
    {"--select", SELECT, AL_SMI_VALUE},
    {"-o", OPTIONS, AL_SMI_VALUE},
    {"--options", OPTIONS, AL_SMI_VALUE},
    {"-f", FILENAME, AL_SMI_VALUE},
    {"--filename", FILENAME, AL_SMI_VALUE},
    {"-h", AL_OPT_HELP, AL_SMI_NO_VALUE},
    {NULL, 0, AL_SMI_NO_VALUE},
};

static const char dmon_help[] =
    "    Usage: alula smi dmon [options]\n"
    "\n"
    "    One line a GPU and interval, in nvidia-smi dmon's columns.\n"
    "\n"
    "    -i, --id LIST       only these GPUs: index, UUID or PCI id\n"
    "    -d, --delay S       seconds between lines, 1 to 600 (default 1)\n"
    "    -c, --count N       stop after N lines a GPU\n"
    "    -s, --select WHAT   columns, by letter and in this order (default puc):\n"
    "                          p power and temperatures    v power and thermal violations\n"
    "                          u utilisation               m memory: device, BAR1, protected\n"
    "                          c clocks                    e ECC errors and PCIe replays\n"
    "                          t PCIe traffic (a call of 20 ms a direction)\n"
    "    --gpm-metrics LIST  more columns from the GPU's performance monitors (Hopper and newer), by NVML's numbers:\n"
    "                          1 graphics  2 SM  3 SM occupancy  4 integer  5 tensor  6 DFMA  7 HMMA  9 IMMA\n"
    "                          10 DRAM  11 FP64  12 FP32  13 FP16  20 PCIe tx  21 PCIe rx  60 NVLink rx  61 NVLink tx\n"
    "    -o, --options DT    a column for the date (D), for the time (T)\n"
    "    --format WORDS      csv, noheader (no line of names), nounit (no line of units)\n"
    "    -f, --filename FILE write to FILE\n"
    "\n";

static const char pmon_help[] =
    "    Usage: alula smi pmon [options]\n"
    "\n"
    "    One line a process and interval, in nvidia-smi pmon's columns.\n"
    "\n"
    "    -i, --id LIST       only these GPUs: index, UUID or PCI id\n"
    "    -d, --delay S       seconds between lines, 1 to 10 (default 1)\n"
    "    -c, --count N       stop after N intervals\n"
    "    -s, --select WHAT   columns: u utilisation, m memory (default u)\n"
    "    -o, --options DT    a column for the date (D), for the time (T)\n"
    "    -f, --filename FILE write to FILE\n"
    "\n";

static const struct {
    const char *help;
    int64_t delay_max;
} kinds[] = {
    [AL_SMI_DMON] = {dmon_help, 600},
    [AL_SMI_PMON] = {pmon_help, 10},
};

struct monitor {
    struct al_cli_options common;
    struct al_smi_run run;
    struct al_smi_monitor m;
    enum al_smi_monitor_kind kind;
    const char *select, *options, *gpm, *format;
};

static void say(const char *format, const char *what)
{
    struct al_buf b = AL_BUF_INIT;
    al_term_string(&b, what);
    printf(format, b.data ? b.data : "");
    al_buf_free(&b);
}

// nvidia-smi answers an option it does not know with its usage and success, which scripts may rely on.
static int usage(const struct monitor *m, const char *format, const char *what)
{
    say(format, what);
    printf("\n%s", kinds[m->kind].help);
    return al_cli_flush();
}

static int failed(const char *format, const char *what)
{
    say(format, what);
    printf("Failed to process command line \n\n");
    (void)al_cli_flush();
    return FAILED;
}

// 0, or the number of the complaint below.
static int take(struct monitor *m, int id, const char *value)
{
    int64_t number = 0;
    switch (id) {
    case DELAY:
        if (!al_str_i64(value, &number) || number < 1 || number > kinds[m->kind].delay_max)
            return DELAY;
        m->run.period_ns = number * AL_NS_PER_S;
        break;
    case COUNT:
        // A negative count is none, as in nvidia-smi.
        if (!al_str_i64(value, &number) || number == 0)
            return COUNT;
        m->run.ticks = number > 0 ? number : 0;
        break;
    case ID:
        m->run.ids = value;
        break;
    case SELECT:
        m->select = value;
        break;
    case OPTIONS:
        m->options = value;
        break;
    case FILENAME:
        m->run.file = value;
        break;
    case FORMAT:
        m->format = value;
        break;
    case GPM:
        m->gpm = value;
        break;
    default: // --gpm-options: device level is all there is
        break;
    }
    return 0;
}

static int parse(struct monitor *m, struct al_smi_args *a, bool *ret_done)
{
    int id;
    while ((id = al_smi_next(a)) != AL_SMI_END) {
        *ret_done = true;
        if (id == AL_OPT_HELP) {
            printf("\n%s%s", kinds[m->kind].help, al_cli_common_help);
            return al_cli_flush();
        }
        if (id == AL_SMI_FAILED)
            return a->status;
        if (id == AL_SMI_UNKNOWN)
            return usage(m, "Option \"%s\" is not recognized.\n", a->token);
        if (id == AL_SMI_MISSING)
            return usage(m, "Option \"%s\" is missing its value.\n", a->token);
        switch (take(m, id, a->value)) {
        case DELAY:
            return usage(m, "Collection delay/interval should be between 1 second and %s seconds\n",
                         m->kind == AL_SMI_PMON ? "10" : "600");
        case COUNT:
            return usage(m, "Invalid value for number of samples to be displayed%s\n", "");
        default:
            *ret_done = false;
            break;
        }
    }
    return 0;
}

static int columns(struct monitor *m)
{
    char text[128];
    if (m->run.ids && m->run.ids[0] == '\0')
        return failed("Failed to parse device string on command line%s\n", "");
    if (al_smi_monitor_init(&m->m, m->kind, m->select) < 0)
        return failed("Failed to find any metric to display%s\n", "");
    if (m->options && al_smi_monitor_options(&m->m, m->options) < 0)
        return failed("Error in parsing options%s\n", "");
    if (m->gpm && al_smi_monitor_gpm(&m->m, m->gpm, text, sizeof text) < 0)
        return failed("%s\nCould not parse GPM metrics\n", text);
    if (m->format && al_smi_monitor_format(&m->m, m->format, text, sizeof text) < 0)
        return failed("%s is not a recognized format option\nError parsing format options\n", text);
    return 0;
}

// Only dmon is known to stop at 16, and to say so.
static bool narrow(const struct monitor *m, struct al_smi_view *view)
{
    if (m->kind != AL_SMI_DMON || m->run.ids || view->gpu_count <= AL_SMI_DMON_GPUS)
        return false;
    view->gpu_count = AL_SMI_DMON_GPUS;
    return true;
}

static void print(void *user, struct al_buf *b, struct al_smi_view *view, uint64_t tick)
{
    struct monitor *m = user;
    if (narrow(m, view) && tick == 0)
        al_buf_str(b, "\nWARNING: Only monitoring up to 16 GPUs is supported by default.\n"
                      "Set NVSMI_SHOW_ALL_DEVICES=1 to increase the limit up to 16 GPUs.\n"
                      "Performance may be impacted by doing so.\n\n");
    if (tick == 0)
        al_smi_monitor_header(b, &m->m);
    al_smi_monitor_rows(b, &m->m, view);
}

int al_smi_monitor_command(int argc, char **argv)
{
    struct monitor *m = calloc(1, sizeof *m);
    if (!m) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    m->kind = strcmp(argv[0], "pmon") == 0 ? AL_SMI_PMON : AL_SMI_DMON;
    m->common.speed = -1;
    m->run.period_ns = AL_NS_PER_S;
    m->run.print = print;
    m->run.user = m;
    struct al_smi_args a = {.argc = argc, .at = 1, .argv = argv, .common = &m->common};
    a.options = m->kind == AL_SMI_PMON ? options + PMON_FROM : options;
    bool done = false;
    int status = parse(m, &a, &done);
    if (!status && !done)
        status = columns(m);
    if (!status && !done)
        status = al_smi_run(&m->run, &m->common, m->m.groups);
    free(m);
    return status;
}
