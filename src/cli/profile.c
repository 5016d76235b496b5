// SPDX-License-Identifier: Apache-2.0
// alula profile: where the threads of a process spend their time, for flame graphs.
#include "cli/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile_stored.h"

enum { OPT_QUIET = 1, OPT_NO_LINES, OPT_NOTHING, OPT_FROM, OPT_LIST, OPT_ID, OPT_NO_RECORD, OPT_NATIVE_ALL, OPT_BLOCKING, OPT_NONBLOCKING };

static const char usage[] =
    "Usage: alula profile [OPTION]... -o FILE PID\n"
    "       alula profile [OPTION]... -o FILE -- COMMAND [ARGUMENT]...\n"
    "       alula profile --from RECORDING (--list | [--id N] [-f FORMAT] -o FILE)\n"
    "Samples the Python stacks of a process for a while and writes how often each was met. The process is not stopped, and\n"
    "nothing is loaded into it. CPython 3.8 to 3.15. Ends at --duration, with the process, or at Ctrl-C; what it has is kept.\n"
    "\n"
    "  -o, --output FILE    where to; - is standard output\n"
    "  -d, --duration TIME  such as 10s or 2min; without it until the process ends or Ctrl-C\n"
    "  -r, --rate N         samples a second, 1 to 10000 (100)\n"
    "  -f, --format FORMAT  without it by FILE's ending, else folded:\n"
    "                         flamegraph  .html        a page: flame graph, time and functions, searchable (also html)\n"
    "                         svg         .svg         the same as a picture\n"
    "                         speedscope  .json        speedscope.app, a profile a thread\n"
    "                         folded      .folded      flamegraph.pl, inferno (also raw)\n"
    "                         pprof       .pb.gz       go tool pprof\n"
    "                         chrome      .trace.json  Perfetto, chrome://tracing: what ran when (also chrometrace)\n"
    "                         alula       .alula       a recording; one that is there gets the profile added\n"
    "  -g, --gil            only threads that hold the GIL\n"
    "  -i, --idle           also threads that sleep or wait in the kernel\n"
    "  -s, --subprocesses   also all processes below it, those that come later too; each with its role and rank\n"
    "      --tree           the whole job that it belongs to, from its launcher down\n"
    "  -t, --threads        the thread's name as the root of its stacks\n"
    "  -F, --function       functions as a whole, at their first line, instead of lines\n"
    "      --nolineno       functions as a whole, without a line\n"
    "  -n, --native         with native frames (C, C++, CUDA's host side) where Python called them; needs libdw (elfutils)\n"
    "      --native-all     the interpreter's own, too\n"
    "      --blocking       stop each thread for the moment of its sample; without it nothing is stopped (--nonblocking)\n"
    "  -p, --pid PID        the process, as py-spy writes it\n"
    "      --from FILE      writes a profile that a recording holds, instead of sampling one\n"
    "      --list           what profiles it holds\n"
    "      --id N           this one; without it the latest\n"
    "      --no-record      not into the recording of the alula run that watches the process\n"
    "      --no-cmdline     leave the command line out\n"
    "      --quiet          no figures on stderr at the end\n"
    "      --help           this text\n"
    "\n"
    "With a COMMAND it is started, sampled from its first moment, and alula ends with its exit status; where it is no Python\n"
    "itself (bash, uv run), the Python below it is sampled. A --duration that is over does not end it.\n"
    "\n"
    "Stacks of which a part could not be read are kept, with [moved while it was read], [not readable] or [too deep] in the\n"
    "place of what is missing. How many those are, and what the sampling cost, is told at the end.\n"
    "\n"
    "Examples:\n"
    "  alula profile -o train.html --duration 30s 4242\n"
    "  alula profile -o job.speedscope.json --tree --idle --duration 10s 4242\n"
    "  alula profile -o start.json -- python train.py --epochs 1\n"
    "  alula profile -o native.folded --native -d 30s 4242\n"
    "  alula profile --from output/run.alula -o job.json\n"
    "  alula profile -o - --gil -d 5s 4242 | flamegraph.pl > gil.svg\n"
    "\n"
    "Exit status: 0; 1 the file could not be written, or an interpreter that alula does not know; 2 bad option; 4 no\n"
    "permission; 5 no such process; 6 not a Python process. With a COMMAND its own, as long as that is not 0; 127 it was not\n"
    "found, 126 it cannot be executed.\n";

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"duration", required_argument, NULL, 'd'},
    {"rate", required_argument, NULL, 'r'},
    {"format", required_argument, NULL, 'f'},
    {"gil", no_argument, NULL, 'g'},
    {"idle", no_argument, NULL, 'i'},
    {"subprocesses", no_argument, NULL, 's'},
    {"tree", no_argument, NULL, 'T'},
    {"threads", no_argument, NULL, 't'},
    {"function", no_argument, NULL, 'F'},
    {"native", no_argument, NULL, 'n'},
    {"native-all", no_argument, NULL, OPT_NATIVE_ALL},
    {"blocking", no_argument, NULL, OPT_BLOCKING},
    {"nonblocking", no_argument, NULL, OPT_NONBLOCKING},
    {"pid", required_argument, NULL, 'p'},
    {"nolineno", no_argument, NULL, OPT_NO_LINES},
    {"full-filenames", no_argument, NULL, OPT_NOTHING}, // as py-spy has it: here it is always so
    {"hideprogress", no_argument, NULL, OPT_NOTHING},   // likewise
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"from", required_argument, NULL, OPT_FROM},
    {"list", no_argument, NULL, OPT_LIST},
    {"id", required_argument, NULL, OPT_ID},
    {"no-record", no_argument, NULL, OPT_NO_RECORD},
    {"no-cmdline", no_argument, NULL, AL_OPT_NO_CMDLINE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int refuse(const char *text) {
    al_cli_error("profile: %s", text);
    return AL_E_INVALID;
}

static int take_duration(struct al_profiling *p, const char *text) {
    if (strcmp(text, "unlimited") == 0) { // as py-spy has it
        p->seconds = 0;
        return 0;
    }
    return al_stacks_seconds(text, AL_STACKS_DURATION_MOST, &p->seconds)
               ? 0
               : refuse("--duration takes a time above 0 such as 10s or 2min, of at most 366 days, or unlimited");
}

static int take_rate(struct al_profiling *p, const char *text) {
    return al_stacks_rate(text, &p->rate) ? 0 : refuse("--rate takes samples a second, from 1 to 10000");
}

static int take_format(struct al_profiling *p, const char *text) {
    p->recording = strcmp(text, "alula") == 0;
    p->format = al_profile_format_named(p->recording ? "speedscope" : text);
    return p->format ? 0 : refuse("--format takes flamegraph, svg, speedscope, folded, pprof, chrome or alula");
}

static int take(struct al_profiling *p, int option) {
    switch (option) {
    case 'o': p->output = optarg; return 0;
    case 'd': return take_duration(p, optarg);
    case 'r': return take_rate(p, optarg);
    case 'f': return take_format(p, optarg);
    case 'g': p->gil = true; return 0;
    case 'i': p->idle = true; return 0;
    case 's': p->reach = p->reach == AL_STACKS_JOB ? AL_STACKS_JOB : AL_STACKS_BELOW; return 0;
    case 'T': p->reach = AL_STACKS_JOB; return 0;
    case 't': p->by_thread = true; return 0;
    case 'F': p->by_function = true; return 0;
    case 'n': p->native = true; return 0;
    case OPT_NATIVE_ALL: p->native = p->native_all = true; return 0;
    case OPT_BLOCKING: p->blocking = true; return 0;
    case OPT_NONBLOCKING: p->blocking = false; return 0;
    case 'p':
        p->pid = al_stacks_pid(optarg);
        return p->pid ? 0 : refuse("--pid takes a process id, as in --pid 4242");
    case OPT_NO_LINES: p->no_lines = true; return 0;
    case OPT_NOTHING: return 0;
    case OPT_QUIET: p->quiet = true; return 0;
    case OPT_FROM: p->from = optarg; return 0;
    case OPT_LIST: p->list = true; return 0;
    case OPT_ID: return al_str_i64(optarg, &p->id) && p->id > 0 ? 0 : refuse("--id takes the number of a profile, as --list shows it");
    case OPT_NO_RECORD: p->no_record = true; return 0;
    case AL_OPT_NO_CMDLINE: p->no_cmdline = true; return 0;
    case 'h': p->help = true; return 0;
    default: return AL_E_INVALID; // getopt has said why
    }
}

static int check(const struct al_profiling *p, int left) {
    if (p->from ? p->pid || left : (p->list || p->id))
        return refuse(p->from ? "--from takes no process" : "--list and --id go with --from RECORDING");
    if (p->argv && p->pid)
        return refuse("either a --pid or a command");
    if (!p->argv && !p->from && (!p->pid || left))
        return refuse("name one process by its PID, as in alula profile -o out.folded 4242");
    if (!p->list && (!p->output || !*p->output))
        return refuse("say with -o where the profile goes, as in -o out.folded");
    if (p->recording && strcmp(p->output, "-") == 0)
        return refuse("a recording is a file: name it with -o");
    return 0;
}

static int parse(struct al_profiling *p, int argc, char **argv) {
    int option, result = 0;
    while (!result && !p->help && (option = getopt_long(argc, argv, "o:d:r:f:gistFnp:h", options, NULL)) != -1)
        result = take(p, option);
    if (result || p->help)
        return result;
    if (optind < argc && optind > 1 && strcmp(argv[optind - 1], "--") == 0 && argv[optind - 1] != p->output)
        p->argv = argv + optind;
    else if (!p->pid && !p->from && argc - optind == 1)
        p->pid = al_stacks_pid(argv[optind++]);
    result = check(p, argc - optind);
    if (result || p->list)
        return result;
    p->recording |= !p->format && al_str_ends(p->output, ".alula");
    const struct al_profile_format *of_file = al_profile_format_of_file(p->output);
    // "flamegraph" is py-spy's word too, whose flame graphs are SVG.
    if (!p->format || (p->format->write == al_flame_html && of_file && of_file->write == al_flame_svg))
        p->format = of_file;
    if (!p->format)
        p->format = al_profile_format_named(p->recording ? "speedscope" : "folded");
    p->cmdline = !p->no_cmdline;
    return 0;
}

static uint32_t processes(const struct al_profiling *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->target_count; i++)
        count += p->targets[i]->stack || p->targets[i]->before.samples;
    return count;
}

