// SPDX-License-Identifier: Apache-2.0
// alula dump: what all threads do now, in Python.
#include "cli/dump.h"

#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

// A thread that moves while it is read is read again, so often at most.
#define TRIES 20
#define RESTARTS 3

enum { OPT_JSON = 1, OPT_TREE, OPT_DEPTH, OPT_ALL_RANKS, OPT_BRIEF, OPT_NATIVE_ALL, OPT_BLOCKING, OPT_NONBLOCKING };

static const char usage[] =
    "Usage: alula dump [OPTION]... PID\n"
    "       alula dump --all-ranks [OPTION]... [PID]\n"
    "The Python stacks of all threads of a process as they are now, innermost frame first: thread, name, state, and of each\n"
    "frame file, line and function. The process is not stopped, and nothing is loaded into it. CPython 3.8 to 3.15.\n"
    "\n"
    "  -s, --subprocesses   also all processes below it (DataLoader workers, ranks, engines), each with its role and rank\n"
    "      --tree           the whole job that it belongs to, from its launcher down\n"
    "      --all-ranks      the whole job, and first in what its ranks differ: which wait where, which is elsewhere; without a\n"
    "                       PID the job of the only alula run\n"
    "      --brief          with --all-ranks: the differences alone, without each process's stacks\n"
    "  -n, --native         with native frames (C, C++, CUDA's host side) where Python called them; the interpreter's own are left\n"
    "                       out; needs libdw (elfutils)\n"
    "      --native-all     the interpreter's own, too\n"
    "      --blocking       stop each thread for the moment in which it is read; without it nothing is stopped (--nonblocking)\n"
    "  -l, --locals         also the local variables of each function: names, types and short values, secrets masked\n"
    "  -p, --pid PID        the process, as py-spy writes it\n"
    "      --depth N        frames a thread, the innermost ones (1024)\n"
    "      --json           as JSON; unknown is null\n"
    "      --no-cmdline     leave command lines out\n"
    "      --help           this text\n"
    "\n"
    "A thread is running, idle (it sleeps or waits in the kernel), waits for the GIL, or is stopped (by a signal or a\n"
    "debugger); one that holds the GIL is marked. The main thread is the first, then the others by their age.\n"
    "\n"
    "Examples:\n"
    "  alula dump 4242\n"
    "  alula dump --tree 4242\n"
    "  alula dump --native 4242\n"
    "  alula dump --all-ranks --brief 4242\n"
    "  alula dump --json 4242 | jq '.processes[].threads[] | select(.holds_gil) | .frames[0]'\n"
    "\n"
    "Exit status: 0; 1 an interpreter that alula does not know; 2 bad option; 4 no permission; 5 no such process, or it ended;\n"
    "6 not a Python process. Of a tree, what could be read is printed, and the status is that of the first that could not;\n"
    "programs in it that are not Python are left out.\n";

static const struct option options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"subprocesses", no_argument, NULL, 's'},
    {"tree", no_argument, NULL, OPT_TREE},
    {"pid", required_argument, NULL, 'p'},
    {"all-ranks", no_argument, NULL, OPT_ALL_RANKS},
    {"locals", no_argument, NULL, 'l'},
    {"brief", no_argument, NULL, OPT_BRIEF},
    {"native", no_argument, NULL, 'n'},
    {"native-all", no_argument, NULL, OPT_NATIVE_ALL},
    {"blocking", no_argument, NULL, OPT_BLOCKING},
    {"nonblocking", no_argument, NULL, OPT_NONBLOCKING},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"no-cmdline", no_argument, NULL, AL_OPT_NO_CMDLINE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct dump {
    enum al_stacks_reach reach;
    struct al_stack_settings settings;
    struct al_native_settings native;
    pid_t pid;
    bool json, no_cmdline, help, all_ranks, brief, with_native, locals;
    uint32_t printed;
    int error; // the first one
};

static int refuse(const char *text) {
    al_cli_error("%s", text);
    return AL_E_INVALID;
}

