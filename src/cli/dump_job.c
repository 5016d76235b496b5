// SPDX-License-Identifier: Apache-2.0
// A whole job's stacks: who belongs to it, two samples of each, and who is missing.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/dump.h"
#include "host/transport.h"
#include "launch/board.h"

#define APART_NS (500 * AL_NS_PER_MS)
#define JOBS_NAMED 8
#define RANKS_MOST 65536

// --- the boards of alula runs ---

struct boards {
    struct al_dump_job *job;
    struct {
        pid_t pid;
        char command[80];
    } runs[JOBS_NAMED];
    uint32_t count;
    int result;
};

static void note_board(void *user, const struct al_board *board) {
    struct boards *b = user;
    struct al_dump_job *j = b->job;
    if (board->head.job > 0 && b->count < JOBS_NAMED) {
        b->runs[b->count].pid = board->head.job;
        (void)al_str_copy(b->runs[b->count].command, sizeof b->runs[b->count].command, board->head.command);
    }
    b->count += board->head.job > 0;
    if (!board->rank_count || al_monotonic_ns() - board->head.written_ns > AL_BOARD_OLD_NS)
        return;
    struct al_rank *more = realloc(j->board, (j->board_count + board->rank_count) * sizeof *more);
    if (!more) {
        b->result = AL_E_NOMEM;
        return;
    }
    j->board = more;
    memcpy(&more[j->board_count], board->ranks, board->rank_count * sizeof *more);
    j->board_count += board->rank_count;
}

static int only_run(const struct boards *b, pid_t *ret, struct al_stack_error *error) {
    if (b->count == 1) {
        *ret = b->runs[0].pid;
        return 0;
    }
    if (!b->count) {
        (void)snprintf(error->text, sizeof error->text, "no alula run is running here that this user may see: name a process of "
                                                        "the job, as in alula dump --all-ranks 4242");
        return AL_E_INVALID;
    }
    size_t used = (size_t)snprintf(error->text, sizeof error->text, "%u jobs run here: name one by its PID:", b->count);
    for (uint32_t i = 0; i < b->count && i < JOBS_NAMED && used < sizeof error->text; i++)
        used += (size_t)snprintf(error->text + used, sizeof error->text - used, "%s %d (%.40s)", i ? "," : "",
                                 (int)b->runs[i].pid, b->runs[i].command);
    return AL_E_INVALID;
}

// --- members ---

// Ranks by number, behind each its workers; then what belongs to none.
static int64_t place(const struct al_stacks_process *p) {
    bool of_rank = p->rank >= 0 && (p->role == AL_ROLE_RANK || p->owner > 0);
    return of_rank ? 2LL * p->rank + (p->role != AL_ROLE_RANK) : INT64_MAX - (p->role == AL_ROLE_RANK);
}

static int by_place(const void *a, const void *b) {
    const struct al_stacks_process *x = a, *y = b;
    int64_t m = place(x), n = place(y);
    return m != n ? (m > n) - (m < n) : (x->pid > y->pid) - (x->pid < y->pid);
}

static int add_members(struct al_dump_job *j) {
    j->members = calloc(j->who.count + 1, sizeof *j->members);
    if (!j->members)
        return AL_E_NOMEM;
    qsort(j->who.list, j->who.count, sizeof *j->who.list, by_place);
    j->world = -1;
    for (uint32_t i = 0; i < j->who.count; i++) {
        struct al_dump_member *m = &j->members[j->count++];
        m->dump.process = &j->who.list[i];
        if (al_dump_is_rank(m) && m->dump.process->world > j->world)
            j->world = m->dump.process->world;
        for (uint32_t k = 0; k < j->board_count; k++)
            if (j->board[k].pid == m->dump.process->pid)
                m->board = j->board[k];
    }
    return 0;
}

static int keep_thread(const struct al_stack_thread *t, struct al_stack_thread *ret) {
    struct al_stack_frame *frames = malloc((t->count + 1) * sizeof *frames);
    if (!frames)
        return AL_E_NOMEM;
    if (t->count)
        memcpy(frames, t->frames, t->count * sizeof *frames);
    *ret = *t;
    ret->frames = frames;
    return 0;
}

// A sample lives until the next one is taken.
static int keep_first(struct al_dump_member *m) {
    const struct al_stack_sample *s = m->dump.sample;
    m->first = calloc(s->count + 1, sizeof *m->first);
    if (!m->first)
        return AL_E_NOMEM;
    for (; m->first_count < s->count; m->first_count++) {
        int result = keep_thread(&s->threads[m->first_count], &m->first[m->first_count]);
        if (result)
            return result;
    }
    return 0;
}

// One place in two samples may be one that is passed again and again: main threads of ranks are looked at more often.
static int sample_between(struct al_dump_job *j, int number) {
    const struct al_stack_sample *sample;
    for (uint32_t i = 0; i < j->count; i++) {
        struct al_dump_member *m = &j->members[i];
        if (m->result || !al_dump_is_rank(m) || al_stack_sample(m->stack, AL_STACK_MAIN_ONLY, &sample))
            continue; // what is wrong is said after the last one
        for (size_t k = 0; k < sample->count; k++) {
            const struct al_stack_thread *t = &sample->threads[k];
            if (t->main && !m->between[number].frames && (t->status == AL_STACK_OK || t->status == AL_STACK_UNSTABLE) &&
                keep_thread(t, &m->between[number]))
                return AL_E_NOMEM;
        }
    }
    return 0;
}