// The place that was asked for took no more: somewhere else, so that nothing is lost.
static void keep_elsewhere(const struct al_profiling *p, const struct al_buf *b) {
    const char *folder = getenv("TMPDIR"), *end = p->format->endings;
    int end_len = (int)strcspn(end, " ");
    char path[512];
    int n = snprintf(path, sizeof path, "%s/alula-profile-%d-XXXXXX%.*s", folder && *folder ? folder : "/tmp", (int)p->pid, end_len, end);
    int fd = n > 0 && (size_t)n < sizeof path ? mkostemps(path, end_len, O_CLOEXEC) : -1;
    bool good = fd >= 0 && al_fs_write_all(fd, b->data, b->len);
    if (fd >= 0 && close(fd))
        good = false;
    if (good)
        al_cli_error("profile: it is kept in %s", path);
    else if (fd >= 0)
        (void)unlink(path);
}

// `name`: room for the profile's name.
static struct al_profile_about about_of(const struct al_profiling *p, char *name, size_t size) {
    struct al_stack_counts c;
    al_profiling_counts(p, &c);
    (void)snprintf(name, size, "process %d", (int)p->pid);
    struct al_profile_about about = {
        .name = name,
        .command = "",
        .exporter = "alula " AL_VERSION,
        .rate = p->rate,
        .seconds = (double)(p->ended_ns - p->began_ns) / 1e9,
        .start_ns = p->start_ns,
        .pid = (int32_t)p->pid,
        .processes = processes(p),
        .ticks = p->ticks,
        .late = p->late,
        .failed = p->failed,
        .stacks = c.threads,
        .unstable = c.unstable,
        .unreadable = c.unreadable,
        .truncated = c.truncated,
        .idle = p->idle,
        .gil = p->gil,
        .by_function = p->by_function,
    };
    for (uint32_t i = 0; i < p->target_count; i++)
        if (p->targets[i]->process.pid == p->pid)
            about.command = p->targets[i]->process.command;
    return about;
}

