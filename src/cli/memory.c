// SPDX-License-Identifier: Apache-2.0
// alula memory PID: GPU memory of one process (or its tree) on each GPU.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/memory_proc.h"

#define MIB 1048576.0
#define DEPTH_MAX 64 // of a process tree; a loop in a made-up /proc ends here

enum { OPT_JSON = 1, OPT_TREE };

static const char usage[] =
    "Usage: alula memory [OPTION]... PID\n"
    "GPU memory that a process holds on each GPU, as the driver counts it: what its contexts took, torch's cache\n"
    "included, not live tensors alone. Used and total are in MiB.\n"
    "\n"
    "  --tree   the process and its children, and their sum (a whole job by its launcher's pid)\n"
    "  --json   as JSON, in bytes\n"
    "\n"
    "Exit status: 0 told; 1 cannot tell (the reason is printed); 5 no such process, or it holds no GPU memory.\n"
    "\n"
    "Examples:\n"
    "  alula memory 4242\n"
    "  alula memory --tree $(pgrep -o torchrun)\n"
    "  alula memory --json $$ | jq .used_bytes\n"
    "\n";

static const struct option options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"tree", no_argument, NULL, OPT_TREE},
    AL_CLI_COMMON_OPTIONS,
    {NULL, 0, NULL, 0},
};

enum outcome { TOLD, NO_PROCESS, NO_MEMORY, CANNOT_TELL };

static const struct {
    const char *word;
    int error; // AL_E_*, for the exit status
} outcomes[] = {
    [TOLD] = {"ok", 0},
    [NO_PROCESS] = {"no_process", AL_E_NOENT},
    [NO_MEMORY] = {"no_gpu_memory", AL_E_NOENT},
    [CANNOT_TELL] = {"cannot_tell", AL_E_UNSUPPORTED},
};

struct memory {
    struct al_cli_options common;
    bool json, tree, help;
    pid_t pid;
    int root; // of /proc; -1 with a scenario, whose processes are not this machine's
    const struct al_snapshot *s;
    uint32_t *rows; // positions in the snapshot of the rows to print
    uint32_t row_count;
    enum outcome outcome;
    char reason[320];
    double used, total; // sums over the rows and over the GPUs in them
    uint32_t known; // rows whose memory is known
    bool total_known;
};

static int parse(struct memory *m, int argc, char **argv) {
    int option;
    uint64_t pid;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == OPT_JSON)
            m->json = true;
        else if (option == OPT_TREE)
            m->tree = true;
        else if (option == 'h' || option == AL_OPT_HELP)
            m->help = true;
        else {
            int status = al_cli_common(&m->common, option, optarg);
            if (status)
                return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
        }
    }
    if (m->help)
        return 0;
    if (optind + 1 != argc) {
        al_cli_error("memory: expected one PID (see alula memory --help)");
        return al_error_exit_status(AL_E_INVALID);
    }
    if (!al_str_u64(argv[optind], &pid) || pid == 0 || pid > INT32_MAX) {
        al_cli_error("memory: %s: expected a process id", argv[optind]);
        return al_error_exit_status(AL_E_INVALID);
    }
    m->pid = (pid_t)pid;
    return 0;
}

// --- who is who ---

static pid_t parent_of(const struct memory *m, pid_t pid) {
    const struct al_proc *p = al_snapshot_proc(m->s, pid);
    if (p && p->alive)
        return p->ppid;
    return m->root >= 0 ? al_memory_proc_parent(m->root, pid) : 0;
}

static bool descends(const struct memory *m, pid_t pid) {
    for (int depth = 0; depth < DEPTH_MAX && pid > 1; depth++) {
        pid = parent_of(m, pid);
        if (pid == m->pid)
            return true;
    }
    return false;
}

static bool exists(const struct memory *m, pid_t pid) {
    const struct al_proc *p = al_snapshot_proc(m->s, pid);
    if (p && p->alive && !p->foreign)
        return true;
    return m->root >= 0 && al_memory_proc_exists(m->root, pid);
}

// The driver names a process that this pid namespace does not show, or whose number is another process's here.
static bool is_foreign(const struct memory *m, pid_t pid) {
    const struct al_proc *p = al_snapshot_proc(m->s, pid);
    return p && p->foreign;
}

// A MIG device's process shows on its GPU as well.
static bool shows_on_mig_device(const struct al_snapshot *s, const struct al_proc_gpu *row) {
    for (uint32_t i = 0; s->gpus[row->gpu].info.mig_enabled && i < s->row_count; i++) {
        uint32_t gpu = s->rows[i].gpu;
        if (s->rows[i].pid == row->pid && gpu < s->gpu_count && s->gpus[gpu].info.is_mig &&
            s->gpus[gpu].info.parent == (int32_t)row->gpu)
            return true;
    }
    return false;
}

