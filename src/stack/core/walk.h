// SPDX-License-Identifier: Apache-2.0
// One thread's chain of frames, copied while the thread may run. All frames that the walk needs are read twice by one
// gathered read, and between the two what says which is the innermost; where both copies say the same of the chain from
// there on, it stood so at that moment. The innermost frames are read last the first time and first the second time: what
// changes most has the least time to do so. What is to be
// read is known from the walk before; what was missing is learned and the read repeated. No allocation, no lock, no
// stdio: the same code walks the own process's threads.
#ifndef AL_STACK_CORE_WALK_H
#define AL_STACK_CORE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/core/layout.h"
#include "stack/core/memory.h"

#define AL_SPANS_MOST 480        // twice this stays below IOV_MAX: one call
#define AL_WALK_BYTES (1u << 20) // of a copy
#define AL_WALK_ROUNDS 5         // readings until all that is needed is known
#define AL_WATCH_MOST 264u

struct al_span {
    uint64_t address;
    uint32_t size, at;
    uint64_t high;  // end of what was last needed of it
    uint64_t limit; // end of the interpreter's chunk of frames that it is a part of; 0: it is none
    uint16_t rank;  // the how manieth the last walk needed: the innermost come first
    uint8_t idle;   // walks since it was needed
    bool pointer;   // to the innermost frame, or to what points there: read once, between the passes over the frames
};

// What to read of one thread; kept from sample to sample by the caller. Zeroed: nothing known.
struct al_plan {
    struct al_span *spans;       // in the order of addresses; behind them those that the last walk missed
    uint32_t count, missed, cap; // cap: at most AL_SPANS_MOST
    uint32_t total;              // bytes of one copy
    uint32_t last;               // index of the span that was last found: the next frame mostly lies there, too
    uint16_t touched;            // spans that this walk needed so far
    bool grown;                  // a chunk's part is larger from the next reading on
    uint64_t thread;
    uint64_t root, root_code;   // where the thread's last good chain ended
    uint64_t maybe, maybe_code; // another end, seen once
};

struct al_raw_frame {
    uint64_t address, code, instr;
    uint32_t tlbc;
    bool entry; // called by native code
};

enum al_walk_status {
    AL_WALK_OK,
    AL_WALK_UNSTABLE, // frames are the common part, from the root on
    AL_WALK_UNREADABLE,
    AL_WALK_EMPTY,
    AL_WALK_MORE, // the plan is full: the caller enlarges it (up to AL_SPANS_MOST) and asks again
};

// What al_plan_read would read, read already: two copies as the plan lays them out, each with what is watched behind it.
struct al_copies {
    const unsigned char *first, *second; // NULL: none
    uint64_t watch;
};

struct al_walk {
    const struct al_layout *layout;
    const struct al_memory *memory;
    unsigned char *buffer; // of 2 * AL_WALK_BYTES (or less: buffer_size)
    size_t buffer_size;
    struct al_raw_frame *frames, *second; // depth each
    uint32_t depth;
    uint64_t watch; // copied along (0: nothing), for the holder of the GIL: watch_size bytes, at most AL_WATCH_MOST
    uint32_t watch_size;
    struct al_copies ahead; // for the first reading
    // Results:
    uint32_t count;
    bool truncated, damaged; // damaged: the chain broke off before the root
    const unsigned char *watched; // as first read; NULL: not
    bool watched_same;
    uint32_t reads;
};

// Of two chains, the number of frames from the root on that are the same; the instruction of the innermost may move.
uint32_t al_walk_common(const struct al_raw_frame *a, uint32_t a_count, const struct al_raw_frame *b, uint32_t b_count);
enum al_walk_status al_walk_thread(struct al_walk *w, struct al_plan *plan, uint64_t thread);

#endif