// 0 or an errno.
static int write_file(const struct al_profiling *p, const struct al_buf *b) {
    int fd = p->output_fd, error = 0;
    if ((fd != STDOUT_FILENO && lseek(fd, 0, SEEK_SET) == 0 && ftruncate(fd, 0) && errno != EINVAL) ||
        !al_fs_write_all(fd, b->data, b->len))
        error = errno;
    if (fd != STDOUT_FILENO && close(fd) && !error)
        error = errno;
    return error;
}

// Not every reason names the file.
static void say_recording(const char *path, int result, const struct al_store_error *e) {
    const char *why = *e->text ? e->text : al_error_text(result);
    bool named = strstr(why, path) != NULL;
    al_cli_error("profile: %s%s%s", named ? "" : path, named ? "" : ": ", why);
}

int al_profiling_write(const struct al_profiling *p, const struct al_profile_about *about) {
    struct al_buf b = AL_BUF_INIT;
    struct al_store_error e = {{0}};
    int result = 0, error = 0;
    bool fresh;
    (void)signal(SIGXFSZ, SIG_IGN); // a file size limit shows as an error of the write
    if (p->recording) {
        result = al_profile_recording(p->output, about->start_ns, &fresh, &e);
        if (!result)
            result = al_profile_store(p->profile, about, p->output, &e);
        if (!result)
            return 0;
        say_recording(p->output, result, &e);
        if (p->format->write(&b, p->profile, about) == 0)
            keep_elsewhere(p, &b);
        al_buf_free(&b);
        return result;
    }
    result = p->format->write(&b, p->profile, about);
    if (!result && (error = write_file(p, &b)))
        result = AL_E_IO;
    if (result)
        al_cli_error("profile: %s: %s", p->output, error ? strerror(error) : al_error_text(result));
    if (error)
        keep_elsewhere(p, &b);
    al_buf_free(&b);
    return result;
}

