// SPDX-License-Identifier: Apache-2.0
// The way in through NCCL: a profiler plugin (NCCL_PROFILER_PLUGIN, NCCL 2.23 and newer) that counts what NCCL is called
// for, and no more. It asks for the events of a call on the host alone, never for those of kernels, proxies or networks,
// which cost, and keeps nothing of NCCL's: no pointer outlives the call it came with. A call means enqueued, not done; what
// a CUDA graph replays is not told again.
//
// init never fails: NCCL 2.23 goes on to use what it has just thrown away then.
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "model/collective.h"
#include "model/event.h"
#include "probe/dynamic.h"
#include "probe/nccl_abi.h"
#include "probe/probe.h"

#define EVERY_NS ((int64_t)1000000000) // of the totals of one function
#define COMMUNICATORS 16               // whose ids interfaces 1 to 3 tell with each event
#define ELEMENT_UNKNOWN 0
#define NAME_MOST 64

static struct {
    _Atomic uint64_t calls, bytes, told;
    _Atomic int64_t told_ns;
} total[AL_COLLECTIVE_COUNT];
static _Atomic uint64_t known[COMMUNICATORS];
static _Atomic int32_t version; // of NCCL
static char group_handle, context_of_all; // for their addresses

static const char *const words[AL_COLLECTIVE_COUNT] = {
#define X(name, word) word,
    AL_COLLECTIVES(X)
#undef X
};

