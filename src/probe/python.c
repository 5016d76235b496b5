// SPDX-License-Identifier: Apache-2.0
#include "probe/python.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "model/event.h"
#include "probe/loop.h"

#define METH_FASTCALL 0x0080 // CPython's Include/methodobject.h

// One loop a process: only its owner's calls change what is not atomic.
static struct al_python py;
static struct al_loop loop = {0};
static _Atomic int32_t owner; // the loop's thread: the first that marks anything, 0 none
static _Thread_local int32_t own_tid;

// Callables of the hook's, NULL until set.
static struct {
    al_object *activate;  // () at the process's first mark
    al_object *gone;      // () -> whether the loop's thread has ended; the calling one takes its place then
    al_object *count;     // (batch) -> samples, for what count() here does not know
    al_object *gradients; // torch.is_grad_enabled
    al_object *cuda;      // torch.cuda, until it is initialised
    al_object *gpu_begins; // () once it is
    al_object *answer;    // () when the collector asks for something
    al_object *unfed;     // () when steps have ended without a batch
    al_object *gpu_mark;  // (ended, begun)
    al_object *nvtx_push, *nvtx_pop, *nvtx_names; // (name), (), names of the phases by number
    al_object *gpu_step;  // () -> CLOCK_MONOTONIC ns before which neither of the two wants to be called
} hook;
static int64_t gpu_due;
static bool cut; // after restart, until a step has ended

static int32_t thread(void) {
    if (!own_tid)
        own_tid = (int32_t)syscall(SYS_gettid);
    return own_tid;
}

// True when a callback's result is there, or its exception is none that the host must see (an interrupt is).
static bool survive(al_object *result) {
    if (result) {
        py.drop(result);
        return true;
    }
    if (!py.error_is(py.exception))
        return false;
    py.clear();
    return true;
}

// Whether this call is to be marked, where the quick test said no.
static bool take(int32_t me) {
    int32_t nobody = 0;
    if (atomic_compare_exchange_strong(&owner, &nobody, me)) {
        if (!hook.activate || !survive(py.call(hook.activate, NULL)))
            loop.quiet = AL_LOOP_OFF;
        return !loop.quiet;
    }
    // Where the loop's thread has ended this is another loop. The interpreter is asked, since the kernel's thread is
    // there for a moment after a join().
    al_object *gone = hook.gone ? py.call(hook.gone, NULL) : NULL;
    bool ended = gone == py.yes;
    if (hook.gone && !survive(gone))
        return false;
    return ended && atomic_compare_exchange_strong(&owner, &nobody, me);
}

static bool owned(void) {
    int32_t me = thread();
    return me == atomic_load_explicit(&owner, memory_order_relaxed) || take(me);
}

static bool mine(void) {
    return !loop.quiet && owned();
}

static int64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool gpu_marks(const struct al_loop_move *m) {
    al_object *ended = py.from_number(m->ended), *begun = py.from_number(m->begun);
    bool ok = survive(py.call(hook.gpu_mark, ended, begun, NULL));
    py.drop(ended);
    py.drop(begun);
    return ok;
}

#define UNFED 2 // steps

static bool step_ends(void) {
    if (loop.unfed == UNFED && hook.unfed && !survive(py.call(hook.unfed, NULL)))
        return false;
    if (al_probe_asked() && hook.answer && !survive(py.call(hook.answer, NULL)))
        return false;
    if (hook.gpu_step) {
        if (gpu_due && now_ns() < gpu_due)
            return true;
        al_object *due = py.call(hook.gpu_step, NULL);
        gpu_due = due && due != py.none ? py.as_number(due) : 0;
        return survive(due);
    }
    al_object *initialized = hook.cuda ? py.attribute(hook.cuda, py.name_initialized) : NULL;
    bool begins = initialized == py.yes && hook.gpu_begins;
    if (hook.cuda && !survive(initialized))
        return false;
    return !begins || survive(py.call(hook.gpu_begins, NULL));
}

static int nvtx_depth; // ranges that are open: those alone are closed

