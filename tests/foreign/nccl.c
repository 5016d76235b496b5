// SPDX-License-Identifier: Apache-2.0
// The part of libnccl.so.2 that deals with a profiler plugin, for every interface that it has had. Descriptions are
// written at the offsets of NVIDIA's headers, not with alula's own structs, and filled with rubbish elsewhere.
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 1, COLL = 2, P2P = 4 };

struct table {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

static const struct table *plugin;
static void *library, *context;
static int interface, mask;

int ncclGetVersion(int *version) {
    const char *told = getenv("ALULA_STANDIN_NCCL");
    *version = told ? atoi(told) : 22809;
    return 0;
}

// Newest interface that this version knows.
static int newest(int version) {
    static const int since[] = {0, 22300, 22400, 22600, 22700, 22800, 22900};
    int found = 0;
    for (int i = 1; i <= 6; i++)
        if (version >= since[i])
            found = i;
    return found;
}

static void load(int version) {
    char symbol[32];
    if (plugin || !(library = nccl_open_plugin(version)))
        return;
    for (interface = newest(version); interface >= 1 && !plugin; interface--) {
        (void)snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", interface);
        plugin = dlsym(library, symbol);
        if (plugin)
            break;
        if (version < 22400)
            break; // knows one interface alone
    }
    if (!plugin) {
        (void)dlclose(library);
        library = NULL;
    }
}

typedef int init_1(void **, int *);
typedef int init_4(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int init_5(void **, uint64_t, int *, const char *, int, int, int, void *);

int standin_nccl_open(uint64_t id, const char *name, int nodes, int ranks, int rank) {
    int version, error;
    (void)ncclGetVersion(&version);
    load(version);
    if (!plugin)
        return -1;
    union {
        void *address;
        init_1 *one;
        init_4 *four;
        init_5 *five;
    } init = {plugin->init};
    mask = 0;
    if (interface <= 3)
        error = init.one(&context, &mask);
    else if (interface == 4)
        error = init.four(&context, &mask, name, id, nodes, ranks, rank, NULL);
    else
        error = init.five(&context, id, &mask, name, nodes, ranks, rank, NULL);
    return error ? -2 : mask;
}

static void put(unsigned char *event, size_t at, const void *value, size_t size) {
    memcpy(event + at, value, size);
}

static uint8_t number_of(const char *word, const char *const *list, uint8_t count) {
    for (uint8_t i = 0; i < count; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return 0xff;
}

static void describe(unsigned char *event, int type, uint64_t id, const char *function, const char *kind, size_t count) {
    static const char *const functions[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv",
                                            "Send", "Recv"};
    static const char *const kinds[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
                                        "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16"};
    const char *name = "standin";
    uint8_t f = number_of(function, functions, 8), k = number_of(kind, kinds, 10);
    int p2p = type == P2P;
    if (interface <= 3) {
        put(event, 24, &name, sizeof name);
        put(event, 32, &id, sizeof id);
        if (interface == 1) {
            put(event, p2p ? 40 : 48, &f, sizeof f);
            put(event, p2p ? 56 : 84, &k, sizeof k);
        } else {
            put(event, p2p ? 40 : 48, &function, sizeof function);
            put(event, p2p ? 56 : 88, &kind, sizeof kind);
        }
        put(event, p2p ? 64 : 72, &count, sizeof count);
        return;
    }
    put(event, p2p ? 24 : 32, &function, sizeof function);
    put(event, p2p ? 40 : 72, &kind, sizeof kind);
    put(event, p2p ? 48 : 56, &count, sizeof count);
}

static void *start(int type, uint64_t id, const char *function, const char *kind, size_t count) {
    unsigned char event[256];
    void *handle = NULL;
    memset(event, 0xa5, sizeof event);
    memset(event, 0, interface >= 5 ? 8 : 1);
    event[0] = (unsigned char)type;
    if (type > 0xff)
        event[1] = (unsigned char)(type >> 8);
    if (type == COLL || type == P2P)
        describe(event, type, id, function, kind, count);
    (void)plugin->start(context, &handle, event);
    return handle;
}

static void stop(void *handle) {
    if (handle)
        (void)plugin->stop(handle);
}

void standin_nccl_call(uint64_t id, const char *function, const char *type, size_t count) {
    int p2p = strcmp(function, "Send") == 0 || strcmp(function, "Recv") == 0;
    if (!plugin || !(mask & (COLL | P2P)))
        return;
    void *api = interface >= 5 ? start(1 << 8, 0, NULL, NULL, 0) : NULL; // the call's own group
    if (api)
        (void)plugin->record(api, 23, NULL);
    void *group = start(GROUP, 0, NULL, NULL, 0), *call = NULL;
    if (group || interface >= 5) // older NCCL tells of no call without its group
        if (mask & (p2p ? P2P : COLL))
            call = start(p2p ? P2P : COLL, id, function, type, count);
    stop(call);
    stop(group);
    stop(api);
}

void standin_nccl_close(void) {
    if (!plugin)
        return;
    (void)plugin->finalize(context);
    plugin = NULL;
    (void)dlclose(library); // as NCCL does with its last communicator
}
