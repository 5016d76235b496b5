// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "host/command.h"

#define LOOK_NS (2 * AL_NS_PER_S)       // how often new processes are looked for
#define PEEK_NS (50 * AL_NS_PER_MS)     // and those that the main threads of a command start
#define LAST_MOST 256u                  // frames of a stack that is kept to be recognised
#define NAME_EVERY 8u                   // samples of a thread after which its name is looked at again,
#define NAME_TIMES 64u                  // so often
#define RETRY_NS (100 * AL_NS_PER_MS)   // a process that is being replaced by another program
#define FAILED_MOST_NS (2 * AL_NS_PER_S) // so long its threads may not be readable until it is opened anew

static void add_counts(struct al_stack_counts *sum, const struct al_stack_counts *c) {
    sum->samples += c->samples;
    sum->threads += c->threads;
    sum->ok += c->ok;
    sum->unstable += c->unstable;
    sum->unreadable += c->unreadable;
    sum->unchanged += c->unchanged;
    sum->degraded_frames += c->degraded_frames;
    sum->truncated += c->truncated;
    sum->reads += c->reads;
}

static void say(struct al_profiling *p, const char *text) {
    if (p->mute)
        (void)al_str_copy(p->said, sizeof p->said, text);
    else
        al_cli_error("%s: %s", p->name ? p->name : "profile", text);
}

static void close_stack(struct al_profile_target *t) {
    struct al_stack_counts c;
    if (!t->stack)
        return;
    al_stack_get_counts(t->stack, &c);
    add_counts(&t->before, &c);
    al_profiling_native_close(t);
    al_stack_free(t->stack);
    t->stack = NULL;
    t->sample = NULL;
    memset(t->known, 0xff, AL_PROFILE_KNOWN * sizeof *t->known); // numbers of code are the sampler's
    for (uint32_t i = 0; i < t->thread_count; i++)
        t->threads[i].last_count = 0;
}

// A command that was just started becomes Python at any moment.
static int64_t retry_ns(const struct al_profiling *p, const struct al_profile_target *t) {
    int64_t age = al_monotonic_ns() - t->since_ns;
    if (!p->launched)
        return RETRY_NS;
    if (p->awaits)
        return age < AL_NS_PER_S ? 2 * AL_NS_PER_MS : age < 10 * AL_NS_PER_S ? 20 * AL_NS_PER_MS : RETRY_NS;
    return age < AL_NS_PER_S ? RETRY_NS / 4 : 4 * RETRY_NS;
}

// The program that it is by now: one that was just started was a shell or a launcher at first.
static void learn_command(const struct al_profiling *p, struct al_profile_target *t) {
    char path[64], args[4096];
    (void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)t->process.pid);
    ssize_t len = p->cmdline ? al_fs_head(path, args, sizeof args) : 0;
    if (len > 0)
        al_command_mask(args, (size_t)len, t->process.command, sizeof t->process.command);
}

static int open_stack(struct al_profiling *p, struct al_profile_target *t, bool tell) {
    struct al_stack_error e;
    int result = al_stack_open(t->process.pid, NULL, &t->stack, &e);
    if (result && tell)
        say(p, e.text);
    if (result && tell && !p->error)
        p->error = result;
    t->retry_ns = al_monotonic_ns() + retry_ns(p, t);
    if (result == AL_E_GONE || result == AL_E_NOENT)
        t->ended = true;
    if (!result)
        learn_command(p, t);
    if (!result && (p->native || p->blocking) && (result = al_profiling_native_open(p, t)) != 0)
        close_stack(t);
    return result;
}

static void free_threads(struct al_profile_target *t) {
    for (uint32_t i = 0; i < t->thread_count; i++)
        free(t->threads[i].last);
    t->thread_count = 0;
}

static struct al_profile_target *find_target(const struct al_profiling *p, pid_t pid) {
    for (uint32_t i = 0; i < p->target_count; i++)
        if (p->targets[i]->process.pid == pid && !p->targets[i]->ended)
            return p->targets[i];
    return NULL;
}

