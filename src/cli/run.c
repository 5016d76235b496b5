// SPDX-License-Identifier: Apache-2.0
// alula run: starts a command unchanged and watches it from inside and outside.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/run_board.h"
#include "cli/run_host.h"
#include "host/command.h"
#include "launch/end.h"

#define SOAK_MOST (1000 * 86400.0)
// alula's own failures, as env, nohup and timeout answer.
enum { STATUS_FAILED = 125, STATUS_NOT_EXECUTABLE = 126, STATUS_NOT_FOUND = 127, STATUS_FINDING = 3 };

static const char help[] =
    "Usage: alula run [options] -- COMMAND [ARGUMENT ...]\n"
    "Starts COMMAND unchanged (swift, torchrun, accelerate, python, a script) and watches its steps, phases and memory from\n"
    "the inside and its GPUs from the outside. Terminal, streams, signals and exit status are COMMAND's; alula writes to\n"
    "stderr alone and leaves metrics_report.json and run.alula in the output folder.\n\n"
    "  --output-dir DIR    where metrics_report.json goes; default: what the trainer or --output_dir of COMMAND says\n"
    "  --log-every N       a few lines every N steps: memory, times of the phases, GPU utilisation\n"
    "  --tensorboard[=DIR] scalars for TensorBoard: a point every --log-every steps, else about one a second; default\n"
    "                      folder: runs/alula in the output folder, beside what the trainer writes\n"
    "  --record FILE       the recording goes there; default: run.alula in the output folder (alula report run.alula)\n"
    "  --no-record         no recording\n"
    "  --fail-on WHAT      exit with status 3 when COMMAND exits 0 but this was found: a level or above (info, warning,\n"
    "                      critical), leak (memory that is kept), rules by name (data_wait,communication ...)\n"
    "  --soak TIME         COMMAND again and again until the time is over (then SIGTERM), judging the memory of each run;\n"
    "                      it stops at a run that fails\n"
    "  --model-size N[B]   billions of parameters: sets the memory limit (7B 80 %, 70B 90 %)\n"
    "  --empty-cache-above SIZE|SHARE  call torch.cuda.empty_cache() at a step's end when that much is held and unused,\n"
    "                      at most once a minute; each time it says what came back and what it cost (off by default)\n"
    "  --nvtx              NVTX ranges of the phases, for Nsight Systems and other tools that are started in the job\n"
    "  --preset debug      everything on: --log-every 1, --verbose\n"
    "  --quiet             no start line, findings and summary; only why COMMAND died\n"
    "  --verbose           at the end, what every rule thought\n"
    "  --interval TIME     time between readings of the GPUs (default 500ms)\n"
    "  --gpu LIST          only these GPUs: index, UUID or PCI id, separated by commas\n"
    "  --config FILE       settings (YAML; see section training of alula check-config --print)\n"
    "  --no-cmdline        never keep command lines\n"
    "  --no-stacks         never look at the Python stacks of ranks that wait (they are not stopped by it)\n"
    "  --no-color, --color colours off or on; default: on a terminal without NO_COLOR\n"
    "  --help              this text\n";

static const char examples[] =
    "\nExamples:\n"
    "  alula run -- python train.py\n"
    "  alula run --log-every 10 -- swift sft --model Qwen/Qwen2.5-7B-Instruct --output_dir output ...\n"
    "  alula run --soak 6h --fail-on leak -- python train.py\n"
    "  alula run --output-dir . -- torchrun --nproc_per_node 8 train.py\n"
    "\nExit status: COMMAND's (its signal is raised again); 125 alula failed (bad options too), 126 COMMAND cannot be run,\n"
    "127 not found; 3 a finding of --fail-on.\n";

enum { OPT_OUTPUT = 1, OPT_LOG, OPT_TENSORBOARD, OPT_RECORD, OPT_NO_RECORD, OPT_FAIL_ON, OPT_SOAK,
       OPT_MODEL, OPT_PRESET, OPT_QUIET, OPT_VERBOSE,
       OPT_EMPTY_CACHE, OPT_NVTX };
