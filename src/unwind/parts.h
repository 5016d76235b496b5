// SPDX-License-Identifier: Apache-2.0
// The unwinder's inside.
#ifndef AL_UNWIND_PARTS_H
#define AL_UNWIND_PARTS_H

#include "unwind/objects.h"
#include "unwind/perfmap.h"
#include "unwind/texts.h"

#define AL_KNOWN_MOST (1u << 20) // instructions that are kept; then all are forgotten

enum al_call { AL_CALL_NOT_TRIED, AL_CALL_NONE, AL_CALL_DIRECT, AL_CALL_INDIRECT };

struct al_known { // what was found out about an instruction
    uint64_t address; // looked up: of callers one byte before the return address; 0: free
    uint64_t start;   // of its function, by its call frame information; 0 not known
    uint64_t target;  // of the call before address + 1
    struct al_dso *dso; // NULL: in no object
    uint32_t rule;    // number + 1; 0: none
    uint32_t symbol;
    uint8_t kind; // enum al_unwind_kind
    uint8_t call; // enum al_call
    bool outermost; // a start function that has no tables
    bool tail_call; // of the interpreter that is made of many functions
};

struct al_unwind {
    pid_t pid;
    char procfs[128];
    struct al_remote remote;
    struct al_memory memory;
    struct al_objects objects;
    struct al_rules rules;
    struct al_texts texts;
    struct al_known *known; // a hash table
    uint32_t known_count, known_cap;
    struct al_perf_map perf_map;
    int64_t read_ns, perf_map_ns; // when the mappings and the perf map were read
    struct al_unwind_frame frames[AL_UNWIND_DEPTH_MOST];
    struct al_unwind_counts counts;
    struct al_copy copy;
    char interpreter[512]; // object that holds the interpreter; "" not told
};

// known.c: NULL: out of memory. The pointer is good until the next call.
const struct al_known *al_known_get(struct al_unwind *u, uint64_t address);
void al_known_clear(struct al_unwind *u);
// Reads the mappings again where that is some time ago.
void al_known_refresh(struct al_unwind *u, int64_t older_than_ns);

// split.c: whether the function that begins there is a nameless part of the interpreter's loop.
bool al_is_loop_part(struct al_unwind *u, struct al_dso *d, uint64_t start);

// guess.c: a frame whose registers do not suffice. See there for how.
// The CFA of the function `k` (with a rule) by the return address on its stack; false: nothing fits.
bool al_guess_cfa(struct al_unwind *u, const struct al_known *k, const struct al_regs *regs, uint64_t *ret_cfa);
// Where the linkage stub that begins at `stub` has its target's address; 0: it is none.
uint64_t al_stub_slot(struct al_unwind *u, uint64_t stub);
// Makes *regs the caller's of a function without a rule. called_nobody: it runs, or was interrupted.
bool al_guess_caller(struct al_unwind *u, const struct al_known *k, struct al_regs *regs, bool called_nobody);

#define AL_READ_AGAIN_NS 5000000000LL // mappings

#endif