static int take(struct dump *d, int option) {
    uint64_t depth;
    switch (option) {
    case OPT_JSON: d->json = true; return 0;
    case 's': d->reach = d->reach == AL_STACKS_JOB ? AL_STACKS_JOB : AL_STACKS_BELOW; return 0;
    case OPT_TREE: d->reach = AL_STACKS_JOB; return 0;
    case OPT_ALL_RANKS: d->all_ranks = true; return 0;
    case 'l': d->locals = true; return 0;
    case OPT_BRIEF: d->brief = true; return 0;
    case 'n': d->with_native = true; return 0;
    case OPT_NATIVE_ALL: d->with_native = d->native.all = true; return 0;
    case OPT_BLOCKING: d->native.blocking = true; return 0;
    case OPT_NONBLOCKING: d->native.blocking = false; return 0;
    case 'p':
        d->pid = al_stacks_pid(optarg);
        return d->pid ? 0 : refuse("dump: --pid takes a process id, as in alula dump --pid 4242");
    case OPT_DEPTH:
        if (!al_str_u64(optarg, &depth) || !depth || depth > AL_STACK_DEPTH_MOST)
            return refuse("dump: --depth takes a number of frames from 1 to 65536");
        d->settings.depth = (unsigned)depth;
        return 0;
    case AL_OPT_NO_CMDLINE: d->no_cmdline = true; return 0;
    case 'h': d->help = true; return 0;
    default: return AL_E_INVALID; // getopt has said why
    }
}

static int parse(struct dump *d, int argc, char **argv) {
    int option, result = 0;
    while (!result && !d->help && (option = getopt_long(argc, argv, "snlp:h", options, NULL)) != -1)
        result = take(d, option);
    if (result || d->help)
        return result;
    if (!d->pid && argc - optind == 1)
        d->pid = al_stacks_pid(argv[optind++]);
    if (d->brief && !d->all_ranks)
        return refuse("dump: --brief goes with --all-ranks");
    if (d->all_ranks && !d->pid && optind == argc)
        return 0;
    return d->pid && optind == argc ? 0 : refuse("dump: name one process by its PID, as in alula dump 4242");
}

static bool complete(const struct al_stack_sample *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->threads[i].status == AL_STACK_UNSTABLE || s->threads[i].status == AL_STACK_UNREADABLE)
            return false;
    return true;
}

static int read_once(const struct al_stack_settings *settings, struct al_stack **s, struct al_dump *out,
                     struct al_stack_error *error) {
    int result = *s ? 0 : al_stack_open(out->process->pid, settings, s, error);
    if (result)
        return result;
    for (int i = 0; i < TRIES && !result; i++) {
        out->at_realtime_ns = al_realtime_ns();
        result = al_stack_sample(*s, AL_STACK_STATE | AL_STACK_NAMES, &out->sample);
        if (!result && complete(out->sample))
            break;
    }
    if (result == AL_E_FORMAT)
        (void)snprintf(error->text, sizeof error->text, "process %d: its threads cannot be read: its interpreter is starting or "
                                                        "going down, or its memory is damaged", (int)out->process->pid);
    else if (result)
        (void)snprintf(error->text, sizeof error->text, "process %d: %s", (int)out->process->pid,
                       result == AL_E_AGAIN ? "it is being replaced by another program: try again" : al_error_text(result));
    if (result) {
        al_stack_free(*s);
        *s = NULL;
    }
    return result;
}

int al_dump_read(const struct al_stack_settings *settings, struct al_stack **s, struct al_dump *out, struct al_stack_error *error) {
    int result = AL_E_AGAIN, tries = *s ? 1 : RESTARTS;
    for (int i = 0; i < tries && result == AL_E_AGAIN; i++)
        result = read_once(settings, s, out, error);
    return result;
}

