// SPDX-License-Identifier: Apache-2.0
// What ranks do together, as NCCL counts it: codes of COLLECTIVE records.
#ifndef AL_MODEL_COLLECTIVE_H
#define AL_MODEL_COLLECTIVE_H

// NCCL's own names of what it is called for.
#define AL_COLLECTIVES(X)                                                                                              \
    X(BROADCAST, "Broadcast")                                                                                          \
    X(REDUCE, "Reduce")                                                                                                \
    X(ALL_GATHER, "AllGather")                                                                                         \
    X(REDUCE_SCATTER, "ReduceScatter")                                                                                 \
    X(ALL_REDUCE, "AllReduce")                                                                                         \
    X(SEND_RECV, "SendRecv")                                                                                           \
    X(SEND, "Send")                                                                                                    \
    X(RECV, "Recv")                                                                                                    \
    X(ALL_TO_ALL, "AlltoAll")                                                                                          \
    X(SCATTER, "Scatter")                                                                                              \
    X(GATHER, "Gather")                                                                                                \
    X(UNNAMED, "other")

enum al_collective {
#define X(name, word) AL_COLLECTIVE_##name,
    AL_COLLECTIVES(X)
#undef X
        AL_COLLECTIVE_COUNT
};

#endif
