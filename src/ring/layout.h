// SPDX-License-Identifier: Apache-2.0
// How the memfd is laid out: a header page, a page a lane for its indices, then the lanes' records.
#ifndef AL_RING_LAYOUT_H
#define AL_RING_LAYOUT_H

#include "ring/ring.h"

#define AL_RING_MAGIC "ALRING1"
#define AL_RING_PAGE 4096u
#define AL_RING_CACHE_LINE 64

struct al_ring_header {
    char magic[8];
    uint32_t version, features;
    uint32_t lanes, records; // records a lane, a power of two
    uint32_t record_bytes;
    int32_t pid;
    uint64_t start_ticks;
    int64_t monotonic_ns, realtime_ns;
    _Atomic uint64_t lost; // of threads without a lane
    _Atomic uint32_t request; // bits that the reader sets and the writer takes; with AL_RING_REQUESTS
};

// head and tail only grow (2^64 records never pass); an index into the lane is one of them modulo its size.
struct al_ring_indices {
    _Atomic uint64_t head; // the writer's: records published
    _Atomic uint64_t lost;
    _Atomic int32_t tid;
    _Alignas(AL_RING_CACHE_LINE) _Atomic uint64_t tail; // the reader's: records taken
};

static inline size_t al_ring_indices_offset(uint32_t lane) {
    return AL_RING_PAGE * (size_t)(1 + lane);
}

static inline size_t al_ring_records_offset(uint32_t lanes, uint32_t records, uint32_t lane) {
    return AL_RING_PAGE * (size_t)(1 + lanes) + (size_t)lane * records * sizeof(struct al_ring_record);
}

static inline size_t al_ring_size(uint32_t lanes, uint32_t records) {
    return al_ring_records_offset(lanes, records, lanes);
}

// Records that hold this many bytes of text.
static inline uint32_t al_ring_text_records(size_t length) {
    return (uint32_t)((length + sizeof(struct al_ring_record) - 1) / sizeof(struct al_ring_record));
}

_Static_assert(sizeof(struct al_ring_record) == 32, "a record is 32 bytes on every ABI");
_Static_assert(sizeof(struct al_ring_hello) == 64, "the greeting is 64 bytes on every ABI");
_Static_assert(sizeof(struct al_ring_header) <= AL_RING_PAGE && sizeof(struct al_ring_indices) <= AL_RING_PAGE, "a page");
_Static_assert((AL_RING_RECORDS & (AL_RING_RECORDS - 1)) == 0, "indices are taken by a mask");

#endif