const struct option al_run_options[] = {
    {"output-dir", required_argument, NULL, OPT_OUTPUT},
    {"log-every", required_argument, NULL, OPT_LOG},
    {"tensorboard", optional_argument, NULL, OPT_TENSORBOARD},
    {"record", required_argument, NULL, OPT_RECORD},
    {"no-record", no_argument, NULL, OPT_NO_RECORD},
    {"fail-on", required_argument, NULL, OPT_FAIL_ON},
    {"soak", required_argument, NULL, OPT_SOAK},
    {"model-size", required_argument, NULL, OPT_MODEL},
    {"nvtx", no_argument, NULL, OPT_NVTX},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"empty-cache-above", required_argument, NULL, OPT_EMPTY_CACHE},
    {"interval", required_argument, NULL, AL_OPT_INTERVAL},
    {"gpu", required_argument, NULL, AL_OPT_GPU},
    {"config", required_argument, NULL, AL_OPT_CONFIG},
    {"no-cmdline", no_argument, NULL, AL_OPT_NO_CMDLINE},
    {"no-stacks", no_argument, NULL, AL_OPT_NO_STACKS},
    {"no-color", no_argument, NULL, AL_OPT_NO_COLOR},
    {"color", no_argument, NULL, AL_OPT_COLOR},
    {"help", no_argument, NULL, AL_OPT_HELP},
    {0},
};

