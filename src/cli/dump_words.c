// SPDX-License-Identifier: Apache-2.0
// The differences between the ranks of a job, told in sentences and as data.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "cli/dump_differ.h"

#define PHASE_LEAST_NS AL_NS_PER_S // a phase that lasts longer says for how long
#define ASLEEP_LEAST 1.0 // likewise, seconds

static const struct {
    const char *key, *one, *many;
} DOING[] = {
    [AL_DIFFER_UNKNOWN] = {NULL, "is in", "are in"},
    [AL_DIFFER_WAITS] = {"waits", "waits in", "wait in"},
    [AL_DIFFER_RUNS] = {"runs", "runs in", "run in"},
    [AL_DIFFER_MOVES] = {"moves", "moves in", "move in"},
    [AL_DIFFER_WAITS_GIL] = {"waits_for_gil", "waits for the GIL in", "wait for the GIL in"},
    [AL_DIFFER_BLOCKED] = {"blocked", "is blocked in the kernel (a disk, a network file system, a driver), in",
                           "are blocked in the kernel (a disk, a network file system, a driver), in"},
    [AL_DIFFER_STOPPED] = {"stopped", "is stopped (by a signal or a debugger) in", "are stopped (by a signal or a debugger) in"},
};

static const struct al_differ_rank *member_of(const struct al_differ_view *v, const struct al_differ_group *g, uint32_t n) {
    return &v->ranks[v->d.order[g->first + n]];
}

static enum al_differ_doing doing_of(const struct al_differ_view *v, const struct al_differ_group *g) {
    enum al_differ_doing doing = member_of(v, g, 0)->doing;
    for (uint32_t i = 1; i < g->count; i++)
        if (member_of(v, g, i)->doing != doing)
            return AL_DIFFER_UNKNOWN;
    return doing;
}

static const char *noun(const struct al_dump_job *j, bool many) {
    return j->peers ? many ? "processes" : "process" : many ? "ranks" : "rank";
}

static void file_words(struct al_buf *b, const struct al_differ_frame *f) {
    const char *name;
    (void)al_differ_file(f->file, &name);
    al_term_string(b, *name ? name : "?");
    if (f->line > 0)
        al_buf_printf(b, ":%d", (int)f->line);
}

// "0-2, 4-7"; a rank whose number is not known by its process.
static void rank_list(struct al_buf *b, const struct al_differ_view *v, const struct al_differ_group *g) {
    for (uint32_t i = 0, k; i < g->count; i = k) {
        int32_t from = member_of(v, g, i)->member->dump.process->rank;
        for (k = i + 1; from >= 0 && k < g->count && member_of(v, g, k)->member->dump.process->rank == from + (int32_t)(k - i);)
            k++;
        al_buf_str(b, i ? ", " : "");
        if (from < 0)
            al_buf_printf(b, "%d", (int)member_of(v, g, i)->member->dump.process->pid);
        else if (k - i > 1)
            al_buf_printf(b, "%d%s%d", (int)from, k - i > 2 ? "-" : ", ", (int)from + (int)(k - i) - 1);
        else
            al_buf_printf(b, "%d", (int)from);
    }
}

static void one_rank(struct al_buf *b, const struct al_stacks_process *p) {
    if (p->rank >= 0)
        al_buf_printf(b, "rank %d (%d)", (int)p->rank, (int)p->pid);
    else
        al_buf_printf(b, "process %d", (int)p->pid);
}

static void subject(struct al_buf *b, const struct al_dump_differ *a, const struct al_differ_view *v,
                    const struct al_differ_group *g) {
    if (g->count == 1) {
        one_rank(b, member_of(v, g, 0)->member->dump.process);
    } else if (g->count == a->count) {
        al_buf_printf(b, "all %u %s", a->count, noun(a->job, true));
    } else {
        al_buf_printf(b, "%u of %u %s (", g->count, a->count, noun(a->job, true));
        rank_list(b, v, g);
        al_buf_char(b, ')');
    }
}

