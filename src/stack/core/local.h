// SPDX-License-Identifier: Apache-2.0
// The own process's Python stacks, for code that was loaded into it: hooks of malloc, callbacks of CUPTI, handlers of
// signals. No GIL, no lock, no allocation, no stdio, and of the interpreter's functions only the one that gives the
// calling thread's own state. Everything but al_local_init may be called in a signal handler.
#ifndef AL_STACK_CORE_LOCAL_H
#define AL_STACK_CORE_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/core/layout.h"
#include "stack/core/memory.h"

// How the thread's frames are read.
enum al_local_how {
    AL_LOCAL_PLAIN,   // loads: in calls that the thread makes itself (hooks, callbacks), while which its frames stand still
    AL_LOCAL_GUARDED, // through the kernel: in signal handlers, which may come between two stores of the interpreter
};

struct al_local {
    struct al_layout layout;
    uint32_t version;           // PY_VERSION_HEX, as far as known
    uint64_t runtime;           // address of _PyRuntime
    uint64_t code_type;         // of PyCode_Type; 0: not known
    void *(*own_thread)(void);  // PyGILState_GetThisThreadState; NULL: it is looked for in the interpreter's lists
    struct al_memory guarded;   // this process's memory by process_vm_readv: an address that is not mapped is told
};

struct al_local_frame {
    uint64_t code, instr; // what a stack is known by; instr as in struct al_raw_frame
    uint32_t tlbc;        // of free-threaded builds: which copy of the bytecode instr lies in
    bool entry;           // called by native code
};

struct al_local_stack {
    struct al_local_frame *frames; // the caller's, of cap: innermost first
    uint32_t cap, count;
    bool truncated; // deeper than cap: the root's end is missing
    bool damaged;   // the chain broke off before the root
};

typedef void *al_local_symbol_fn(const char *name); // as dlsym(RTLD_DEFAULT, name)

// Finds the interpreter by the names that it exports. AL_E_NOENT: none does (one that is embedded without exports, or loaded
// out of sight: al_local_use), AL_E_AGAIN: it is not up yet, AL_E_UNSUPPORTED: one that alula does not know, AL_E_DENIED: a
// seccomp filter forbids process_vm_readv.
int al_local_init(struct al_local *ret, al_local_symbol_fn *symbol);
// The same for one that was found otherwise (al_find_python).
void al_local_use(struct al_local *ret, const struct al_layout *layout, uint32_t version, uint64_t runtime);

// The calling thread's stack. 0: none (it runs no Python code, or the interpreter is going down); else the number of
// frames. errno is left as it was.
uint32_t al_local_stack(const struct al_local *l, enum al_local_how how, struct al_local_stack *s);
// The same of a thread state's address. Another thread's is only a hint of what it ran: read it by al_walk_thread with
// l->guarded where it must be of one moment.
uint32_t al_local_walk(const struct al_local *l, enum al_local_how how, uint64_t thread, struct al_local_stack *s);

struct al_local_place {
    char file[512], function[256]; // UTF-8, cut; "?": not readable. function: the qualified name from 3.11 on
    int32_t first_line, line;      // 0: not known
};
// What a frame is, for when it is seen the first time; always by guarded reads. scratch: holds the code's line table
// meanwhile; where that is larger, the line stays 0. False: its code is none (any more): all is "?" and 0.
bool al_local_place(const struct al_local *l, const struct al_local_frame *f, void *scratch, size_t size,
                    struct al_local_place *ret);

#endif
