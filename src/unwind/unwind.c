// SPDX-License-Identifier: Apache-2.0
#include "unwind/unwind.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "unwind/parts.h"

#define SWITCHES_MOST 8u // of the stack, by signal frames

static int cannot(pid_t pid, int code, struct al_unwind_error *error) {
    if (code == AL_E_DENIED)
        snprintf(error->text, sizeof error->text,
                 "may not read process %d: run as its user or as root (CAP_SYS_PTRACE); see kernel.yama.ptrace_scope", (int)pid);
    else if (code == AL_E_GONE && kill(pid, 0) != 0 && errno == ESRCH) {
        snprintf(error->text, sizeof error->text, "there is no process %d", (int)pid);
        code = AL_E_NOENT;
    } else if (code == AL_E_GONE)
        snprintf(error->text, sizeof error->text, "process %d has ended", (int)pid);
    else
        snprintf(error->text, sizeof error->text, "process %d: %s", (int)pid, al_error_text(code));
    return code;
}

int al_unwind_open(pid_t pid, const char *procfs, struct al_unwind **ret, struct al_unwind_error *error) {
    bool changed;
    const struct al_elfutils *e;
    *ret = NULL;
    int code = al_elfutils_open(&e, error);
    if (code)
        return code;
    struct al_unwind *u = calloc(1, sizeof *u);
    if (!u)
        return cannot(pid, AL_E_NOMEM, error);
    u->pid = pid;
    (void)al_str_copy(u->procfs, sizeof u->procfs, procfs ? procfs : "/proc");
    u->remote.pid = pid;
    u->memory = (struct al_memory){al_remote_gather, &u->remote};
    u->objects = (struct al_objects){.pid = pid, .procfs = u->procfs, .e = e, .memory = &u->memory};
    u->read_ns = al_monotonic_ns();
    code = al_objects_read(&u->objects, &changed);
    // Its mappings may be listed where its memory may not be read; then no object's header could be.
    if (!code && !u->objects.count && u->remote.error)
        code = al_remote_error(&u->remote);
    if (code) {
        al_unwind_free(u);
        return cannot(pid, code, error);
    }
    *ret = u;
    return 0;
}

void al_unwind_free(struct al_unwind *u) {
    if (!u)
        return;
    al_objects_free(&u->objects);
    al_rules_free(&u->rules);
    al_texts_free(&u->texts);
    al_perf_map_free(&u->perf_map);
    free(u->known);
    free(u);
}

void al_unwind_set_interpreter(struct al_unwind *u, const char *object) {
    (void)al_str_copy(u->interpreter, sizeof u->interpreter, object);
}

struct walk {
    struct al_regs regs;
    uint32_t count;
    unsigned switches;
    bool exact;   // the instruction is where it stands, not behind a call
    bool guess;   // how this frame was found
    bool guessed; // this frame or one within it
};

// A tail-call interpreter is entered by a function of the usual name: both are one run of it.
static bool same_run(const struct al_known *last, const struct al_known *k) {
    return last->tail_call && k->kind == AL_UNWIND_INTERPRETER && !k->tail_call;
}

// Whether what a step led to can be a frame; when not, the caller looks for another way.
static bool plausible(const struct al_unwind *u, const struct al_regs *now, const struct al_regs *next) {
    uint64_t pc = next->value[AL_REG_PC];
    return !pc || (next->value[AL_REG_SP] > now->value[AL_REG_SP] && al_objects_find(&u->objects, pc - 1) != NULL);
}

