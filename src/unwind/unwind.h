// SPDX-License-Identifier: Apache-2.0
// Native frames of another process's thread, from its registers and a copy of its stack. Tables and symbols are read with
// elfutils (libdw, opened at run time); rules are kept by instruction, so that a known chain costs no look-up there.
// The target's files and memory are not trusted. One struct al_unwind is used by one thread at a time.
#ifndef AL_UNWIND_UNWIND_H
#define AL_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct al_unwind; // of one process: its objects, their tables and symbols

#define AL_UNWIND_REGS 33 // by DWARF's numbers of this machine: x86-64 0 to 16 (16 the instruction), aarch64 0 to 32 (31 sp, 32 pc)
#define AL_UNWIND_DEPTH_MOST 1024u

struct al_unwind_error { // one line for the user, with what to do
    char text[512];
};

// AL_E_UNSUPPORTED: no libdw here (the text says which package), or another machine's code; AL_E_DENIED, AL_E_GONE, AL_E_NOENT, AL_E_NOMEM.
// procfs NULL: "/proc". Files are opened through the target's own root, or by /proc/PID/map_files when they were deleted.
int al_unwind_open(pid_t pid, const char *procfs, struct al_unwind **ret, struct al_unwind_error *error);
void al_unwind_free(struct al_unwind *u);
// The object that holds the interpreter, as the target sees it, before anything is unwound: parts of its loop are known without
// a name, too.
void al_unwind_set_interpreter(struct al_unwind *u, const char *object);

struct al_unwind_input {
    uint64_t regs[AL_UNWIND_REGS];
    uint64_t known;             // bit i: regs[i] is known; instruction and stack pointer always are
    const unsigned char *stack; // a copy from the stack pointer up; may be NULL with size 0
    size_t size;
    bool stopped;               // the thread sleeps or is stopped: what the copy lacks may be read from the process
};

enum al_unwind_kind {
    AL_UNWIND_CODE,        // native code
    AL_UNWIND_INTERPRETER, // a run of CPython's evaluation loop (_PyEval_EvalFrameDefault, its split parts; a tail-call
                           // interpreter's _TAIL_CALL_… and the function that entered it are one frame, of the former's name)
    AL_UNWIND_NAMED,       // named by a perf map (/tmp/perf-PID.map): code made at run time
    AL_UNWIND_UNKNOWN,     // in no object
};

struct al_unwind_frame {
    uint64_t address; // the instruction (of callers: after the call)
    uint32_t symbol;  // for al_unwind_symbol
    uint8_t kind;     // enum al_unwind_kind
    bool guessed;     // found without a rule, or by one whose register was not known (guess.c): shown marked. Its callers
                      // are found from it by their rules, and are not marked
};

enum al_unwind_status {
    AL_UNWIND_WHOLE, // down to the thread's start
    AL_UNWIND_CUT,   // the copy of the stack ended, or the depth was reached: callers are missing
    AL_UNWIND_STUCK, // no rule for an instruction: callers are missing
};

struct al_unwind_stack {
    const struct al_unwind_frame *frames; // innermost first; belongs to u until the next call
    uint32_t count;
    uint8_t status; // enum al_unwind_status
};

// Always gives what could be found, at least the innermost frame. AL_E_NOMEM.
int al_unwind_thread(struct al_unwind *u, const struct al_unwind_input *in, struct al_unwind_stack *ret);

struct al_unwind_symbol { // UTF-8, cleaned; never NULL
    const char *name;     // demangled; "0x1234" from the object's start when it has no symbol there (its function's beginning,
                          // where that is known); "[signal]" where a handler was called, "[unknown]" in no object
    const char *object;   // path as the target sees it; "" none
    const char *file;     // source file from DWARF, "" not known
    int32_t line;         // 0 not known
};
// One number a function (and line where DWARF tells it); lives as long as u. NULL: no such number.
const struct al_unwind_symbol *al_unwind_symbol(const struct al_unwind *u, uint32_t symbol);

struct al_unwind_counts {
    uint64_t stacks, frames, cut, stuck, guessed, rules, rules_reused, symbols, objects;
};
void al_unwind_get_counts(const struct al_unwind *u, struct al_unwind_counts *ret);

#endif