// Ranges for other tools. False with an exception of the host's set.
static bool show_ranges(uint64_t turn) {
    unsigned end = (uint8_t)(turn >> AL_PROBE_TURN_END), begin = (uint8_t)(turn >> AL_PROBE_TURN_BEGIN);
    bool ok = true;
    if (end && nvtx_depth > 0) {
        nvtx_depth--;
        ok = survive(py.call(hook.nvtx_pop, NULL));
    }
    if (!begin || !ok)
        return ok;
    al_object *name = py.item(hook.nvtx_names, (ssize_t)begin - 1);
    ok = survive(name ? py.call(hook.nvtx_push, name, NULL) : NULL);
    nvtx_depth += ok && name;
    py.drop(name);
    return ok;
}

// False with an exception of the host's set.
static bool tell(const struct al_loop_move *m) {
    if (cut) { // where it was when alula came is not known: the step that has begun is not told
        cut = !m->step;
        return true;
    }
    if (m->epoch)
        (void)alula_probe_mark(AL_EVENT_EPOCH, 0, -1, loop.epoch, 0);
    bool gpu = m->timed && hook.gpu_mark && !gpu_due;
    bool ok = true;
    if (gpu && m->step) // while it is this step
        ok = gpu_marks(m);
    if (m->turn)
        (void)alula_probe_turn(m->turn | (uint64_t)(loop.trainer > 0) << AL_PROBE_TURN_LOOP);
    if (gpu && !m->step)
        ok = gpu_marks(m);
    if (m->turn && hook.nvtx_push && ok)
        ok = show_ranges(m->turn);
    if (m->step && ok)
        ok = step_ends();
    return ok;
}

static al_object *give(al_object *object) {
    py.keep(object);
    return object;
}

static al_object *told(const struct al_loop_move *m, al_object *result) {
    return tell(m) ? give(result) : NULL;
}

static al_object *truth(bool yes) {
    return yes ? py.yes : py.no;
}

static void set(al_object **place, al_object *object) {
    al_object *old = *place;
    *place = object && object != py.none ? give(object) : NULL;
    py.drop(old);
}

static long long dimension(al_object *shape, ssize_t index) {
    al_object *number = py.item(shape, index);
    long long n = number ? py.as_number(number) : -1;
    py.drop(number);
    return n;
}

// First dimension of the first tensor of a list, a tuple, a dict or a tensor; -1 for anything else.
static long long first_dimension(al_object *batch) {
    al_object *type = py.type(batch), *value = NULL;
    if (type == py.list || type == py.tuple)
        value = py.item(batch, 0);
    else if (type != py.dict)
        value = give(batch);
    py.drop(type);
    al_object *shape = value ? py.attribute(value, py.name_shape) : NULL;
    long long samples = shape ? dimension(shape, 0) : -1;
    py.drop(value); // which takes NULL, too
    py.drop(shape);
    return samples;
}

// Padding and packing as they are: the GPU computes them all. Of other batches than a dict the hook's count() tells.
static void tell_tokens(al_object *batch) {
    al_object *type = py.type(batch);
    py.drop(type);
    if (type != py.dict)
        return;
    al_object *ids = py.value(batch, py.name_input_ids);
    al_object *shape = ids ? py.attribute(ids, py.name_shape) : NULL;
    long long rows = shape ? dimension(shape, 0) : -1, columns = rows > 0 ? dimension(shape, 1) : -1;
    py.drop(ids);
    py.drop(shape);
    if (columns < 0)
        py.clear();
    else if (columns > 0 && rows < INT32_MAX && columns < INT32_MAX)
        (void)alula_probe_mark(AL_EVENT_TOKENS, 0, -1, rows * columns, 0);
}

// False with an exception of the host's set.
static bool count(al_object *batch, int64_t *samples) {
    *samples = first_dimension(batch);
    if (*samples >= 0) {
        tell_tokens(batch);
        return true;
    }
    py.clear();
    al_object *number = hook.count ? py.call(hook.count, batch, NULL) : NULL;
    *samples = number ? py.as_number(number) : 0;
    if (*samples < 0)
        *samples = 0;
    return !hook.count || survive(number);
}