static int add_target(struct al_profiling *p, const struct al_stacks_who *who, const struct al_stacks_process *process) {
    struct al_profile_target **more = realloc(p->targets, (p->target_count + 1) * sizeof *more);
    if (!more)
        return AL_E_NOMEM;
    p->targets = more;
    struct al_profile_target *t = calloc(1, sizeof *t);
    struct al_profile_known *known = malloc(AL_PROFILE_KNOWN * sizeof *known);
    if (!t || !known) {
        free(t);
        free(known);
        return AL_E_NOMEM;
    }
    memset(known, 0xff, AL_PROFILE_KNOWN * sizeof *known);
    t->process = *process;
    t->since_ns = al_monotonic_ns();
    t->known = known;
    more[p->target_count++] = t;
    int result = open_stack(p, t, false);
    // What is started is not Python at first, and its wrappers never are.
    bool early = p->launched && (result == AL_E_FORMAT || result == AL_E_GONE || result == AL_E_NOENT);
    if (result && !early && al_stacks_tells(who, result))
        (void)open_stack(p, t, true); // once more, for its words
    return 0;
}

static bool named_has_ended(const struct al_profiling *p) {
    for (uint32_t i = 0; i < p->target_count; i++)
        if (p->targets[i]->process.pid == p->pid && p->targets[i]->ended)
            return true;
    return false;
}

// Who is there now; those that are new are opened, those that were not readable yet are tried again.
// A process that was met between fork and exec gets its role with its program.
static void learn(struct al_profile_target *t, const struct al_stacks_process *now) {
    bool other = t->process.role != now->role || t->process.rank != now->rank || t->process.owner != now->owner;
    t->process = *now;
    if (other)
        free_threads(t); // their roots have its name
}

int al_profiling_look(struct al_profiling *p) {
    p->look_soon = false;
    struct al_stacks_who who;
    int result = al_stacks_find(&who, p->pid, p->reach, !p->cmdline, p->top);
    p->top = who.top;
    for (uint32_t i = 0; i < who.count && !result; i++) {
        struct al_profile_target *t = find_target(p, who.list[i].pid);
        if (!t && who.list[i].pid == p->pid && named_has_ended(p))
            continue;
        if (t)
            learn(t, &who.list[i]);
        if (!t)
            result = add_target(p, &who, &who.list[i]);
        else if (!t->stack && t->process.pid != p->pid)
            (void)open_stack(p, t, false);
    }
    al_stacks_free(&who);
    return result;
}

int al_profiling_open(struct al_profiling *p) {
    if (p->reach == AL_STACKS_ONE)
        al_stacks_await(p->pid);
    int result = al_profiling_look(p);
    if (result)
        say(p, al_error_text(result));
    for (uint32_t i = 0; i < p->target_count && !result; i++)
        if (p->targets[i]->stack)
            return 0;
    if (!result && !p->error && p->target_count && !p->launched) // nothing is Python: what the first says of it
        (void)open_stack(p, p->targets[0], true);
    return result ? result : p->error ? p->error : AL_E_NOENT;
}

static uint32_t mark(struct al_profiling *p, const char *name) {
    return al_profile_frame_of(p->profile, AL_PROFILE_MARK, name, "", "", 0);
}

static uint32_t number_frame(struct al_profiling *p, struct al_profile_target *t, const struct al_stack_frame *f) {
    const struct al_stack_code *c = al_stack_code(t->stack, f->code);
    if (!c)
        return mark(p, "[not readable]");
    int32_t line = p->no_lines ? 0 : p->by_function ? c->first_line : f->line;
    struct al_profile_known *k = &t->known[(f->code * 31u + (uint32_t)line) % AL_PROFILE_KNOWN];
    if (k->frame != AL_PROFILE_NONE && k->code == f->code && k->line == line)
        return k->frame;
    const char *name = *c->qualname ? c->qualname : c->name;
    uint32_t frame;
    if (f->kind == AL_STACK_NATIVE)
        frame = al_profile_frame_of(p->profile, AL_PROFILE_NATIVE, name, "", c->filename, line);
    else
        frame = al_profile_frame_of(p->profile, AL_PROFILE_PYTHON, name, c->filename, "", line);
    if (frame != AL_PROFILE_NONE && f->kind == AL_STACK_PYTHON)
        al_profile_first_line(p->profile, frame, c->first_line);
    *k = (struct al_profile_known){.code = f->code, .frame = frame, .line = line};
    return frame;
}