static void place(struct al_buf *b, const struct al_differ_stack *s) {
    uint32_t caller, at = al_differ_telling(s, &caller);
    if (at == UINT32_MAX) {
        al_buf_str(b, "no Python code");
        return;
    }
    al_term_string(b, *s->frames[at].function ? s->frames[at].function : "?");
    al_buf_str(b, " (");
    file_words(b, &s->frames[at]);
    al_buf_char(b, ')');
    if (caller == UINT32_MAX)
        return;
    al_buf_str(b, ", called from ");
    file_words(b, &s->frames[caller]);
    al_buf_char(b, ' ');
    al_term_string(b, s->frames[caller].function);
}

// The phase that all of them are in by their alula run, and for how long at least; NULL: not known, or not the same.
static const char *phase_of(const struct al_dump_differ *a, const struct al_differ_view *v, const struct al_differ_group *g,
                            int64_t *ret_ns) {
    const char *phase = NULL;
    *ret_ns = INT64_MAX;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct al_rank *r = &member_of(v, g, i)->member->board;
        const char *word = r->pid ? al_rank_phase(r) : NULL;
        int64_t at = r->pid ? r->m[AL_RANK_PHASE].at_ns : 0, since = a->job->at_ns - at;
        if (!word || (phase && strcmp(word, phase) != 0))
            return NULL;
        phase = word;
        *ret_ns = at > 0 && since < *ret_ns ? since : *ret_ns;
    }
    return phase;
}

static void phase_words(struct al_buf *b, const struct al_dump_differ *a, const struct al_differ_view *v,
                        const struct al_differ_group *g) {
    char age[32];
    int64_t since;
    const char *phase = phase_of(a, v, g, &since);
    if (!phase)
        return;
    if (strcmp(phase, "between_steps") == 0)
        al_buf_str(b, ", between two steps");
    else
        al_buf_printf(b, ", in phase %s", phase);
    if (since >= PHASE_LEAST_NS && since != INT64_MAX) {
        al_fmt_duration(age, sizeof age, (double)since / 1e9);
        al_buf_printf(b, " for %s", age);
    }
}

// For how long at least all of them have slept without a break; below 0: not known, or they have not.
static double asleep_of(const struct al_differ_view *v, const struct al_differ_group *g) {
    double least = -1;
    for (uint32_t i = 0; i < g->count; i++) {
        double seconds = member_of(v, g, i)->doing == AL_DIFFER_WAITS ? member_of(v, g, i)->member->asleep : -1;
        if (seconds < 0)
            return -1;
        least = !i || seconds < least ? seconds : least;
    }
    return least;
}

static void asleep_words(struct al_buf *b, const struct al_differ_view *v, const struct al_differ_group *g) {
    char age[32];
    double seconds = asleep_of(v, g);
    if (seconds < ASLEEP_LEAST)
        return;
    al_fmt_duration(age, sizeof age, seconds);
    al_buf_printf(b, ", asleep for %s%s", g->count > 1 ? "at least " : "", age);
}

static void say_group(struct al_buf *b, const struct al_dump_differ *a, const struct al_differ_view *v,
                      const struct al_differ_group *g) {
    enum al_differ_doing doing = doing_of(v, g);
    subject(b, a, v, g);
    if (doing == AL_DIFFER_MOVES && !g->stack->count) {
        al_buf_str(b, g->count == 1 ? " moves: nothing of its stack stood still" : " move: nothing of their stacks stood still");
    } else {
        al_buf_printf(b, " %s ", g->count == 1 ? DOING[doing].one : DOING[doing].many);
        place(b, g->stack);
    }
    if (v == &a->main) {
        asleep_words(b, v, g);
        phase_words(b, a, v, g);
    }
    al_buf_char(b, '\n');
}

static bool in_collective(const struct al_differ_group *g) {
    uint32_t caller, at = al_differ_telling(g->stack, &caller);
    return at != UINT32_MAX && al_differ_collective(&g->stack->frames[at]);
}