// ---- the methods. Each is given what it needs by the hook's own wrappers. ----

#define METHOD(name) static al_object *name(al_object *self, al_object *const *args, ssize_t n)
#define UNUSED ((void)self, (void)args, (void)n)

// Those that need nothing: what begins answers whether it did, what ends is told for as long as the thread owns the loop.
#define BEGINS(name, move)                                                                                             \
    METHOD(name) {                                                                                                     \
        UNUSED;                                                                                                        \
        struct al_loop_move m = {0};                                                                                   \
        bool begun = mine() && move(&loop, &m);                                                                        \
        return told(&m, truth(begun));                                                                                 \
    }
#define ENDS(name, test, move)                                                                                         \
    METHOD(name) {                                                                                                     \
        UNUSED;                                                                                                        \
        struct al_loop_move m = {0};                                                                                   \
        if (test)                                                                                                      \
            move(&loop, &m);                                                                                           \
        return told(&m, py.none);                                                                                      \
    }

BEGINS(backward_begin, al_loop_backward_begin)
BEGINS(clip_begin, al_loop_clip_begin) // an accelerator clips gradients
BEGINS(scaler_begin, al_loop_scaler_begin)
ENDS(data_done, owned(), al_loop_data_end)
ENDS(forward_end, mine(), al_loop_forward_end)
ENDS(backward_end, owned(), al_loop_backward_end)
ENDS(clip_end, owned(), al_loop_clip_end)
ENDS(on_return, mine(), al_loop_data_end) // sys.monitoring: the loop's function ends, maybe with its iterator

METHOD(data_begin) {
    UNUSED;
    struct al_loop_move m = {0};
    if (!mine())
        return give(py.no);
    al_object *gradients = py.call(hook.gradients, NULL);
    bool on = gradients == py.yes;
    if (!survive(gradients))
        return NULL;
    bool begun = al_loop_data_begin(&loop, on, &m);
    return told(&m, truth(begun));
}

// (iterator, batch)
METHOD(data_end) {
    (void)self;
    struct al_loop_move m = {0};
    int64_t samples;
    if (n < 2 || !owned())
        return give(py.none);
    if (!count(args[1], &samples))
        return NULL;
    al_loop_id dataset = loop.dataset;
    if ((al_loop_id)args[0] != loop.iterator) {
        al_object *object = py.attribute(args[0], py.name_dataset);
        dataset = (al_loop_id)(object ? object : py.none);
        if (!survive(object))
            return NULL;
    }
    al_loop_batch(&loop, (al_loop_id)args[0], dataset, samples, &m);
    return told(&m, py.none);
}

METHOD(data_raised) {
    UNUSED;
    if (owned())
        al_loop_data_raised(&loop);
    return give(py.none);
}

// (whether data_begin said yes)
METHOD(loader_ends) {
    (void)self;
    struct al_loop_move m = {0};
    if (n >= 1 && loop.quiet < AL_LOOP_OFF && owned())
        al_loop_loader_ends(&loop, args[0] == py.yes, &m);
    return told(&m, py.none);
}

// (batch)
METHOD(forward_begin) {
    (void)self;
    struct al_loop_move m = {0};
    int64_t samples;
    if (n < 1 || !mine() || loop.phase == AL_IN_FORWARD)
        return give(py.none);
    if (!count(args[0], &samples))
        return NULL;
    al_loop_forward_begin(&loop, samples, &m);
    return told(&m, py.none);
}

// (optimizer, args, kwargs), as torch calls its global hooks of every optimizer.
METHOD(optimizer_begin) {
    UNUSED;
    struct al_loop_move m = {0};
    if (mine())
        al_loop_optimizer_begin(&loop, &m);
    return told(&m, py.none);
}

METHOD(optimizer_end) {
    (void)self;
    struct al_loop_move m = {0};
    if (n >= 1 && mine())
        al_loop_optimizer_end(&loop, (al_loop_id)args[0], &m);
    return told(&m, py.none);
}