static uint32_t named(struct al_profiling *p, uint32_t parent, const char *name) {
    uint32_t frame = mark(p, name);
    return frame == AL_PROFILE_NONE ? frame : al_profile_stack(p->profile, parent, frame);
}

static int add_thread(struct al_profiling *p, struct al_profile_target *t, const struct al_stack_thread *thread) {
    char process[160], role[96], name[320];
    if (t->thread_count == t->thread_cap) {
        uint32_t cap = t->thread_cap * 2 + 16;
        struct al_profile_thread *more = realloc(t->threads, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        t->threads = more;
        t->thread_cap = cap;
    }
    al_stacks_role(&t->process, role, sizeof role);
    (void)snprintf(process, sizeof process, "process %d%s%s", (int)t->process.pid, *role ? ", " : "", role);
    struct al_profile_thread out = {.id = thread->id, .tid = thread->tid, .root = AL_PROFILE_NONE};
    bool failed = false;
    if (p->reach != AL_STACKS_ONE && !p->bare)
        failed = (out.root = named(p, out.root, process)) == AL_PROFILE_NONE;
    (void)snprintf(name, sizeof name, "thread %d %s", (int)thread->tid, thread->name);
    if (!failed && p->by_thread && !p->bare)
        failed = (out.root = named(p, out.root, name)) == AL_PROFILE_NONE;
    const struct al_profile_who who = {(int32_t)t->process.pid, (int32_t)thread->tid, t->process.rank, process, thread->name};
    if (failed || (out.track = al_profile_track(p->profile, &who)) == AL_PROFILE_NONE)
        return AL_E_NOMEM;
    t->threads[t->thread_count++] = out;
    return 0;
}

// Threads come in the same order from sample to sample: `hint` is where it was last.
static struct al_profile_thread *thread_of(struct al_profiling *p, struct al_profile_target *t,
                                                 const struct al_stack_thread *thread, size_t hint) {
    if (hint < t->thread_count && t->threads[hint].id == thread->id && t->threads[hint].tid == thread->tid)
        return &t->threads[hint];
    for (uint32_t i = t->thread_count; i-- > 0;)
        if (t->threads[i].id == thread->id && t->threads[i].tid == thread->tid)
            return &t->threads[i];
    return add_thread(p, t, thread) ? NULL : &t->threads[t->thread_count - 1];
}

// A program's first thread has no name of Python's until threading is imported.
static int keep_name(struct al_profiling *p, struct al_profile_thread *known, const struct al_stack_thread *thread) {
    if (known->named || ++known->seen % NAME_EVERY)
        return 0;
    known->named = known->seen > NAME_EVERY * NAME_TIMES;
    return al_profile_rename(p->profile, known->track, thread->name);
}

static enum al_profile_state state_of(const struct al_stack_thread *thread) {
    return thread->waits_gil == AL_STACK_YES   ? AL_PROFILE_WAITS
           : thread->idle == AL_STACK_YES      ? AL_PROFILE_IDLE
           : thread->holds_gil == AL_STACK_YES ? AL_PROFILE_GIL
                                               : AL_PROFILE_RUNNING;
}

static bool same_as_last(const struct al_profile_thread *known, const struct al_stack_thread *thread) {
    return thread->status == AL_STACK_OK && !thread->truncated && thread->count && known->last_count == thread->count &&
           memcmp(known->last, thread->frames, thread->count * sizeof *known->last) == 0;
}

static void keep_last(struct al_profile_thread *known, const struct al_stack_thread *thread, uint32_t stack) {
    known->last_count = 0;
    if (thread->status != AL_STACK_OK || thread->truncated || thread->count > LAST_MOST)
        return;
    if (known->last_cap < thread->count) {
        struct al_stack_frame *more = realloc(known->last, thread->count * sizeof *more);
        if (!more)
            return;
        known->last = more;
        known->last_cap = thread->count;
    }
    memcpy(known->last, thread->frames, thread->count * sizeof *known->last);
    known->last_count = thread->count;
    known->last_stack = stack;
}

// What it was met in, AL_PROFILE_NONE for nothing. AL_E_NOMEM.
static int stack_of(struct al_profiling *p, struct al_profile_target *t, const struct al_profile_thread *known,
                    const struct al_stack_thread *thread, uint32_t *ret) {
    uint32_t stack = known->root;
    if (thread->truncated && (stack = named(p, stack, "[too deep]")) == AL_PROFILE_NONE)
        return AL_E_NOMEM;
    for (uint32_t i = thread->count; i-- > 0;) {
        uint32_t frame = number_frame(p, t, &thread->frames[i]);
        stack = frame == AL_PROFILE_NONE ? frame : al_profile_stack(p->profile, stack, frame);
        if (stack == AL_PROFILE_NONE)
            return AL_E_NOMEM;
    }
    // What is missing keeps its share, under a name of its own.
    const char *missing = thread->status == AL_STACK_UNSTABLE ? "[moved while it was read]" : "[not readable]";
    if (thread->status != AL_STACK_OK && (stack = named(p, stack, missing)) == AL_PROFILE_NONE)
        return AL_E_NOMEM;
    *ret = stack;
    return 0;
}

static int take_thread(struct al_profiling *p, struct al_profile_target *t, const struct al_stack_thread *thread, size_t hint) {
    if (thread->status == AL_STACK_LEFT_OUT || thread->status == AL_STACK_EMPTY)
        return 0;
    struct al_profile_thread *known = thread_of(p, t, thread, hint);
    if (!known || keep_name(p, known, thread))
        return AL_E_NOMEM;
    uint32_t stack = known->last_stack;
    if (!same_as_last(known, thread)) {
        if (stack_of(p, t, known, thread, &stack))
            return AL_E_NOMEM;
        keep_last(known, thread, stack);
    }
    if (stack == AL_PROFILE_NONE)
        return 0;
    return p->add ? p->add(p, t, thread, known->track, stack)
                  : al_profile_add(p->profile, known->track, stack, p->tick, state_of(thread));
}

static int sample_target(struct al_profiling *p, struct al_profile_target *t, int64_t now) {
    const struct al_stack_sample *s;
    unsigned what = AL_STACK_STATE | AL_STACK_NAMES | (p->gil ? AL_STACK_GIL_ONLY : 0) | (p->idle ? 0 : AL_STACK_BUSY_ONLY);
    int result = al_stack_sample(t->stack, what, &s);
    if (result == AL_E_NOMEM)
        return result;
    if (result == AL_E_FORMAT) { // its interpreter goes down, or starts anew
        p->failed++;
        if (now > t->retry_ns + FAILED_MOST_NS)
            result = AL_E_AGAIN;
    }
    if (result == AL_E_AGAIN || result == AL_E_DENIED || result == AL_E_GONE) {
        p->look_soon = result == AL_E_AGAIN;
        t->ended = result == AL_E_GONE;
        close_stack(t);
        t->retry_ns = now + RETRY_NS;
    }
    if (result)
        return 0;
    t->retry_ns = now;
    t->sample = s;
    for (size_t i = 0; i < s->count && !result; i++) {
        struct al_stack_thread thread = s->threads[i];
        if (t->native)
            result = al_profiling_native_thread(p, t, i, &thread);
        result = result ? result : take_thread(p, t, &thread, i);
    }
    return result;
}

bool al_profiling_knows(const struct al_profiling *p, pid_t pid) {
    return find_target(p, pid) != NULL;
}

void al_profiling_try(struct al_profiling *p, int64_t now_ns) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        struct al_profile_target *t = p->targets[i];
        bool wanted = t->process.pid == p->pid || (p->launched && p->reach != AL_STACKS_ONE);
        if (!t->ended && !t->stack && wanted && now_ns >= t->retry_ns)
            p->look_soon |= open_stack(p, t, false) == 0 && p->launched;
    }
}