static bool any_read(const struct al_dump_job *j) {
    bool any = false;
    for (uint32_t i = 0; i < j->count && !any; i++)
        any = !j->members[i].result;
    return any;
}

static int look_between(struct al_dump_job *j) {
    struct al_clock clock;
    int result = 0;
    al_clock_real(&clock);
    int64_t began = al_monotonic_ns();
    for (int i = 0; i <= AL_DUMP_BETWEEN && !result; i++) {
        if (!al_clock_sleep_until(&clock, began + APART_NS / (AL_DUMP_BETWEEN + 1) * (i + 1)))
            break; // a signal
        if (i < AL_DUMP_BETWEEN)
            result = sample_between(j, i);
    }
    return result;
}

// When a thread last ran, in ms of the scheduler's clock; -1 not known (a kernel without CONFIG_SCHED_DEBUG).
static double last_ran(const char *path) {
    char text[4096];
    const char *at = al_fs_head(path, text, sizeof text) > 0 ? strstr(text, "se.exec_start") : NULL;
    at = at ? strchr(at, ':') : NULL;
    return at ? strtod(at + 1, NULL) : -1;
}

static double asleep(const struct al_dump_member *m) {
    char path[64];
    for (size_t i = 0; i < m->dump.sample->count; i++) {
        const struct al_stack_thread *t = &m->dump.sample->threads[i];
        if (!t->main || t->idle != AL_STACK_YES)
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d/sched", (int)m->dump.process->pid, (int)m->dump.process->pid);
        double then = last_ran(path), now = last_ran("/proc/self/sched");
        return then < 0 || now < then ? -1 : (now - then) / 1e3;
    }
    return -1;
}

static int sample_all(struct al_dump_job *j, const struct al_stack_settings *settings, bool first, bool locals) {
    int result = 0;
    for (uint32_t i = 0; i < j->count && !result; i++) {
        struct al_dump_member *m = &j->members[i];
        if (m->result)
            continue;
        m->result = al_dump_read(settings, &m->stack, &m->dump, &m->error);
        if (!m->result && first)
            result = keep_first(m);
        if (!m->result && locals && al_dump_is_rank(m))
            result = al_dump_main_locals(m);
        m->told = m->result && (al_dump_is_rank(m) || al_stacks_tells(&j->who, m->result));
        m->asleep = m->result ? -1 : asleep(m);
        m->dump.stack = m->stack;
        m->dump.error = m->result ? m->error.text : NULL;
    }
    return result;
}

// Where nothing is Python, the process that was named says so.
static void tell_one(struct al_dump_job *j, pid_t pid) {
    uint32_t named = 0;
    for (uint32_t i = 0; i < j->count; i++) {
        if (!j->members[i].result || j->members[i].told)
            return;
        named = j->members[i].dump.process->pid == pid ? i : named;
    }
    if (j->count)
        j->members[named].told = true;
}

// --- processes that are no ranks ---

static bool may_be_peer(const struct al_dump_member *m) {
    const struct al_stacks_process *p = m->dump.process;
    return !m->result && p->role != AL_ROLE_WORKER && p->role != AL_ROLE_LAUNCHER && !p->helper;
}

// Engines, or the most children that one process has: ranks that a program makes itself have RANK from within alone.
static void find_peers(struct al_dump_job *j) {
    uint32_t most = 1;
    pid_t parent = 0;
    for (uint32_t i = 0; i < j->count; i++) {
        uint32_t same = 0;
        if (j->members[i].dump.process->role == AL_ROLE_RANK)
            return;
        for (uint32_t k = 0; k < j->count; k++)
            same += may_be_peer(&j->members[k]) && j->members[k].dump.process->parent == j->members[i].dump.process->parent;
        if (may_be_peer(&j->members[i]) && same > most) {
            most = same;
            parent = j->members[i].dump.process->parent;
        }
    }
    j->peers = most > 1;
    for (uint32_t i = 0; i < j->count; i++)
        j->members[i].peer = j->peers && may_be_peer(&j->members[i]) && j->members[i].dump.process->parent == parent;
}

// --- who is missing ---

// LOCAL_WORLD_SIZE of the environment that it was started with; 0 not known.
static int32_t local_world(pid_t pid) {
    char text[512];
    int root = -1;
    if (al_fs_root("/", &root))
        return 0;
    int result = al_transport_text(root, pid, text, sizeof text);
    (void)close(root);
    const char *at = result ? NULL : strstr(text, "local_world=");
    long n = at ? strtol(at + strlen("local_world="), NULL, 10) : 0;
    return n > 0 && n <= RANKS_MOST ? (int32_t)n : 0;
}