// What is not asked for by -o, but belongs there: an alula run's own recording.
static void keep_in_run(const struct al_profiling *p, const struct al_profile_about *about) {
    struct al_store_error e = {{0}};
    char path[1200];
    if (p->no_record || !al_profile_samples(p->profile) || !al_profile_run_recording(p->pid, path, sizeof path))
        return;
    struct stat run, output;
    if (p->recording && stat(path, &run) == 0 && stat(p->output, &output) == 0 && run.st_dev == output.st_dev && run.st_ino == output.st_ino)
        return;
    int result = al_profile_store(p->profile, about, path, &e);
    if (result)
        al_cli_error("profile: not added to the recording of the alula run that watches it: %s", *e.text ? e.text : al_error_text(result));
    else if (!p->quiet)
        al_cli_error("profile: also added to %s", path);
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void say_native(const struct al_profiling *p) {
    struct al_native_counts c;
    al_profiling_native_counts(p, &c);
    uint64_t all = c.merged + c.part + c.absent + c.unfit;
    al_cli_error("profile: of %llu stacks %.1f %% with native frames, %.1f %% from the innermost ones on (the rest could not be unwound), "
                 "Python only: %.1f %% without a picture, %.1f %% that did not fit%s",
                 (unsigned long long)all, share(c.merged, all), share(c.part, all), share(c.absent, all), share(c.unfit, all),
                 c.capture.no_room ? "; kernel.perf_event_mlock_kb or ulimit -l left no room for all threads' pictures" : "");
}

static void say(const struct al_profiling *p) {
    struct al_stack_counts c;
    double wall = (double)(p->ended_ns - p->began_ns) / 1e9, cpu = (double)p->cpu_ns;
    uint32_t count = processes(p);
    al_profiling_counts(p, &c);
    uint64_t samples = al_profile_samples(p->profile);
    uint32_t threads = al_profile_tracks(p->profile);
    al_cli_error("profile: %.1f s, %llu sample%s at %g a second of %u process%s: %llu stack%s of %u thread%s%s", wall,
                 (unsigned long long)p->ticks, p->ticks == 1 ? "" : "s", p->rate, (unsigned)count, count == 1 ? "" : "es",
                 (unsigned long long)samples, samples == 1 ? "" : "s", (unsigned)threads, threads == 1 ? "" : "s",
                 p->all_ended ? p->launched ? "; the command has ended" : "; the process has ended" : "");
    al_cli_error("profile: own cost %.2f %% of a core, %.1f us a stack; moved while read %.3f %%, not readable %.3f %%, "
                 "degraded frames %llu, too deep %llu; samples left out: %llu that came late, %llu without a list of threads",
                 wall > 0 ? cpu / wall / 1e7 : 0, c.threads ? cpu / 1e3 / (double)c.threads : 0, share(c.unstable, c.threads),
                 share(c.unreadable, c.threads), (unsigned long long)c.degraded_frames, (unsigned long long)c.truncated,
                 (unsigned long long)p->late, (unsigned long long)p->failed);
    if (p->native)
        say_native(p);
    uint64_t further = al_profile_further(p->profile);
    if (further)
        al_cli_error("profile: more different stacks than are told apart: %.2f %% of samples end in [further stacks]",
                     share(further, samples));
    if (!samples && !p->idle)
        al_cli_error("profile: no thread was seen %s: --idle also counts those that sleep or wait",
                     p->gil ? "with the GIL" : "running");
    if (p->wrapped)
        al_cli_error("profile: %s is no Python: the processes below it were sampled", p->argv[0]);
    else if (p->launched && p->reach == AL_STACKS_ONE && !p->job.ended && al_profiling_has_new(p))
        al_cli_error("profile: processes below it were not sampled: --subprocesses");
}

// *ret_fresh: there was no such file before.
int al_profiling_open_output(struct al_profiling *p, bool *ret_fresh) {
    struct al_store_error e = {{0}};
    *ret_fresh = false;
    p->output_fd = STDOUT_FILENO;
    if (strcmp(p->output, "-") == 0)
        return 0;
    if (p->recording) {
        void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
        int result = al_profile_recording(p->output, al_realtime_ns(), ret_fresh, &e);
        (void)signal(SIGXFSZ, before); // a command that is started has its own
        if (result)
            say_recording(p->output, result, &e);
        return result;
    }
    p->output_fd = open(p->output, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *ret_fresh = p->output_fd >= 0;
    if (p->output_fd < 0)
        p->output_fd = open(p->output, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); // cut when it is written
    if (p->output_fd < 0)
        al_cli_error("profile: %s: %s", p->output, strerror(errno));
    return p->output_fd < 0 ? AL_E_IO : 0;
}

static int sample_and_write(struct al_profiling *p) {
    char name[64];
    int result = al_profiling_sample(p);
    if (result)
        al_cli_error("profile: %s; what there is is written", al_error_text(result));
    const struct al_profile_about about = about_of(p, name, sizeof name);
    int written = al_profiling_write(p, &about);
    keep_in_run(p, &about);
    if (!p->quiet)
        say(p);
    return result ? result : written;
}

static int profile_command(struct al_profiling *p) {
    bool fresh;
    int result = al_profiling_open_output(p, &fresh);
    if (result)
        return al_error_exit_status(result);
    int status = al_profiling_start(p);
    result = status ? AL_E_NOENT : al_profiling_await(p);
    if (!result)
        result = sample_and_write(p);
    else if (fresh)
        (void)unlink(p->output);
    return status ? status : al_profiling_end(p, al_error_exit_status(result));
}

static int profile(struct al_profiling *p) {
    bool fresh;
    p->profile = al_profile_new();
    if (p->argv && p->profile)
        return profile_command(p);
    int result = p->profile ? al_profiling_open(p) : AL_E_NOMEM;
    if (!result)
        result = al_profiling_open_output(p, &fresh);
    if (result)
        return al_error_exit_status(result);
    al_cli_signals();
    return al_error_exit_status(sample_and_write(p));
}

int al_cmd_profile(int argc, char **argv) {
    struct al_profiling p = {.rate = AL_STACKS_RATE_DEFAULT};
    if (parse(&p, argc, argv))
        return al_error_exit_status(AL_E_INVALID);
    if (p.help) {
        fputs(usage, stdout);
        return al_cli_flush();
    }
    int status = p.from ? al_profile_from(&p) : profile(&p);
    al_profiling_close(&p);
    return status;
}