// "3", or "3:0" for the first MIG device of GPU 3, as nvidia-smi -L counts them.
struct label {
    char text[24];
};
static int32_t mig_index(const struct al_snapshot *s, const struct al_gpu *gpu) {
    int32_t nth = 0;
    for (const struct al_gpu *g = s->gpus; g < gpu; g++)
        nth += g->info.is_mig && g->info.parent == gpu->info.parent;
    return gpu->info.is_mig ? nth : -1;
}

static uint32_t board_index(const struct al_snapshot *s, const struct al_gpu *gpu) {
    int32_t parent = gpu->info.is_mig ? gpu->info.parent : -1;
    return parent >= 0 && (uint32_t)parent < s->gpu_count ? s->gpus[parent].info.index : gpu->info.index;
}

static struct label label(const struct al_snapshot *s, const struct al_gpu *gpu) {
    struct label l;
    if (gpu->info.is_mig)
        (void)snprintf(l.text, sizeof l.text, "%u:%d", board_index(s, gpu), mig_index(s, gpu));
    else
        (void)snprintf(l.text, sizeof l.text, "%u", gpu->info.index);
    return l;
}

// --- finding out ---

static void tell(struct memory *m, enum outcome outcome, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void tell(struct memory *m, enum outcome outcome, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->reason, sizeof m->reason, format, args);
    va_end(args);
    m->outcome = outcome;
}

static void add_sums(struct memory *m) {
    for (uint32_t i = 0; i < m->row_count; i++) {
        const struct al_proc_gpu *row = &m->s->rows[m->rows[i]];
        struct al_value total = m->s->gpus[row->gpu].m[AL_GPU_MEM_TOTAL];
        bool first = !i || m->s->rows[m->rows[i - 1]].gpu != row->gpu;
        if (al_ok(row->memory_bytes)) {
            m->used += row->memory_bytes.num;
            m->known++;
        } else
            tell(m, CANNOT_TELL, "the driver does not tell the memory of process %d on GPU %s: %s", (int)row->pid,
                 label(m->s, &m->s->gpus[row->gpu]).text, al_status_text(row->memory_bytes.status));
        if (first)
            m->total += total.num;
        m->total_known &= al_ok(total);
    }
}

// A GPU whose process list is not known may hold memory of the process, too.
static void check_lists(struct memory *m) {
    for (uint32_t i = 0; i < m->s->gpu_count; i++) {
        const struct al_gpu *gpu = &m->s->gpus[i];
        uint32_t status = gpu->info.status == AL_STATUS_OK ? gpu->process_status : gpu->info.status;
        if (status == AL_STATUS_OK || gpu->info.mig_enabled)
            continue;
        tell(m, CANNOT_TELL, "the processes of GPU %s are not known: %s", label(m->s, gpu).text,
             al_status_text(status));
        return;
    }
}

static pid_t called_so_in_a_container(const struct memory *m) {
    for (uint32_t i = 0; m->root >= 0 && i < m->s->row_count; i++)
        if (al_memory_proc_is_called(m->root, m->s->rows[i].pid, m->pid))
            return m->s->rows[i].pid;
    return 0;
}

// Outside the host's pid namespace the driver's list may be empty or name the host's pids; it is good for "holds none"
// only when it names processes that are seen here, or when the process has no GPU open at all.
static bool list_is_of_others(const struct memory *m) {
    bool ours = false;
    if (m->s->node.host_pid_ns)
        return false;
    for (uint32_t i = 0; i < m->s->row_count; i++) {
        if (is_foreign(m, m->s->rows[i].pid))
            return true;
        ours |= exists(m, m->s->rows[i].pid);
    }
    return !ours && (m->tree || m->root < 0 || al_memory_proc_uses_gpu(m->root, m->pid) != 0);
}

static uint32_t count_descendants(const struct memory *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->s->row_count; i++)
        count += descends(m, m->s->rows[i].pid);
    return count;
}