// What the groups mean together.
static void say_meaning(struct al_buf *b, const struct al_dump_differ *a) {
    const struct al_differ *d = &a->main.d;
    uint32_t collectives = 0, moving = 0;
    for (uint32_t i = 0; i < d->group_count; i++)
        collectives += in_collective(&d->groups[i]);
    for (uint32_t i = 0; i < a->main.count; i++)
        moving += a->main.ranks[i].has && a->main.ranks[i].stack.moves;
    if (moving == d->counted && moving > 1 && d->group_count > 1)
        al_buf_printf(b, "all %u %s move: none stood still for %.1f s\n", moving, noun(a->job, true), a->job->apart);
    if (d->group_count < 2 || !collectives || moving == d->counted)
        return;
    if (collectives == d->group_count) {
        al_buf_printf(b, "the %s are in collectives that were called from different places: they may wait for each other\n",
                      noun(a->job, true));
    } else if (al_differ_odd(d) && in_collective(&d->groups[0]) && collectives == 1 &&
               doing_of(&a->main, &d->groups[0]) != AL_DIFFER_RUNS) {
        uint32_t odd = d->counted - d->groups[0].count;
        al_buf_printf(b, "%s ", noun(a->job, odd > 1));
        for (uint32_t i = 1; i < d->group_count; i++) {
            al_buf_str(b, i > 1 ? ", " : "");
            rank_list(b, &a->main, &d->groups[i]);
        }
        al_buf_printf(b, " ha%s not come to that collective: the others wait for %s\n", odd > 1 ? "ve" : "s", odd > 1 ? "them" : "it");
    }
}

// Workers of one rank, by the function that they are in.
static void say_workers(struct al_buf *b, const struct al_dump_job *j, const struct al_dump_member *rank) {
    uint32_t count = 0;
    const struct al_differ_stack **stacks = calloc(j->count + 1, sizeof *stacks);
    struct al_differ_stack *own = calloc(j->count + 1, sizeof *own);
    struct al_differ d = {0};
    for (uint32_t i = 0; stacks && own && i < j->count; i++) {
        const struct al_dump_member *m = &j->members[i];
        if (!m->stack || m->dump.process->role != AL_ROLE_WORKER || m->dump.process->owner != rank->dump.process->pid)
            continue;
        for (size_t k = 0; k < m->dump.sample->count; k++) {
            const struct al_stack_thread *t = &m->dump.sample->threads[k];
            if (t->main && !al_differ_stand(m->stack, &t, 1, &own[count])) {
                stacks[count] = &own[count];
                count++;
                break;
            }
        }
    }
    if (count && !al_differ_group(stacks, count, &d))
        for (uint32_t i = 0; i < d.group_count; i++) {
            al_buf_printf(b, "  %u of its %u workers: ", d.groups[i].count, count);
            place(b, d.groups[i].stack);
            al_buf_char(b, '\n');
        }
    al_differ_clear(&d);
    for (uint32_t i = 0; own && i < count; i++)
        al_differ_free(&own[i]);
    free(own);
    free(stacks);
}

static void say_steps(struct al_buf *b, const struct al_dump_differ *a) {
    double least = 0, most = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct al_value *v = &a->members[i]->board.m[AL_RANK_STEP];
        if (!a->members[i]->board.pid || !al_ok(*v))
            continue;
        least = known && least < v->num ? least : v->num;
        most = known && most > v->num ? most : v->num;
        known++;
    }
    if (known < 2 || least == most)
        return;
    al_buf_printf(b, "steps done: %.0f to %.0f; the fewest: rank", least, most);
    for (uint32_t i = 0, n = 0; i < a->count; i++)
        if (a->members[i]->board.pid && al_ok(a->members[i]->board.m[AL_RANK_STEP]) &&
            a->members[i]->board.m[AL_RANK_STEP].num == least)
            al_buf_printf(b, "%s %d", n++ ? "," : "", (int)a->members[i]->dump.process->rank);
    al_buf_char(b, '\n');
}