static int usage_error(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_model_size(double *ret, const char *argument) {
    char digits[32];
    size_t len = strlen(argument);
    bool billions = len && (argument[len - 1] == 'B' || argument[len - 1] == 'b');
    (void)al_str_copy_n(digits, sizeof digits, argument, len - billions);
    if (!al_str_double(digits, ret) || *ret <= 0 || *ret > 10000)
        return usage_error("--model-size %s: expected billions of parameters, such as 7B", argument);
    return 0;
}

static int take_soak(struct al_run *r, const char *argument) {
    double seconds;
    if (strcmp(r->name, "run") != 0)
        return usage_error("--soak is for alula run%s", "");
    if (al_unit_parse(argument, AL_UNIT_SECONDS, &seconds) || !(seconds >= 1 && seconds <= SOAK_MOST))
        return usage_error("--soak %s: expected a time from 1s to 1000d, such as 6h", argument);
    r->soak.length_ns = (int64_t)(seconds * 1e9);
    return 0;
}

int al_run_take_option(struct al_run *r, int option, const char *argument) {
    switch (option) {
    case OPT_OUTPUT: r->output_dir = argument; return *argument ? 0 : usage_error("--output-dir: a folder%s", "");
    case OPT_LOG:
        if (!al_str_u64(argument, &r->log_every) || !r->log_every)
            return usage_error("--log-every %s: expected a number of steps", argument);
        return 0;
    case OPT_TENSORBOARD:
        r->tensorboard.asked = true;
        r->tensorboard.folder = argument && *argument ? argument : NULL;
        return 0;
    case OPT_RECORD: r->record.named = argument; return 0;
    case OPT_NO_RECORD: r->record.off = true; return 0;
    case OPT_FAIL_ON:
        return al_run_fail_on(r, argument)
                   ? usage_error("--fail-on %s: expected info, warning, critical, leak, or names of rules as in the report", argument)
                   : 0;
    case OPT_SOAK: return take_soak(r, argument);
    case OPT_NVTX:
        r->nvtx = true;
        return strcmp(r->name, "run") == 0 ? 0 : usage_error("--nvtx is for alula run%s", "");
    case OPT_MODEL: return take_model_size(&r->model_size, argument);
    case OPT_PRESET:
        if (strcmp(argument, "debug") != 0)
            return usage_error("--preset %s: expected debug", argument);
        r->verbose = true;
        r->log_every = r->log_every ? r->log_every : 1;
        return 0;
    case OPT_QUIET: r->quiet = true; return 0;
    case OPT_VERBOSE: r->verbose = true; return 0;
    case OPT_EMPTY_CACHE:
        return al_run_ask_limit(r, argument) ? usage_error("--empty-cache-above %s: expected a size or a share of the device, "
                                                           "such as 6GiB or 20%%", argument) : 0;
    default: return al_cli_common(&r->options, option, argument);
    }
}

void al_run_name_command(struct al_run *r, const char *words, size_t length) {
    if (r->options.no_cmdline)
        (void)al_str_copy(r->book.job.command, sizeof r->book.job.command, "the command");
    else
        al_command_mask(words, length, r->book.job.command, sizeof r->book.job.command);
}

static void mask_command(struct al_run *r) {
    struct al_buf b = AL_BUF_INIT;
    for (size_t i = 0; r->argv[i]; i++)
        al_buf_add(&b, r->argv[i], strlen(r->argv[i]) + 1);
    if (b.data && !b.failed)
        al_run_name_command(r, b.data, b.len);
    al_buf_free(&b);
}

static void find_probe(struct al_run *r) {
    static const char library[] = AL_LIBDIR "/alula/libalula-probe.so", start[] = AL_DATADIR "/alula/hook/sitecustomize.py";
    r->probed = al_cli_find_part("probe/libalula-probe.so", library, r->probe, sizeof r->probe);
    r->hooked = al_cli_find_part("../python/hook/sitecustomize.py", start, r->hook, sizeof r->hook);
    char *name = r->hooked ? strrchr(r->hook, '/') : NULL;
    if (name)
        *name = '\0';
}

// Before the job begins: hours later is too late to learn that the report has no place.
static int make_output(const struct al_run *r) {
    const char *folder = r->output_dir;
    int result = al_fs_make_folder(folder, 0777);
    if (!result && access(folder, W_OK))
        result = AL_E_DENIED;
    if (result)
        al_cli_error("%s: --output-dir %s: %s", r->name, folder, al_error_text(result));
    return result ? STATUS_FAILED : 0;
}

int al_run_prepare(struct al_run *r) {
    struct al_config config;
    int status = al_cli_load_config(r->options.config, &config);
    if (status)
        return status;
    if (r->model_size > 0)
        config.settings.memory_model_size = r->model_size;
    if (r->options.no_stacks)
        config.settings.stacks_enabled = 0;
    status = r->output_dir ? make_output(r) : 0;
    if (status)
        return status;
    int result = al_book_init(&r->book, &config.settings);
    if (result) {
        al_cli_error("%s: %s", r->name, al_error_text(result));
        return STATUS_FAILED;
    }
    pthread_mutex_init(&r->lock, NULL);
    r->book.job.start_ns = al_monotonic_ns();
    r->book.job.start_realtime_ns = al_realtime_ns();
    r->book.job.cpus = al_end_cpus();
    r->oom_known = al_end_oom_kills(0, &r->oom_start) == 0;
    find_probe(r);
    return 0;
}

static int start(struct al_run *r) {
    const struct al_job_options o = {.argv = r->argv,
                                     .socket = r->linked ? r->link.path : NULL,
                                     .probe = r->probed ? r->probe : NULL,
                                     .hook = r->probed && r->hooked ? r->hook : NULL,
                                     .nvtx = r->nvtx};
    int error, result = al_job_start(&o, &r->job, &error);
    if (!result)
        return 0;
    al_cli_error("run: %s: %s", r->argv[0], al_job_why(r->argv[0], result, error));
    return result == AL_E_NOENT ? STATUS_NOT_FOUND : result == AL_E_DENIED ? STATUS_NOT_EXECUTABLE : STATUS_FAILED;
}

void al_run_wait(const struct al_run *r, const struct pollfd *more, uint32_t more_count, int64_t until_ns) {
    static struct pollfd p[1 + 1 + AL_LINK_PENDING + 1 + AL_ASK_CLIENTS + AL_BOOK_RANKS + AL_RUN_WAIT_MORE];
    int64_t left = until_ns - al_monotonic_ns();
    uint32_t count = 1;
    p[0] = (struct pollfd){.fd = r->job.signal_fd, .events = POLLIN};
    if (r->linked)
        count += al_link_poll(&r->link, p + 1);
    count += al_run_ask_poll(r, p + count);
    // Ends are seen at once: who was first counts.
    for (uint32_t i = 0; i < r->book.rank_count; i++)
        if (!r->ranks[i].book->ended && r->ranks[i].end_fd >= 0)
            p[count++] = (struct pollfd){.fd = r->ranks[i].end_fd, .events = POLLIN};
    for (uint32_t i = 0; i < more_count && i < AL_RUN_WAIT_MORE; i++)
        p[count++] = more[i];
    (void)poll(p, count, left > 0 ? (int)(left / AL_NS_PER_MS) + 1 : 0);
}

void al_run_tick(struct al_run *r, int64_t now_ns) {
    al_run_drain(r);
    al_run_note_ends(r, now_ns);
    al_run_look_for_workers(r, now_ns);
    al_run_look_at_transport(r, now_ns);
    al_run_judge(r, true);
    al_run_board_tick(r, now_ns);
    al_run_tensorboard(r, false);
    al_run_log(r, now_ns, false);
    al_run_soak_tick(r, now_ns);
}

static void watch(struct al_run *r) {
    int64_t due = al_monotonic_ns();
    while (!r->job.ended) {
        al_run_wait(r, NULL, 0, due);
        int64_t now = al_monotonic_ns();
        // Who just ended is looked at before its status is reaped.
        al_run_note_ends(r, now);
        int told = al_job_signals(&r->job, al_run_note_orphan, r);
        al_run_accept(r, now);
        al_run_ask_tick(r, now);
        if (told) {
            r->told_signal = told;
            // The job may be killed before it is done: what is known now is kept.
            al_run_drain(r);
            r->record.keep_ns = 0;
            al_run_report(r, false);
        }
        if (now < due)
            continue;
        al_run_tick(r, now);
        due = now + AL_RUN_TICK_NS;
    }
}

void al_run_finish(struct al_run *r) {
    int64_t now = al_monotonic_ns();
    al_run_host_stop(r);
    al_run_accept(r, now);
    al_run_drain(r);
    al_run_note_ends(r, now);
    al_run_note_job_end(r, now);
    al_run_device_stop(r);
    al_run_tensorboard(r, true);
    al_run_log(r, now, true);
    al_run_report(r, true);
    al_run_say_end(r);
    al_run_ask_stop(r);
    al_run_soak_tell(r);
    al_run_board_stop();
    al_run_record_close(r);
    al_run_tensorboard_close(r);
    al_run_log_close(r);
    if (r->linked)
        al_link_close(&r->link);
}

static int run(struct al_run *r) {
    int status = al_run_prepare(r);
    if (status)
        return status;
    r->linked = al_link_open(&r->link) == 0;
    mask_command(r);
    status = start(r);
    if (status) {
        if (r->linked)
            al_link_close(&r->link);
        al_book_free(&r->book);
        return status;
    }
    r->book.job.pid = r->job.pid;
    (void)signal(SIGXFSZ, SIG_IGN); // a file size limit shows as an error of the write
    al_run_record_open(r);
    al_run_say_start(r);
    al_run_ask_start(r);
    al_run_board_start(r);
    al_run_device_start(r);
    al_run_host_start(r);
    watch(r);
    al_run_finish(r);
    al_job_done(&r->job);
    bool fine = r->job.status == 0 || r->soak.asked;
    if (fine && r->failed)
        _exit(STATUS_FINDING);
    if (fine)
        _exit(0);
    al_job_exit_as(&r->job);
}

int al_cmd_run(int argc, char **argv) {
    struct al_run *r = calloc(1, sizeof *r);
    int option, status = 0;
    if (!r)
        return STATUS_FAILED;
    r->name = "run";
    r->options = (struct al_cli_options)AL_CLI_OPTIONS_INIT;
    r->fail_on = -1;
    while (!status && (option = getopt_long(argc, argv, "+h", al_run_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s", help, examples);
            free(r);
            return al_cli_flush();
        }
        status = al_run_take_option(r, option, optarg);
    }
    if (!status && r->record.off && r->record.named)
        status = usage_error("run: --record and --no-record contradict each other%s", "");
    if (!status && optind >= argc)
        status = usage_error("run: name the command, as in alula run -- python train.py%s", "");
    if (!status) {
        r->argv = argv + optind;
        status = r->soak.length_ns ? al_run_soak(r, run) : run(r);
    }
    free(r);
    // What a user would take for the command's own status is never given for alula's.
    return !status || status == STATUS_NOT_FOUND || status == STATUS_NOT_EXECUTABLE ? status : STATUS_FAILED;
}