// No row is this process's: say what is known of it.
static void explain_nothing(struct memory *m) {
    int pid = (int)m->pid;
    pid_t host_pid = called_so_in_a_container(m), leader = m->root >= 0 ? al_memory_proc_leader(m->root, m->pid) : 0;
    bool there = exists(m, m->pid);
    if (host_pid)
        tell(m, there ? NO_MEMORY : NO_PROCESS,
             "%s %d; a container calls process %d by that number: try alula memory %d",
             there ? "no GPU memory is held by process" : "no process", pid, (int)host_pid, (int)host_pid);
    else if (!there)
        tell(m, NO_PROCESS, "no process %d", pid);
    else if (leader && leader != m->pid)
        tell(m, NO_MEMORY, "%d is a thread of process %d: try alula memory %d", pid, (int)leader, (int)leader);
    else if (list_is_of_others(m))
        tell(m, CANNOT_TELL, "the driver does not name processes as this pid namespace does, so that its list says "
                             "nothing of them; run alula on the host or in a container with the host's pid namespace");
    else if (!m->tree && count_descendants(m))
        tell(m, NO_MEMORY, "process %d holds no GPU memory itself, its children do: try --tree", pid);
    else
        tell(m, NO_MEMORY, "process %d%s no GPU memory", pid, m->tree ? " and its children hold" : " holds");
    if (m->outcome == NO_MEMORY)
        check_lists(m); // "none" needs every GPU's answer
}

static int find_out(struct memory *m) {
    bool foreign = false;
    m->total_known = true;
    m->rows = calloc(m->s->row_count + 1, sizeof *m->rows);
    if (!m->rows)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < m->s->row_count; i++) {
        const struct al_proc_gpu *row = &m->s->rows[i];
        if (row->gpu >= m->s->gpu_count || !(row->pid == m->pid || (m->tree && descends(m, row->pid))))
            continue;
        if (shows_on_mig_device(m->s, row))
            continue;
        if (is_foreign(m, row->pid))
            foreign = true;
        else
            m->rows[m->row_count++] = i;
    }
    if (foreign)
        tell(m, CANNOT_TELL, "the driver names a process that is not to be seen here, or one whose number belongs to "
                             "another process here: it counts in another pid namespace; run alula in the host's");
    else if (!m->row_count)
        explain_nothing(m);
    else
        check_lists(m);
    add_sums(m);
    return 0;
}

// --- printing ---

static void print_mib(struct al_value v, int width) {
    if (al_ok(v))
        (void)printf("%*.0f", width, floor(v.num / MIB));
    else
        (void)printf("%*s", width, "?");
}

static void print_share(double used, double total, bool known) {
    char text[32] = "?";
    if (known && total > 0)
        (void)al_fmt_fixed(text, sizeof text, 100 * used / total, 1);
    (void)printf("  %5s %%", text);
}

static void print_row(const struct memory *m, const struct al_proc_gpu *row) {
    const struct al_gpu *gpu = &m->s->gpus[row->gpu];
    struct al_value total = gpu->m[AL_GPU_MEM_TOTAL];
    struct al_buf name = AL_BUF_INIT;
    al_term_string(&name, gpu->info.name);
    (void)printf("%3s  %-28s", label(m->s, gpu).text, name.data ? name.data : "");
    print_mib(row->memory_bytes, 10);
    print_mib(total, 11);
    print_share(row->memory_bytes.num, total.num, al_ok(row->memory_bytes) && al_ok(total));
    if (m->tree)
        (void)printf("  %-5s  %d\n", al_proc_type_word(row->type), (int)row->pid);
    else
        (void)printf("  %s\n", al_proc_type_word(row->type));
    al_buf_free(&name);
}

static void print_text(const struct memory *m) {
    if (!m->row_count) {
        al_cli_error("%s%s", m->outcome == CANNOT_TELL ? "cannot tell: " : "", m->reason);
        return;
    }
    const struct al_proc *p = al_snapshot_proc(m->s, m->pid);
    if (p) {
        struct al_buf b = AL_BUF_INIT;
        if (p->alive) {
            al_term_string(&b, p->user[0] ? p->user : "?");
            al_buf_char(&b, ' ');
            al_term_string(&b, p->command[0] ? p->command : p->comm);
        } else {
            al_buf_str(&b, "(gone; the driver still counts its memory)");
        }
        (void)printf("%d %s\n", (int)m->pid, b.data ? b.data : "");
        al_buf_free(&b);
    }
    (void)printf("GPU  %-28s%10s%11s  %7s  TYPE%s\n", "NAME", "USED MiB", "TOTAL MiB", "SHARE",
                 m->tree ? "   PID" : "");
    for (uint32_t i = 0; i < m->row_count; i++)
        print_row(m, &m->s->rows[m->rows[i]]);
    bool whole = m->outcome == TOLD;
    (void)printf("%-33s", whole ? "sum" : "sum of what is known");
    print_mib((struct al_value){m->used, 1, m->known ? AL_STATUS_OK : AL_STATUS_UNSUPPORTED}, 10);
    print_mib((struct al_value){m->total, 1, m->total_known ? AL_STATUS_OK : AL_STATUS_UNSUPPORTED}, 11);
    print_share(m->used, m->total, whole && m->total_known);
    (void)printf("\n");
    if (!whole)
        al_cli_error("cannot tell all of it: %s", m->reason);
}

