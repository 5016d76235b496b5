// SPDX-License-Identifier: Apache-2.0
// What a process tells of NCCL, and how its ranks reach each other as far as that can be seen. Pure.
#ifndef AL_TALLY_NCCL_H
#define AL_TALLY_NCCL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/collective.h"
#include "model/finding.h"

#define AL_TALLY_COMMUNICATORS 8 // the first ones are kept; all are counted

struct al_tally_communicator {
    uint64_t id;
    int32_t ranks, nodes, rank; // -1 not told
    char name[32];              // "" none
};

struct al_tally_nccl {
    int32_t version;     // 22809; 0 not told
    uint32_t interface_; // of its profiler plugins; 0: none was loaded
    uint32_t communicators, kept;
    struct al_tally_communicator communicator[AL_TALLY_COMMUNICATORS];
    uint64_t calls[AL_COLLECTIVE_COUNT], bytes[AL_COLLECTIVE_COUNT]; // enqueued; element count times element size
};

struct al_tally;
void al_tally_nccl_event(struct al_tally *t, uint16_t kind, uint16_t code, int32_t device, int64_t a, int64_t b);
void al_tally_nccl_name(struct al_tally *t, const char *text); // "id name", the id in hexadecimal digits
const char *al_collective_word(int collective);                // NCCL's own: "AllReduce"
// Whether calls are counted: a profiler plugin is in, and NCCL is none of 2.30, of which the probe asks for no call.
bool al_tally_nccl_counts(const struct al_tally *t);
// "2.28.9", by NCCL itself or by torch; false when neither told.
bool al_tally_nccl_version(const struct al_tally *t, char *out, uint32_t size);

enum al_transport {
    AL_TRANSPORT_UNKNOWN,
    AL_TRANSPORT_NONE,       // one rank
    AL_TRANSPORT_ONE_NODE,   // NVLink or PCIe between GPUs, or shared memory
    AL_TRANSPORT_INFINIBAND, // or RoCE: by verbs
    AL_TRANSPORT_SOCKETS,
    AL_TRANSPORT_PLUGIN // somebody's network plugin
};

struct al_tally_transport {
    enum al_transport kind;
    bool missed; // sockets although InfiniBand devices are there
    enum al_confidence confidence;
    char words[96]; // "InfiniBand", "sockets (InfiniBand devices present but not open)"
    char why[160];  // what it is told by
};
// nvlinks: links of the job's GPUs that are up, -1 not known.
void al_tally_transport(const struct al_tally *t, int nvlinks, struct al_tally_transport *ret);
const char *al_transport_word(enum al_transport kind); // as a key of reports: "infiniband"

#endif
