// SPDX-License-Identifier: Apache-2.0
// What NCCL's profiler plugins are called with, as far as it is read here: interfaces 1 to 6 (NCCL 2.23 to 2.31). An
// event's description begins alike in all of them; only the collective's part moved. In 1 to 4 `type` is one byte, and
// the bytes behind it hold nothing.
#ifndef AL_PROBE_NCCL_ABI_H
#define AL_PROBE_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { AL_NCCL_GROUP = 1 << 0, AL_NCCL_COLL = 1 << 1, AL_NCCL_P2P = 1 << 2 };

struct al_nccl_coll_1 {
    const char *name;
    uint64_t communicator, sequence;
    uint8_t function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    uint8_t type;
};

struct al_nccl_p2p_1 {
    const char *name;
    uint64_t communicator;
    uint8_t function;
    void *buffer;
    uint8_t type;
    size_t count;
};

struct al_nccl_coll_2 { // 2 and 3
    const char *name;
    uint64_t communicator, sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type;
};

struct al_nccl_p2p_2 { // 2 and 3
    const char *name;
    uint64_t communicator;
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
};

struct al_nccl_coll_4 { // from 4 on
    uint64_t sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type;
};

struct al_nccl_p2p_4 { // from 4 on
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
};

struct al_nccl_event {
    uint8_t type; // enum above; the lowest byte of interface 5's 64 bits
    uint8_t rest[7];
    void *parent;
    int rank;
    union {
        struct al_nccl_coll_1 coll_1;
        struct al_nccl_coll_2 coll_2;
        struct al_nccl_coll_4 coll_4;
        struct al_nccl_p2p_1 p2p_1;
        struct al_nccl_p2p_2 p2p_2;
        struct al_nccl_p2p_4 p2p_4;
    };
};

_Static_assert(offsetof(struct al_nccl_event, coll_1) == 24, "a description's part begins behind type, parent, rank");
_Static_assert(offsetof(struct al_nccl_coll_1, count) == 48 && offsetof(struct al_nccl_coll_1, type) == 60, "interface 1");
_Static_assert(offsetof(struct al_nccl_coll_2, count) == 48 && offsetof(struct al_nccl_coll_2, type) == 64, "interface 2");
_Static_assert(offsetof(struct al_nccl_coll_4, count) == 32 && offsetof(struct al_nccl_coll_4, type) == 48, "interface 4");
_Static_assert(offsetof(struct al_nccl_p2p_1, type) == 32 && offsetof(struct al_nccl_p2p_1, count) == 40, "interface 1");
_Static_assert(offsetof(struct al_nccl_p2p_2, type) == 32 && offsetof(struct al_nccl_p2p_2, count) == 40, "interface 2");
_Static_assert(offsetof(struct al_nccl_p2p_4, type) == 16 && offsetof(struct al_nccl_p2p_4, count) == 24, "interface 4");

// The table that ncclProfiler_vN is. init's arguments differ; every function answers 0 for success.
struct al_nccl_profiler {
    const char *name;
    union {
        int (*init_1)(void **context, int *mask); // 1 to 3
        int (*init_4)(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank, void *log);
        int (*init_5)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, void *log);
    };
    int (*start)(void *context, void **handle, const struct al_nccl_event *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *arguments);
    int (*finalize)(void *context);
};

#endif