static void add_value(struct al_buf *b, const char *key, struct al_value v, double scale) {
    al_buf_printf(b, ", \"%s\": ", key);
    if (al_ok(v))
        al_buf_number(b, v.num * scale);
    else
        al_buf_str(b, "null");
}

static void add_text(struct al_buf *b, const char *key, const char *text) {
    al_buf_printf(b, ", \"%s\": ", key);
    if (*text)
        al_json_string(b, text);
    else
        al_buf_str(b, "null");
}

static void add_json_row(const struct memory *m, struct al_buf *b, const struct al_proc_gpu *row) {
    const struct al_gpu *gpu = &m->s->gpus[row->gpu];
    struct al_value total = gpu->m[AL_GPU_MEM_TOTAL], share = row->memory_bytes;
    if (al_ok(share) && (!al_ok(total) || total.num <= 0))
        share.status = AL_STATUS_UNSUPPORTED;
    int32_t mig = mig_index(m->s, gpu);
    al_buf_printf(b, "{\"index\": %u", board_index(m->s, gpu));
    add_value(b, "mig_index", (struct al_value){mig, 1, mig < 0 ? AL_STATUS_UNSUPPORTED : AL_STATUS_OK}, 1);
    add_text(b, "uuid", gpu->info.uuid);
    add_text(b, "name", gpu->info.name);
    al_buf_printf(b, ", \"pid\": %d, \"type\": \"%s\"", (int)row->pid, al_proc_type_word(row->type));
    add_value(b, "used_bytes", row->memory_bytes, 1);
    add_value(b, "total_bytes", total, 1);
    add_value(b, "used_ratio", share, al_ok(share) ? 1 / total.num : 1);
    al_buf_char(b, '}');
}

static void print_json(const struct memory *m) {
    struct al_buf b = AL_BUF_INIT;
    const struct al_proc *p = al_snapshot_proc(m->s, m->pid);
    enum al_status used = m->outcome == TOLD ? AL_STATUS_OK : AL_STATUS_UNSUPPORTED;
    enum al_status total = m->row_count && m->total_known ? AL_STATUS_OK : AL_STATUS_UNSUPPORTED;
    al_buf_printf(&b, "{\"pid\": %d, \"tree\": %s, \"status\": \"%s\"", (int)m->pid, m->tree ? "true" : "false",
                  outcomes[m->outcome].word);
    add_text(&b, "reason", m->reason);
    add_text(&b, "user", p ? p->user : "");
    add_text(&b, "command", p ? p->command : "");
    al_buf_str(&b, ", \"gpus\": [");
    for (uint32_t i = 0; i < m->row_count; i++) {
        al_buf_str(&b, i ? ", " : "");
        add_json_row(m, &b, &m->s->rows[m->rows[i]]);
    }
    al_buf_char(&b, ']');
    add_value(&b, "used_bytes", (struct al_value){m->used, 1, used}, 1);
    add_value(&b, "total_bytes", (struct al_value){m->total, 1, total}, 1);
    al_buf_str(&b, "}\n");
    if (b.data)
        (void)fwrite(b.data, 1, b.len, stdout);
    al_buf_free(&b);
}

static int run(struct memory *m, struct al_cli_session *session) {
    int status = al_cli_once(session, 0, &m->s);
    if (status)
        return status;
    m->root = session->source ? -1 : al_memory_proc_root();
    int result = find_out(m);
    if (result)
        al_cli_error("%s", al_error_text(result));
    else if (m->json)
        print_json(m);
    else
        print_text(m);
    if (m->root >= 0)
        (void)close(m->root);
    free(m->rows);
    if (result)
        return al_error_exit_status(result);
    status = al_cli_flush();
    return status ? status : al_error_exit_status(outcomes[m->outcome].error);
}

int al_cmd_memory(int argc, char **argv) {
    struct memory m = {.common = AL_CLI_OPTIONS_INIT, .root = -1};
    struct al_cli_session session;
    int status = parse(&m, argc, argv);
    if (status)
        return status;
    if (m.help) {
        (void)printf("%s%s", usage, al_cli_common_help);
        return al_cli_flush();
    }
    status = al_cli_open(&m.common, AL_GROUP_FAST | AL_GROUP_PROCESS | AL_GROUP_HOST, false, &session);
    if (status)
        return status;
    status = run(&m, &session);
    al_cli_close(&session);
    return status;
}