// (optimizer, whether the step raised)
METHOD(scaler_end) {
    (void)self;
    struct al_loop_move m = {0};
    if (n >= 2 && owned())
        al_loop_scaler_end(&loop, (al_loop_id)args[0], args[1] == py.yes, &m);
    return told(&m, py.none);
}

static uint8_t phase_of(al_object *number) {
    long long phase = py.as_number(number);
    return phase > 0 && phase < AL_PHASE_COUNT ? (uint8_t)phase : AL_IN_OTHER;
}

// (phase)
METHOD(enter) {
    (void)self;
    struct al_loop_move m = {0};
    bool begun = n >= 1 && mine() && al_loop_enter(&loop, phase_of(args[0]), &m);
    return told(&m, truth(begun));
}

METHOD(leave) {
    (void)self;
    struct al_loop_move m = {0};
    if (n >= 1 && owned())
        al_loop_leave(&loop, phase_of(args[0]), &m);
    return told(&m, py.none);
}

// (number, -1 for the next one): the job itself says that an epoch begins. True when it is told.
METHOD(epoch) {
    (void)self;
    struct al_loop_move m = {0};
    bool begun = n >= 1 && mine() && al_loop_epoch(&loop, py.as_number(args[0]), &m);
    return told(&m, truth(begun));
}

// (1 or -1): a trainer's loop begins or ends. True when its marks are taken.
METHOD(trainer) {
    (void)self;
    if (n >= 1)
        al_loop_trainer(&loop, (int)py.as_number(args[0]));
    return give(truth(mine()));
}

METHOD(in_trainer) {
    UNUSED;
    return give(truth(loop.trainer > 0));
}

// Whether this thread's marks are taken now; does not make it the loop's.
METHOD(active) {
    UNUSED;
    return give(truth(!loop.quiet && thread() == atomic_load(&owner)));
}

METHOD(off) {
    UNUSED;
    loop.quiet = AL_LOOP_OFF;
    return give(py.none);
}

// (whether a trainer's loop runs): another beginning, for alula attach. Nobody may be in a wrapper's call.
METHOD(restart) {
    (void)self;
    loop = (struct al_loop){.trainer = n >= 1 && py.as_number(args[0]) > 0};
    atomic_store(&owner, 0);
    cut = true;
    return give(py.none);
}

// (activate, gone, count, gpu_begins, answer, unfed); what is not given is taken away
METHOD(set_hook) {
    (void)self;
    al_object **places[] = {&hook.activate, &hook.gone, &hook.count, &hook.gpu_begins,
                            &hook.answer,   &hook.unfed};
    for (ssize_t i = 0; i < (ssize_t)(sizeof places / sizeof *places); i++)
        set(places[i], i < n ? args[i] : NULL);
    return give(py.none);
}

// (torch.is_grad_enabled, torch.cuda or None)
METHOD(set_torch) {
    (void)self;
    if (n >= 2) {
        set(&hook.gradients, args[0]);
        set(&hook.cuda, args[1]);
    }
    return give(py.none);
}

// (mark, step) or (None, None)
METHOD(set_gpu) {
    (void)self;
    if (n >= 2) {
        set(&hook.gpu_mark, args[0]);
        set(&hook.gpu_step, args[1]);
        set(&hook.cuda, NULL);
    }
    gpu_due = 0;
    return give(py.none);
}

// ---- sys.monitoring of the training loop's own code (python/hook/_alula_hook/monitor.py) ----

enum { LINE_FETCH = 1, LINE_BODY, LINE_AFTER }; // a `for`, the first line of its body, the first behind it

#define WATCHED_LINES 32

static struct {
    al_object *disable, *next, *code;
    bool in_next; // the call that runs is one of next()
    uint32_t count;
    struct {
        int32_t line, kind;
    } line[WATCHED_LINES];
} watch;

// (sys.monitoring.DISABLE, next, code) or (None, None, None)
METHOD(set_monitor) {
    (void)self;
    watch.count = 0;
    watch.in_next = false;
    set(&watch.disable, n >= 3 ? args[0] : NULL);
    set(&watch.next, n >= 3 ? args[1] : NULL);
    set(&watch.code, n >= 3 ? args[2] : NULL);
    return give(py.none);
}