static void say_missing(struct al_buf *b, const struct al_dump_differ *a) {
    for (uint32_t i = 0; i < a->job->absent_count; i++)
        al_buf_printf(b, "rank %d is missing: %s\n", (int)a->job->absent[i].rank, a->job->absent[i].reason);
    for (uint32_t i = 0; i < a->count; i++)
        if (!a->members[i]->stack) {
            one_rank(b, a->members[i]->dump.process);
            al_buf_str(b, " could not be read: ");
            al_term_string(b, a->members[i]->error.text);
            al_buf_char(b, '\n');
        }
    if (a->job->world > 0 && a->count + a->job->absent_count < (uint32_t)a->job->world)
        al_buf_printf(b, "%u of %d ranks are not on this host (or have ended)\n",
                      (uint32_t)a->job->world - a->count - a->job->absent_count, (int)a->job->world);
}

static void say_threads(struct al_buf *b, const struct al_dump_differ *a) {
    for (uint32_t i = 0; i < a->other_count; i++) {
        const struct al_differ_view *v = &a->others[i];
        for (uint32_t k = 0; k < v->d.group_count; k++) {
            al_buf_str(b, "thread \"");
            al_term_string(b, v->name);
            al_buf_str(b, "\": ");
            say_group(b, a, v, &v->d.groups[k]);
        }
        if (v->d.counted < a->main.d.counted) {
            al_buf_str(b, "thread \"");
            al_term_string(b, v->name);
            al_buf_printf(b, "\": only in %u of %u ranks\n", v->d.counted, a->main.d.counted);
        }
    }
}

// Members are in the order of their ranks.
static void say_twice(struct al_buf *b, const struct al_dump_differ *a) {
    struct al_buf list = AL_BUF_INIT;
    uint32_t count = 0;
    int32_t last = -1;
    for (uint32_t i = 1; i < a->count; i++) {
        int32_t rank = a->members[i]->dump.process->rank;
        if (rank < 0 || rank == last || rank != a->members[i - 1]->dump.process->rank)
            continue;
        al_buf_printf(&list, "%s%d", count++ ? ", " : "", (int)rank);
        last = rank;
    }
    if (count)
        al_buf_printf(b, "rank%s %s more than once: these are several jobs that are not told apart (their MASTER_ADDR and "
                         "MASTER_PORT are the same, or not in their environment)\n", count > 1 ? "s" : "", list.data ? list.data : "");
    b->failed |= list.failed;
    al_buf_free(&list);
}

static void say_all(struct al_buf *b, const struct al_dump_differ *a) {
    const struct al_differ *d = &a->main.d;
    if (!a->count)
        al_buf_str(b, "no rank is known among these processes (RANK is not in their environment): nothing to compare\n");
    else if (a->job->peers)
        al_buf_str(b, "no rank is known here (RANK is not in their environment): processes side by side are compared\n");
    say_twice(b, a);
    for (uint32_t i = 0; i < d->group_count; i++) {
        const struct al_differ_group *g = &d->groups[i];
        say_group(b, a, &a->main, g);
        if (d->group_count > 1 && g->count == 1)
            say_workers(b, a->job, member_of(&a->main, g, 0)->member);
    }
    say_meaning(b, a);
    say_missing(b, a);
    say_steps(b, a);
    b->failed |= al_dump_variables(b, a, false) != 0;
    say_threads(b, a);
}

// --- text ---

static void frame_lines(struct al_buf *b, const struct al_differ_stack *s, uint32_t from, uint32_t end) {
    for (uint32_t i = end; i-- > from;) {
        const struct al_differ_frame *f = &s->frames[i];
        al_buf_str(b, "    ");
        al_term_string(b, *f->file ? f->file : "?");
        if (f->line > 0)
            al_buf_printf(b, ":%d ", (int)f->line);
        else
            al_buf_str(b, " ");
        al_term_string(b, *f->function ? f->function : "?");
        al_buf_str(b, f->line > 0 ? "\n" : "  (moves)\n");
    }
}