// By the rule; by a guess where a register that it needs is not known, or one that was guessed misleads.
static enum al_step go_up(struct al_unwind *u, struct walk *w, const struct al_known *k) {
    const struct al_rule *rule = &u->rules.list[k->rule - 1];
    struct al_regs next = w->regs;
    uint64_t cfa;
    bool was_guessed = w->guessed;
    enum al_step step = al_rule_cfa(&u->rules, rule, &w->regs, &u->copy, &cfa);
    if (step == AL_STEP_OK)
        step = al_rule_step(&u->rules, rule, cfa, &next, &u->copy);
    if (step == AL_STEP_NEEDS ||
        (was_guessed && !rule->signal && (step == AL_STEP_FAILS || (step == AL_STEP_OK && !plausible(u, &w->regs, &next))))) {
        if (!al_guess_cfa(u, k, &w->regs, &cfa))
            return AL_STEP_FAILS;
        rule = &u->rules.list[k->rule - 1]; // the guess may have moved it
        next = w->regs;
        step = al_rule_step(&u->rules, rule, cfa, &next, &u->copy);
        w->guess = w->guessed = true;
    }
    if (step != AL_STEP_OK)
        return step;
    if (rule->signal) {
        if (++w->switches > SWITCHES_MOST)
            return AL_STEP_FAILS;
    } else if (next.value[AL_REG_SP] < w->regs.value[AL_REG_SP] ||
               (next.value[AL_REG_SP] == w->regs.value[AL_REG_SP] && !w->exact)) {
        return AL_STEP_FAILS; // it would go round
    }
    w->exact = rule->signal;
    w->regs = next;
    return AL_STEP_OK;
}

static enum al_step step_from(struct al_unwind *u, struct walk *w, const struct al_known *k) {
    w->guess = false;
    if (k->rule)
        return go_up(u, w, k);
    if (k->outermost)
        return AL_STEP_END;
    if (!al_guess_caller(u, k, &w->regs, w->exact))
        return AL_STEP_FAILS;
    w->guess = w->guessed = true;
    w->exact = false;
    return AL_STEP_OK;
}

static int walk(struct al_unwind *u, const struct al_unwind_input *in, struct al_unwind_stack *ret) {
    struct walk w = {.exact = true};
    struct al_known last = {0};
    enum al_step step = AL_STEP_OK;
    u->objects.asked_count = 0;
    for (unsigned i = 0; i < AL_REG_COUNT; i++)
        w.regs.value[i] = in->regs[i];
    w.regs.known = in->known | 1ULL << AL_REG_PC | 1ULL << AL_REG_SP;
    al_copy_init(&u->copy, in, in->stopped ? &u->memory : NULL);
    while (step == AL_STEP_OK && w.count < AL_UNWIND_DEPTH_MOST) {
        uint64_t pc = w.regs.value[AL_REG_PC];
        if (!pc && w.count) {
            step = AL_STEP_END;
            break;
        }
        const struct al_known *k = al_known_get(u, w.exact ? pc : pc - 1);
        if (!k)
            return AL_E_NOMEM;
        if (!w.count || !same_run(&last, k))
            u->frames[w.count++] = (struct al_unwind_frame){pc, k->symbol, k->kind, w.guess};
        u->counts.guessed += w.guess;
        last = *k; // guesses look up others, which may move it
        if (k->dso)
            al_objects_ask(&u->objects, k->dso);
        step = step_from(u, &w, &last);
    }
    ret->frames = u->frames;
    ret->count = w.count;
    ret->status = step == AL_STEP_END ? AL_UNWIND_WHOLE : step == AL_STEP_OK || u->copy.beyond ? AL_UNWIND_CUT : AL_UNWIND_STUCK;
    return 0;
}

int al_unwind_thread(struct al_unwind *u, const struct al_unwind_input *in, struct al_unwind_stack *ret) {
    al_known_refresh(u, AL_READ_AGAIN_NS);
    int result = walk(u, in, ret);
    if (!result && !al_objects_stand(&u->objects)) { // a library was unloaded, and another one put there
        al_known_refresh(u, 0);
        result = walk(u, in, ret);
    }
    if (result)
        return result;
    u->counts.stacks++;
    u->counts.frames += ret->count;
    u->counts.cut += ret->status == AL_UNWIND_CUT;
    u->counts.stuck += ret->status == AL_UNWIND_STUCK;
    return 0;
}

const struct al_unwind_symbol *al_unwind_symbol(const struct al_unwind *u, uint32_t symbol) {
    return al_texts_get(&u->texts, symbol);
}

void al_unwind_get_counts(const struct al_unwind *u, struct al_unwind_counts *ret) {
    *ret = u->counts;
    ret->rules = u->rules.count;
    ret->symbols = u->texts.count;
    ret->objects = u->objects.count;
}