static int tick(struct al_profiling *p, int64_t now) {
    int result = 0;
    bool alive = false;
    al_profiling_try(p, now);
    for (uint32_t i = 0; i < p->target_count && !result; i++) {
        struct al_profile_target *t = p->targets[i];
        if (t->stack)
            result = sample_target(p, t, now);
        alive |= !t->ended && (t->stack || t->process.pid == p->pid);
    }
    p->all_ended = p->launched ? p->job.ended : !alive;
    p->ticks++;
    return result;
}

static int turn(struct al_profiling *p, int64_t now, int64_t *look_ns) {
    int result = 0;
    if (p->lock)
        pthread_mutex_lock(p->lock);
    if (p->reach != AL_STACKS_ONE && (now >= *look_ns || p->look_soon)) {
        result = al_profiling_look(p);
        *look_ns = now + LOOK_NS;
    } else if (p->launched && p->reach != AL_STACKS_ONE && now >= p->peek_ns) {
        result = al_profiling_has_new(p) ? al_profiling_look(p) : 0;
        p->peek_ns = now + PEEK_NS;
    }
    if (!result && p->ticked)
        result = p->ticked(p, now);
    result = result ? result : tick(p, now);
    if (p->lock)
        pthread_mutex_unlock(p->lock);
    return result;
}