// The ranks that this host should have: *ret_first to *ret_end - 1.
static void expected(const struct al_dump_job *j, int32_t *ret_first, int32_t *ret_end) {
    int32_t first = INT32_MAX, end = -1;
    for (uint32_t i = 0; i < j->count; i++) {
        const struct al_stacks_process *p = j->members[i].dump.process;
        if (p->role != AL_ROLE_RANK || p->rank < 0)
            continue;
        int32_t here = p->local_rank >= 0 && p->local_rank <= p->rank ? local_world(p->pid) : 0;
        int32_t from = here ? p->rank - p->local_rank : p->rank, to = here ? from + here : p->rank + 1;
        first = from < first ? from : first;
        end = to > end ? to : end;
    }
    *ret_first = first;
    *ret_end = end - first > RANKS_MOST ? first + RANKS_MOST : end;
}

static bool present(const struct al_dump_job *j, int32_t rank) {
    for (uint32_t i = 0; i < j->count; i++)
        if (al_dump_is_rank(&j->members[i]) && j->members[i].dump.process->rank == rank)
            return true;
    return false;
}

// A zombie beside the ranks; 0 none, -1 several.
static pid_t zombie(const struct al_dump_job *j) {
    pid_t found = 0;
    for (uint32_t i = 0; i < j->who.ended_count; i++) {
        bool beside = false;
        for (uint32_t k = 0; k < j->count && !beside; k++)
            beside = al_dump_is_rank(&j->members[k]) && j->members[k].dump.process->parent == j->who.ended[i].parent;
        if (beside)
            found = found ? -1 : j->who.ended[i].pid;
    }
    return found;
}

static void say_absent(const struct al_dump_job *j, uint32_t missing, struct al_dump_absent *a) {
    pid_t dead = zombie(j);
    for (uint32_t i = 0; i < j->board_count; i++) {
        const struct al_rank *r = &j->board[i];
        bool same_job = false;
        for (uint32_t k = 0; k < j->count && !same_job; k++)
            same_job = j->members[k].board.pid && j->members[k].board.job == r->job;
        if (r->rank == a->rank && same_job) {
            (void)snprintf(a->reason, sizeof a->reason, "it has ended (it was process %d)", (int)r->pid);
            return;
        }
    }
    if (dead > 0 && missing == 1)
        (void)snprintf(a->reason, sizeof a->reason, "it has ended (process %d, a zombie: its launcher has not noticed yet)", (int)dead);
    else
        (void)snprintf(a->reason, sizeof a->reason, "no process here has this rank: it has ended, or is still to start");
}

static int find_absent(struct al_dump_job *j) {
    int32_t first, end;
    uint32_t missing = 0;
    expected(j, &first, &end);
    for (int32_t r = first; r < end; r++)
        missing += !present(j, r);
    j->absent = calloc(missing + 1, sizeof *j->absent);
    if (!j->absent)
        return AL_E_NOMEM;
    for (int32_t r = first; r < end; r++)
        if (!present(j, r)) {
            struct al_dump_absent *a = &j->absent[j->absent_count++];
            a->rank = r;
            say_absent(j, missing, a);
        }
    return 0;
}

int al_dump_job_read(struct al_dump_job *j, pid_t pid, const struct al_stack_settings *settings, bool no_cmdline,
                     bool locals, struct al_stack_error *error) {
    struct boards boards = {.job = j};
    bool named = pid != 0;
    *j = (struct al_dump_job){.world = -1};
    al_boards_each(note_board, &boards);
    int result = boards.result;
    if (!result && !named)
        result = only_run(&boards, &pid, error);
    if (!result)
        result = al_stacks_find(&j->who, pid, named ? AL_STACKS_JOB : AL_STACKS_BELOW, no_cmdline, 0);
    if (!result && *j->who.several) {
        (void)al_str_copy(error->text, sizeof error->text, j->who.several);
        result = AL_E_INVALID;
    }
    if (!result)
        result = add_members(j);
    int64_t began = al_monotonic_ns();
    if (!result)
        result = sample_all(j, settings, true, false);
    if (!result)
        find_peers(j);
    if (!result && any_read(j))
        result = look_between(j);
    j->at_ns = al_monotonic_ns();
    j->apart = (double)(j->at_ns - began) / 1e9;
    if (!result)
        result = sample_all(j, settings, false, locals);
    j->none_read = !any_read(j);
    tell_one(j, pid);
    if (!result)
        result = find_absent(j);
    if (result && !*error->text)
        (void)snprintf(error->text, sizeof error->text, "%s", al_error_text(result));
    return result;
}

void al_dump_job_free(struct al_dump_job *j) {
    for (uint32_t i = 0; i < j->count; i++) {
        struct al_dump_member *m = &j->members[i];
        for (size_t k = 0; k < m->first_count; k++)
            free((void *)m->first[k].frames);
        free(m->first);
        for (int k = 0; k < AL_DUMP_BETWEEN; k++)
            free((void *)m->between[k].frames);
        al_stack_locals_free(m->locals, m->frame_count);
        al_stack_free(m->stack);
    }
    free(j->members);
    free(j->absent);
    free(j->board);
    al_stacks_free(&j->who);
    *j = (struct al_dump_job){0};
}