// (line, kind)
METHOD(watch_line) {
    (void)self;
    if (n >= 2 && watch.count < WATCHED_LINES) {
        watch.line[watch.count].line = (int32_t)py.as_number(args[0]);
        watch.line[watch.count++].kind = (int32_t)py.as_number(args[1]);
    }
    return give(py.none);
}

static int kind_of(long long line) {
    for (uint32_t i = 0; i < watch.count; i++)
        if (watch.line[i].line == line)
            return watch.line[i].kind;
    return 0;
}

static bool fetch_begins(struct al_loop_move *m) {
    al_object *gradients = py.call(hook.gradients, NULL);
    bool on = gradients == py.yes;
    if (!survive(gradients))
        return false;
    if (on)
        (void)al_loop_data_begin(&loop, true, m);
    return true;
}

// What is not to be told again goes through no further call: the interpreter puts its own instruction back.
static al_object *silent(void) {
    return give(watch.disable ? watch.disable : py.none);
}

// (code, line)
METHOD(on_line) {
    (void)self;
    struct al_loop_move m = {0};
    int kind = n >= 2 ? kind_of(py.as_number(args[1])) : 0;
    if (!kind)
        return silent();
    if (!mine())
        return give(py.none);
    if (kind == LINE_FETCH && !fetch_begins(&m))
        return NULL;
    if (kind == LINE_BODY)
        al_loop_fed(&loop, &m);
    else if (kind == LINE_AFTER)
        al_loop_data_end(&loop, &m);
    return told(&m, py.none);
}

// (code, offset, callable, argument)
METHOD(on_call) {
    (void)self;
    struct al_loop_move m = {0};
    if (n < 3 || args[2] != watch.next)
        return silent();
    if (!mine())
        return give(py.none);
    watch.in_next = true;
    return fetch_begins(&m) ? told(&m, py.none) : NULL;
}

METHOD(on_c_return) {
    UNUSED;
    struct al_loop_move m = {0};
    if (watch.in_next && mine()) {
        watch.in_next = false;
        al_loop_fed(&loop, &m);
    }
    return told(&m, py.none);
}

METHOD(on_c_raise) {
    UNUSED;
    struct al_loop_move m = {0};
    if (watch.in_next && mine()) {
        watch.in_next = false;
        al_loop_data_end(&loop, &m);
    }
    return told(&m, py.none);
}

// (push, pop, names) or nothing
METHOD(set_nvtx) {
    (void)self;
    set(&hook.nvtx_push, n >= 3 ? args[0] : NULL);
    set(&hook.nvtx_pop, n >= 3 ? args[1] : NULL);
    set(&hook.nvtx_names, n >= 3 ? args[2] : NULL);
    nvtx_depth = 0;
    return give(py.none);
}

#define ROW(name) {#name, name, METH_FASTCALL, NULL}

static struct al_python_method methods[] = {
    ROW(data_begin), ROW(data_end), ROW(data_done), ROW(data_raised), ROW(loader_ends), ROW(forward_begin),
    ROW(forward_end), ROW(backward_begin), ROW(backward_end), ROW(optimizer_begin), ROW(optimizer_end),
    ROW(clip_begin), ROW(clip_end), ROW(scaler_begin), ROW(scaler_end), ROW(enter), ROW(leave), ROW(epoch), ROW(trainer),
    ROW(in_trainer), ROW(active), ROW(off), ROW(restart),
    ROW(set_monitor), ROW(watch_line), ROW(on_line), ROW(on_return), ROW(on_call), ROW(on_c_return), ROW(on_c_raise),
    ROW(set_hook), ROW(set_torch), ROW(set_gpu), ROW(set_nvtx), {NULL, NULL, 0, NULL}};

struct al_python_method *alula_probe_python(const struct al_python *python) {
    if (python->bytes != sizeof *python)
        return NULL;
    py = *python;
    return methods;
}