// False: a signal, or the command that was launched has ended.
static bool wait_until(struct al_profiling *p, struct al_clock *clock, int64_t due) {
    if (p->native || p->blocking)
        return al_profiling_native_wait(p, due);
    return p->launched ? al_profiling_wait(p, due) : al_clock_sleep_until(clock, due);
}

int al_profiling_sample(struct al_profiling *p) {
    struct al_clock clock;
    int64_t step = (int64_t)(1e9 / p->rate), due = al_monotonic_ns(), look_ns = due + LOOK_NS;
    int result = 0;
    al_clock_real(&clock);
    p->began_ns = due;
    p->start_ns = al_realtime_ns();
    p->cpu_began_ns = al_process_cpu_ns();
    int64_t until = p->seconds > 0 ? due + (int64_t)(p->seconds * 1e9) : INT64_MAX;
    const _Atomic int *stop = p->stop ? p->stop : &al_cli_stop;
    while (!result && !*stop && !p->all_ended) {
        if (due >= until || !wait_until(p, &clock, due))
            break;
        int64_t now = al_monotonic_ns();
        result = turn(p, now, &look_ns);
        due += step;
        p->tick++;
        now = al_monotonic_ns();
        if (due < now) { // those that were missed are not made up for
            int64_t missed = (now - due) / step;
            p->late += (uint64_t)missed;
            p->tick += (uint32_t)missed;
            due += missed * step;
        }
    }
    p->ended_ns = al_monotonic_ns();
    p->all_ended |= p->launched && p->job.ended;
    p->cpu_ns = al_process_cpu_ns() - p->cpu_began_ns;
    return result;
}

int al_profiling_forget(struct al_profiling *p) {
    struct al_profile *fresh = al_profile_new();
    if (!fresh)
        return AL_E_NOMEM;
    al_profile_free(p->profile);
    p->profile = fresh;
    for (uint32_t i = 0; i < p->target_count; i++) {
        free_threads(p->targets[i]);
        memset(p->targets[i]->known, 0xff, AL_PROFILE_KNOWN * sizeof *p->targets[i]->known);
    }
    return 0;
}

void al_profiling_counts(const struct al_profiling *p, struct al_stack_counts *ret) {
    struct al_stack_counts c;
    *ret = (struct al_stack_counts){0};
    for (uint32_t i = 0; i < p->target_count; i++) {
        add_counts(ret, &p->targets[i]->before);
        if (!p->targets[i]->stack)
            continue;
        al_stack_get_counts(p->targets[i]->stack, &c);
        add_counts(ret, &c);
    }
}

void al_profiling_close(struct al_profiling *p) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        al_profiling_native_close(p->targets[i]);
        al_stack_free(p->targets[i]->stack);
        free_threads(p->targets[i]);
        free(p->targets[i]->threads);
        free(p->targets[i]->known);
        free(p->targets[i]);
    }
    free(p->targets);
    al_profile_free(p->profile);
}
