// SPDX-License-Identifier: Apache-2.0
// What keeps a process that has not let alula in in time: its main thread is looked at, not guessed about.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "stack/stack.h"

#define LOOKS 40
#define PAUSE_NS (10 * AL_NS_PER_MS)
#define LOOKED_AT_MOST 4 // processes: each takes LOOKS * PAUSE_NS

enum doing { DOING_UNKNOWN, DOING_STANDS, DOING_MOVES, DOING_WAITS_GIL };

static const struct al_stack_thread *main_of(const struct al_stack_sample *s) {
    for (size_t i = 0; i < s->count; i++)
        if (s->threads[i].main)
            return &s->threads[i];
    return NULL;
}

static void name_place(const struct al_stack *s, const struct al_stack_frame *f, char *place, size_t size) {
    const struct al_stack_code *code = al_stack_code(s, f->code);
    const char *slash = code ? strrchr(code->filename, '/') : NULL;
    if (code)
        (void)snprintf(place, size, "at %.120s (%.120s:%d)", code->qualname, slash ? slash + 1 : code->filename, (int)f->line);
}

// At one bytecode in all looks: it has come to no boundary between two. `place` is that of the last look.
static enum doing watch_main(struct al_stack *s, char *place, size_t size) {
    uint64_t frame = 0, instr = 0;
    int waits = 0;
    for (int i = 0; i < LOOKS; i++) {
        const struct al_stack_sample *sample;
        if (al_stack_sample(s, AL_STACK_MAIN_ONLY | AL_STACK_STATE, &sample))
            return DOING_UNKNOWN;
        const struct al_stack_thread *t = main_of(sample);
        if (t && t->status == AL_STACK_UNSTABLE)
            return DOING_MOVES;
        if (!t || t->status != AL_STACK_OK || !t->count || t->frames->degraded)
            return DOING_UNKNOWN;
        if (i && (t->frames->address != frame || t->frames->instr != instr))
            return DOING_MOVES;
        frame = t->frames->address;
        instr = t->frames->instr;
        waits += t->waits_gil == AL_STACK_YES;
        name_place(s, t->frames, place, size);
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return waits > LOOKS / 2 ? DOING_WAITS_GIL : DOING_STANDS;
}

static enum doing look_at(pid_t pid, char *place, size_t size) {
    struct al_stack *s;
    struct al_stack_error e;
    if (al_stack_open(pid, NULL, &s, &e))
        return DOING_UNKNOWN;
    enum doing doing = watch_main(s, place, size);
    al_stack_free(s);
    return doing;
}

static void say_not_run(pid_t pid, enum doing doing, const char *place) {
    static const char *const why[] = {
        [DOING_UNKNOWN] = ": most likely its main thread is inside a long call (a collective, the GPU, a sleep)",
        [DOING_STANDS] = "inside a long call (a collective, the GPU, a sleep)",
        [DOING_MOVES] = (", though its main thread runs Python code: no thread could be started in it, or it does not get "
                         "the interpreter's lock (GIL)"),
        [DOING_WAITS_GIL] = "waiting for the interpreter's lock (GIL), which another thread keeps",
    };
    bool stands = doing == DOING_STANDS || doing == DOING_WAITS_GIL;
    al_cli_error("attach: process %d did not come to run alula's line in time%s%s%s%s. Nothing was changed in it; --wait TIME "
                 "waits longer", (int)pid, stands ? ": its main thread is " : "", stands && *place ? place : "",
                 stands && *place ? ", " : "", why[doing]);
}

void al_attach_say_late(const struct al_attach *a) {
    int looked = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct al_attach_process *p = &a->processes[i];
        char place[280] = "";
        if (p->state != AL_ATTACH_REFUSED || *p->why)
            continue;
        if (p->heard)
            al_cli_error("attach: process %d has let alula in, but the hook is still loading, as when its main thread seldom gives "
                         "up the interpreter's lock (GIL). What is loaded takes itself out again; --wait TIME waits longer", (int)p->pid);
        else
            say_not_run(p->pid, looked++ < LOOKED_AT_MOST ? look_at(p->pid, place, sizeof place) : DOING_UNKNOWN, place);
    }
}