// ncclDataType_t: names since interface 2, numbers in 1.
static const struct {
    const char *name;
    uint8_t size;
} elements[] = {{"ncclInt8", 1},    {"ncclUint8", 1},   {"ncclInt32", 4},   {"ncclUint32", 4},
                {"ncclInt64", 8},   {"ncclUint64", 8},  {"ncclFloat16", 2}, {"ncclFloat32", 4},
                {"ncclFloat64", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};
#define ELEMENTS (sizeof elements / sizeof *elements)

static int64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t size_of_number(uint8_t number) {
    return number < ELEMENTS ? elements[number].size : ELEMENT_UNKNOWN;
}

static uint64_t size_of_name(const char *name) {
    for (size_t i = 0; name && i < ELEMENTS; i++)
        if (strcmp(name, elements[i].name) == 0)
            return elements[i].size;
    return ELEMENT_UNKNOWN;
}

static enum al_collective of_name(const char *name) {
    for (int i = 0; name && i < AL_COLLECTIVE_UNNAMED; i++)
        if (strcmp(name, words[i]) == 0)
            return (enum al_collective)i;
    return AL_COLLECTIVE_UNNAMED;
}

static enum al_collective of_number(uint8_t number) { // interface 1 counts as enum al_collective does
    return number <= AL_COLLECTIVE_RECV ? (enum al_collective)number : AL_COLLECTIVE_UNNAMED;
}

static void tell_total(enum al_collective what, int64_t now) {
    uint64_t calls = atomic_load(&total[what].calls);
    if (calls == atomic_load(&total[what].told))
        return;
    atomic_store(&total[what].told_ns, now);
    atomic_store(&total[what].told, calls);
    (void)alula_probe_mark(AL_EVENT_COLLECTIVE, what, -1, (int64_t)calls, (int64_t)atomic_load(&total[what].bytes));
}

static void tell_totals(void) {
    int64_t now = now_ns();
    for (int i = 0; i < AL_COLLECTIVE_COUNT; i++)
        tell_total((enum al_collective)i, now);
}

static void count_call(enum al_collective what, uint64_t bytes) {
    int64_t now = now_ns();
    (void)atomic_fetch_add_explicit(&total[what].bytes, bytes, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&total[what].calls, 1, memory_order_relaxed);
    if (now - atomic_load_explicit(&total[what].told_ns, memory_order_relaxed) >= EVERY_NS)
        tell_total(what, now);
}

// NCCL's own version, from the library that called: a process may hold several.
static int32_t find_version(const void *caller) {
    Dl_info where;
    int (*get)(int *) = NULL;
    int number = 0;
    if (!al_probe_has_loader() || !dladdr(caller, &where) || !where.dli_fname)
        return 0;
    void *library = dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return 0;
    *(void **)(&get) = dlsym(library, "ncclGetVersion");
    if (get && get(&number) != 0)
        number = 0;
    (void)dlclose(library);
    return number > 0 ? (int32_t)number : 0;
}

static void tell_name(uint64_t id, const char *name) {
    static const char digits[] = "0123456789abcdef";
    char text[17 + NAME_MOST];
    size_t len = strnlen(name, NAME_MOST);
    for (int i = 0; i < 16; i++)
        text[i] = digits[id >> (60 - 4 * i) & 15];
    text[16] = ' ';
    memcpy(text + 17, name, len);
    (void)alula_probe_text(AL_TEXT_COMMUNICATOR, text, 17 + len);
}

static void tell_communicator(unsigned interface, uint64_t id, const char *name, int nodes, int ranks, int rank) {
    int64_t size = ranks > 0 && ranks < 1 << 24 && nodes >= 0 && nodes < 1 << 16 && rank >= 0 && rank < ranks
                       ? ranks | (int64_t)nodes << 24 | (int64_t)rank << 40
                       : 0;
    (void)alula_probe_mark(AL_EVENT_COMMUNICATOR, interface, atomic_load(&version), (int64_t)id, size);
    if (name && name[0])
        tell_name(id, name);
}

// Interfaces 1 to 3 tell of a communicator only with its events.
static void meet(unsigned interface, uint64_t id, const char *name) {
    for (int i = 0; i < COMMUNICATORS; i++) {
        uint64_t empty = 0;
        if (atomic_load_explicit(&known[i], memory_order_relaxed) == id)
            return;
        if (atomic_compare_exchange_strong(&known[i], &empty, id)) {
            tell_communicator(interface, id, name, 0, 0, 0);
            return;
        }
        if (empty == id)
            return;
    }
}

static int start_1(void *context, void **handle, const struct al_nccl_event *e) {
    (void)context;
    *handle = e->type == AL_NCCL_GROUP ? &group_handle : NULL; // without one no call of the group is told
    if (e->type == AL_NCCL_COLL) {
        meet(1, e->coll_1.communicator, e->coll_1.name);
        count_call(of_number(e->coll_1.function), e->coll_1.count * size_of_number(e->coll_1.type));
    } else if (e->type == AL_NCCL_P2P) {
        meet(1, e->p2p_1.communicator, e->p2p_1.name);
        count_call(of_number(e->p2p_1.function), e->p2p_1.count * size_of_number(e->p2p_1.type));
    }
    return 0;
}

static int start_2(void *context, void **handle, const struct al_nccl_event *e) {
    (void)context;
    *handle = e->type == AL_NCCL_GROUP ? &group_handle : NULL;
    if (e->type == AL_NCCL_COLL) {
        meet(2, e->coll_2.communicator, e->coll_2.name);
        count_call(of_name(e->coll_2.function), e->coll_2.count * size_of_name(e->coll_2.type));
    } else if (e->type == AL_NCCL_P2P) {
        meet(2, e->p2p_2.communicator, e->p2p_2.name);
        count_call(of_name(e->p2p_2.function), e->p2p_2.count * size_of_name(e->p2p_2.type));
    }
    return 0;
}

static int start_4(void *context, void **handle, const struct al_nccl_event *e) {
    (void)context;
    *handle = e->type == AL_NCCL_GROUP ? &group_handle : NULL;
    if (e->type == AL_NCCL_COLL)
        count_call(of_name(e->coll_4.function), e->coll_4.count * size_of_name(e->coll_4.type));
    else if (e->type == AL_NCCL_P2P)
        count_call(of_name(e->p2p_4.function), e->p2p_4.count * size_of_name(e->p2p_4.type));
    return 0;
}

static int stop(void *handle) {
    (void)handle;
    return 0;
}

static int record(void *handle, int state, void *arguments) {
    (void)handle;
    (void)state;
    (void)arguments;
    return 0;
}

static int finalize(void *context) {
    (void)context;
    tell_totals();
    return 0;
}

// The events to ask for. None where nobody counts them: in a fork child, with no collector; and none of 2.30, in which
// calls between two ranks crash with a plugin (NVIDIA/nccl#2112).
static int wanted(void) {
    int32_t nccl = atomic_load(&version);
    if ((alula_probe_state() & (AL_PROBE_STARTED | AL_PROBE_INERT)) != AL_PROBE_STARTED)
        return 0;
    return nccl >= 23000 && nccl < 23100 ? 0 : AL_NCCL_COLL | AL_NCCL_P2P;
}

static void begin(void **context, int *mask, const void *caller) {
    al_probe_introduce(); // a program whose CUDA came up without alula
    if (!atomic_load(&version))
        atomic_store(&version, find_version(caller));
    *context = &context_of_all;
    *mask = wanted();
}

static int init_1(void **context, int *mask) {
    begin(context, mask, __builtin_return_address(0));
    return 0;
}

static int init_4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank, void *log) {
    (void)log;
    begin(context, mask, __builtin_return_address(0));
    tell_communicator(4, id, name, nodes, ranks, rank);
    return 0;
}

static int init_5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log) {
    (void)log;
    begin(context, mask, __builtin_return_address(0));
    tell_communicator(5, id, name, nodes, ranks, rank);
    return 0;
}

__attribute__((destructor)) static void at_exit(void) {
    tell_totals();
}

#define TABLE(number, which, first)                                                                                    \
    AL_PROBE_EXPORT extern const struct al_nccl_profiler ncclProfiler_v##number;                                       \
    const struct al_nccl_profiler ncclProfiler_v##number = {.name = "alula",                                           \
                                                            .init_##which = init_##which,                              \
                                                            .start = start_##first,                                    \
                                                            .stop = stop,                                              \
                                                            .record = record,                                          \
                                                            .finalize = finalize}
TABLE(1, 1, 1);
TABLE(2, 1, 2);
TABLE(3, 1, 2);
TABLE(4, 4, 4);
TABLE(5, 5, 4);
TABLE(6, 5, 4);