static void tree(struct al_buf *b, const struct al_dump_differ *a) {
    const struct al_differ *d = &a->main.d;
    for (uint32_t i = 0; d->group_count > 1 && i < d->group_count; i++) {
        const struct al_differ_group *g = &d->groups[i];
        al_buf_str(b, "\n  ");
        subject(b, a, &a->main, g);
        al_buf_str(b, ":\n");
        frame_lines(b, g->stack, d->common, g->stack->count);
        if (g->stack->count == d->common)
            al_buf_str(b, d->common ? "    (nothing but what all share)\n" : "    (no Python frame)\n");
    }
    if (d->group_count && d->common) {
        al_buf_str(b, d->group_count > 1 ? "\n  and from there on outwards the same in all:\n" : "\n  the same in all:\n");
        frame_lines(b, d->groups[0].stack, 0, d->common);
    }
}

static void as_text(struct al_buf *b, const struct al_dump_differ *a) {
    al_buf_printf(b, "%u %s%s, %d samples in %.1f s\n", a->count, noun(a->job, a->count != 1),
                  a->main.d.group_count > 1 ? " that differ" : a->count > 1 && a->main.d.counted == a->count ? ", all the same" : "",
                  AL_DUMP_BETWEEN + 2, a->job->apart);
    say_all(b, a);
    tree(b, a);
}

// --- JSON ---

static void frames_json(struct al_buf *b, const struct al_differ_stack *s, uint32_t from, uint32_t end) {
    al_buf_char(b, '[');
    for (uint32_t i = end; i-- > from;) {
        al_dump_frame_json(b, &s->frames[i]);
        al_buf_str(b, i > from ? ", " : "");
    }
    al_buf_char(b, ']');
}

static void frame_or_null(struct al_buf *b, const char *name, const struct al_differ_stack *s, uint32_t at) {
    al_buf_printf(b, ", \"%s\": ", name);
    if (at == UINT32_MAX)
        al_buf_str(b, "null");
    else
        al_dump_frame_json(b, &s->frames[at]);
}

static void group_json(struct al_buf *b, const struct al_dump_differ *a, const struct al_differ_view *v, uint32_t number) {
    const struct al_differ_group *g = &v->d.groups[number];
    uint32_t caller, at = al_differ_telling(g->stack, &caller);
    int64_t since = INT64_MAX;
    const char *phase = v == &a->main ? phase_of(a, v, g, &since) : NULL;
    al_buf_str(b, "{\"ranks\": [");
    for (uint32_t i = 0; i < g->count; i++) {
        const struct al_stacks_process *p = member_of(v, g, i)->member->dump.process;
        al_buf_str(b, i ? ", " : "");
        al_json_integer_or_null(b, p->rank >= 0, p->rank);
    }
    al_buf_str(b, "], \"pids\": [");
    for (uint32_t i = 0; i < g->count; i++)
        al_buf_printf(b, "%s%d", i ? ", " : "", (int)member_of(v, g, i)->member->dump.process->pid);
    al_buf_printf(b, "], \"odd\": %s, \"doing\": ", number && al_differ_odd(&v->d) ? "true" : "false");
    al_json_string_or_null(b, DOING[doing_of(v, g)].key);
    frame_or_null(b, "in", g->stack, at);
    frame_or_null(b, "called_from", g->stack, caller);
    al_buf_printf(b, ", \"collective\": %s, \"phase\": ", in_collective(g) ? "true" : "false");
    al_json_string_or_null(b, phase);
    al_buf_str(b, ", \"phase_seconds\": ");
    if (phase && since != INT64_MAX)
        al_buf_fixed(b, (double)since / 1e9, 3);
    else
        al_buf_str(b, "null");
    al_buf_str(b, ", \"asleep_seconds\": ");
    if (v == &a->main && asleep_of(v, g) >= 0)
        al_buf_fixed(b, asleep_of(v, g), 3);
    else
        al_buf_str(b, "null");
    al_buf_str(b, ", \"frames\": ");
    frames_json(b, g->stack, v->d.common, g->stack->count);
    al_buf_char(b, '}');
}