static void print(struct dump *d, struct al_dump *out, struct al_stack *s, struct al_buf *b) {
    struct al_dump_native native = {0};
    d->native.python = !d->with_native;
    int result = s && (d->with_native || d->native.blocking) ? al_dump_native_add(&native, out, s, &d->native) : 0;
    d->error = d->error ? d->error : result;
    if (s && ((d->locals && al_dump_locals(s, out)) || al_async_read(s, &out->tasks)))
        b->failed = true;
    if (d->json)
        al_dump_json(b, out);
    else if (s)
        al_dump_text(b, out);
    al_dump_locals_free(out);
    al_async_free(&out->tasks);
    al_dump_native_free(&native);
}

// tells: also of one that is no Python.
static void dump_one(struct dump *d, const struct al_stacks_who *who, const struct al_stacks_process *p, struct al_buf *b, bool tells) {
    struct al_stack *s = NULL;
    struct al_stack_error error = {""};
    struct al_dump out = {.process = p};
    int result = al_dump_read(&d->settings, &s, &out, &error);
    if (result && !tells && !al_stacks_tells(who, result))
        return;
    if (result) {
        al_cli_error("dump: %s", error.text);
        d->error = d->error ? d->error : result;
        out.error = error.text;
    }
    out.stack = s;
    if (d->json || s)
        al_buf_str(b, !d->printed++ ? "" : d->json ? ", " : "\n");
    print(d, &out, s, b);
    al_stack_free(s);
}

static int finish(const struct dump *d, struct al_buf *b, int result, const char *why) {
    if (!result && b->failed)
        result = AL_E_NOMEM;
    if (result)
        al_cli_error("dump: %s", *why ? why : al_error_text(result));
    else if (b->len)
        (void)fwrite(b->data, 1, b->len, stdout);
    al_buf_free(b);
    int status = al_cli_flush();
    return status ? status : al_error_exit_status(result ? result : d->error);
}

static void print_member(struct dump *d, struct al_dump_member *m, struct al_buf *b) {
    if (m->result && !m->told)
        return;
    if (m->result) {
        al_cli_error("dump: %s", m->error.text);
        d->error = d->error ? d->error : m->result;
    }
    if (d->brief)
        return;
    if (d->json)
        al_buf_str(b, d->printed++ ? ", " : "");
    else if (m->stack)
        al_buf_char(b, '\n');
    print(d, &m->dump, m->stack, b);
}

static int dump_job(struct dump *d) {
    struct al_dump_job job;
    struct al_buf b = AL_BUF_INIT;
    struct al_stack_error error = {""};
    int result = al_dump_job_read(&job, d->pid, &d->settings, d->no_cmdline, d->locals, &error);
    al_buf_str(&b, d->json ? "{\"differences\": " : "");
    if (!result && (d->json || !job.none_read)) // else errors say it all
        result = al_dump_differences(&b, &job, d->json);
    al_buf_str(&b, d->json ? ", \"processes\": [" : "");
    for (uint32_t i = 0; !result && i < job.count; i++)
        print_member(d, &job.members[i], &b);
    al_buf_str(&b, d->json ? "]}\n" : "");
    al_dump_job_free(&job);
    return finish(d, &b, result, error.text);
}

static int dump(struct dump *d) {
    struct al_stacks_who who;
    struct al_buf b = AL_BUF_INIT;
    int result = al_stacks_find(&who, d->pid, d->reach, d->no_cmdline, 0);
    if (d->json)
        al_buf_str(&b, "{\"processes\": [");
    for (uint32_t i = 0; !result && i < who.count; i++)
        dump_one(d, &who, &who.list[i], &b, false);
    for (uint32_t i = 0; !result && !d->printed && !d->error && i < who.count; i++) // nothing is Python
        if (who.list[i].pid == d->pid)
            dump_one(d, &who, &who.list[i], &b, true);
    if (d->json)
        al_buf_str(&b, "]}\n");
    al_stacks_free(&who);
    return finish(d, &b, result, "");
}

int al_cmd_dump(int argc, char **argv) {
    struct dump d = {0};
    if (parse(&d, argc, argv))
        return al_error_exit_status(AL_E_INVALID);
    if (d.help) {
        fputs(usage, stdout);
        return al_cli_flush();
    }
    return d.all_ranks ? dump_job(&d) : dump(&d);
}
