// SPDX-License-Identifier: Apache-2.0
// Which line runs: the stacks of another process's Python threads, read without stopping it. Nothing in the target is
// trusted; what cannot be read is marked, not dropped. One struct al_stack is used by one thread at a time.
#ifndef AL_STACK_STACK_H
#define AL_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct al_stack; // the sampler of one process

#define AL_STACK_DEPTH_DEFAULT 1024
#define AL_STACK_DEPTH_MOST 65536
#define AL_STACK_NO_CODE UINT32_MAX

enum al_stack_what {
    AL_STACK_STATE = 1 << 0,    // idle, waiting for the GIL, CPU time: from /proc/PID/task
    AL_STACK_GIL_ONLY = 1 << 1, // only the thread (of each interpreter) that holds the GIL
    AL_STACK_BUSY_ONLY = 1
        << 2, // idle threads are listed without frames (implies STATE); who waits for the GIL is not idle
    AL_STACK_NAMES = 1 << 3, // thread names as Python gives them, else the system's
    AL_STACK_MAIN_ONLY = 1 << 5, // the process's first thread alone
};

struct al_stack_settings {
    unsigned depth;     // frames a thread; 0: AL_STACK_DEPTH_DEFAULT
    const char *procfs; // NULL: "/proc"
};

struct al_stack_error { // one line for the user, with what to do
    char text[512];
};

// AL_E_DENIED (says which setting or capability), AL_E_GONE, AL_E_NOENT (no such process), AL_E_FORMAT (not a Python
// process, or one still starting), AL_E_UNSUPPORTED (an interpreter that alula does not know), AL_E_NOMEM, AL_E_IO.
int al_stack_open(pid_t pid, const struct al_stack_settings *settings, struct al_stack **ret,
                  struct al_stack_error *error);
void al_stack_free(struct al_stack *s);

struct al_stack_info {
    pid_t pid;
    uint32_t version; // as PY_VERSION_HEX: 0x030b07f0
    bool free_threaded;
    bool table;         // layout from alula's own tables (3.8 to 3.12), else from the interpreter's debug offsets
    bool gil_wait;      // whether "waits for the GIL" can be told
    const char *object; // file that holds the interpreter, as the target sees it
    const char *found;  // how: "dynsym", "symtab", "section", "cookie", "scan"
    uint64_t runtime;   // address of _PyRuntime
};
void al_stack_get_info(const struct al_stack *s, struct al_stack_info *ret);

enum al_stack_frame_kind {
    AL_STACK_PYTHON,
    AL_STACK_NATIVE, // merged in by src/unwind; code->filename is the object, code->name the symbol
};

struct al_stack_frame {
    uint64_t address;           // of the interpreter's frame (or the instruction, of a native one)
    uint64_t instr;             // address of the bytecode that runs; to 3.10 its offset in bytes (of a native frame 0)
    uint32_t code;              // for al_stack_code; AL_STACK_NO_CODE: it could not be read
    int32_t line, end_line;     // 0: not known
    int32_t column, end_column; // bytes from 0; -1: not known
    uint8_t kind;               // enum al_stack_frame_kind
    bool entry;    // native code called this frame: what lies below belongs to another run of the interpreter loop
    bool degraded; // something of it could not be read
    bool guessed;  // a native frame that was found without a rule
};

enum al_stack_thread_status {
    AL_STACK_OK,
    AL_STACK_UNSTABLE,   // it moved while it was read: frames are those that both readings share, from the root on
    AL_STACK_UNREADABLE, // memory went away under the reader: no frames
    AL_STACK_LEFT_OUT,   // not asked for (idle with BUSY_ONLY, no GIL with GIL_ONLY)
    AL_STACK_EMPTY,      // runs no Python code
};

enum al_stack_native { // of a thread's native frames
    AL_STACK_NATIVE_NONE,   // not asked for, or it has no Python frames either
    AL_STACK_NATIVE_MERGED, // they are among the frames
    AL_STACK_NATIVE_PART,   // merged from the innermost on: what lies further out could not be unwound, or is not read
    AL_STACK_NATIVE_ABSENT, // no picture of its registers could be had
    AL_STACK_NATIVE_UNFIT,  // they did not fit the Python frames: it moved between the two readings, the copy of its stack ended
                            // before them, or it runs more than one interpreter
};

enum al_stack_tristate { AL_STACK_UNKNOWN, AL_STACK_NO, AL_STACK_YES };

struct al_stack_thread {
    uint64_t id;     // as threading.get_ident() says
    uint64_t tstate; // address of its PyThreadState
    pid_t tid;       // here, in alula's own pid namespace; 0 not known
    int64_t interp;  // id of its interpreter: 0 the main one
    char name[64];
    uint8_t status;                     // enum al_stack_thread_status
    uint8_t holds_gil, waits_gil, idle; // enum al_stack_tristate
    uint8_t native;                     // enum al_stack_native
    bool main;                          // the process's first thread
    bool truncated;                     // deeper than settings.depth: the root's end is missing
    uint64_t cpu_ns;                    // its CPU time so far (STATE; 0 not known: also while it runs)
    uint32_t count;
    const struct al_stack_frame *frames; // innermost first
};

struct al_stack_sample {
    int64_t at_ns; // monotonic
    const struct al_stack_thread *threads;
    size_t count;
};

// All threads now; what: enum al_stack_what. *ret belongs to s and lives until the next call. AL_E_GONE when the
// process ended; AL_E_AGAIN: it was replaced by exec, or restarts: al_stack_open again; AL_E_DENIED, AL_E_NOMEM,
// AL_E_FORMAT (the list of threads cannot be read: the interpreter is going down, or its memory is damaged).
int al_stack_sample(struct al_stack *s, unsigned what, const struct al_stack_sample **ret);

// Walks thread i of the last sample anew, for a reader who knows that it stands (or ran) just now; tells who holds the GIL
// now, too, while its state, name and the rest stay as they were. AL_E_GONE: the thread has ended.
int al_stack_again(struct al_stack *s, size_t i, struct al_stack_thread *ret);
// A number for a native function, for frames that are merged into a sample. AL_STACK_NO_CODE: out of memory.
uint32_t al_stack_native_code(struct al_stack *s, const char *object, const char *symbol);

struct al_stack_code {
    const char *filename, *name, *qualname; // UTF-8; qualname is name before 3.11; never NULL
    int32_t first_line;
};
// The same function of the same file has one number as long as s lives. NULL: no such number.
const struct al_stack_code *al_stack_code(const struct al_stack *s, uint32_t code);

struct al_stack_counts {                          // since open
    uint64_t samples, threads;                    // calls; threads walked or known to be unchanged
    uint64_t ok, unstable, unreadable, unchanged; // of threads: unchanged were not read again (they did not run)
    uint64_t degraded_frames, truncated, codes, names_failed, reads;
};
void al_stack_get_counts(const struct al_stack *s, struct al_stack_counts *ret);

#endif