static void view_json(struct al_buf *b, const struct al_dump_differ *a, const struct al_differ_view *v) {
    al_buf_str(b, "\"common\": ");
    if (v->d.group_count)
        frames_json(b, v->d.groups[0].stack, 0, v->d.common);
    else
        al_buf_str(b, "[]");
    al_buf_str(b, ", \"groups\": [");
    for (uint32_t i = 0; i < v->d.group_count; i++) {
        al_buf_str(b, i ? ", " : "");
        group_json(b, a, v, i);
    }
    al_buf_char(b, ']');
}

static void rank_json(struct al_buf *b, const struct al_dump_differ *a, uint32_t i) {
    const struct al_dump_member *m = a->members[i];
    const struct al_stacks_process *p = m->dump.process;
    const struct al_value *step = &m->board.m[AL_RANK_STEP];
    al_buf_printf(b, "%s{\"rank\": ", i ? ", " : "");
    al_json_integer_or_null(b, p->rank >= 0, p->rank);
    al_buf_printf(b, ", \"pid\": %d, \"doing\": ", (int)p->pid);
    al_json_string_or_null(b, a->main.ranks[i].has ? DOING[a->main.ranks[i].doing].key : NULL);
    al_buf_str(b, ", \"step\": ");
    al_json_integer_or_null(b, m->board.pid && al_ok(*step), (int64_t)step->num);
    al_buf_str(b, ", \"error\": ");
    al_json_string_or_null(b, m->stack ? NULL : m->error.text);
    al_buf_char(b, '}');
}

static void as_json(struct al_buf *b, const struct al_dump_differ *a) {
    struct al_buf words = AL_BUF_INIT;
    say_all(&words, a);
    b->failed |= words.failed;
    al_buf_str(b, "{\"summary\": [");
    for (char *line = words.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        al_buf_str(b, line == words.data ? "" : ", ");
        al_json_string(b, line);
    }
    al_buf_free(&words);
    al_buf_str(b, "], \"seconds_apart\": ");
    al_buf_fixed(b, a->job->apart, 3);
    al_buf_str(b, ", \"world_size\": ");
    al_json_integer_or_null(b, a->job->world > 0, a->job->world);
    al_buf_str(b, ", \"ranks\": [");
    for (uint32_t i = 0; i < a->count; i++)
        rank_json(b, a, i);
    al_buf_str(b, "], \"missing\": [");
    for (uint32_t i = 0; i < a->job->absent_count; i++) {
        al_buf_printf(b, "%s{\"rank\": %d, \"reason\": ", i ? ", " : "", (int)a->job->absent[i].rank);
        al_json_string(b, a->job->absent[i].reason);
        al_buf_char(b, '}');
    }
    al_buf_str(b, "], ");
    view_json(b, a, &a->main);
    al_buf_str(b, ", \"variables\": [");
    b->failed |= al_dump_variables(b, a, true) != 0;
    al_buf_str(b, "], \"threads\": [");
    for (uint32_t i = 0; i < a->other_count; i++) {
        al_buf_str(b, i ? ", {\"name\": " : "{\"name\": ");
        al_json_string(b, a->others[i].name);
        al_buf_str(b, ", ");
        view_json(b, a, &a->others[i]);
        al_buf_char(b, '}');
    }
    al_buf_str(b, "]}");
}

int al_dump_differences(struct al_buf *b, const struct al_dump_job *j, bool json) {
    struct al_dump_differ a;
    int result = al_dump_differ_make(&a, j);
    if (!result && json)
        as_json(b, &a);
    else if (!result)
        as_text(b, &a);
    al_dump_differ_free(&a);
    return result ? result : b->failed ? AL_E_NOMEM : 0;
}
