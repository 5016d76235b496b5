// SPDX-License-Identifier: Apache-2.0
// alula dump: reading one process, the two ways to print it, and a whole job whose ranks are compared.
#ifndef AL_CLI_DUMP_H
#define AL_CLI_DUMP_H

#include "base/buf.h"
#include "cli/stacks.h"
#include "model/rank.h"
#include "stack/async.h"
#include "stack/differ.h"
#include "stack/locals.h"
#include "unwind/native.h"

struct al_dump {
    const struct al_stacks_process *process;
    const struct al_stack *stack; // NULL: it could not be read, as error says
    const struct al_stack_sample *sample;
    int64_t at_realtime_ns;
    const char *error;
    struct al_stack_locals **locals; // of each thread of the sample; NULL: not asked for
    struct al_async tasks;           // asyncio's
};

// A sample of all threads; those that moved are read again. out->process is set by the caller. With *s NULL the process is opened;
// on an error it is NULL again and the reason stands in *error.
int al_dump_read(const struct al_stack_settings *settings, struct al_stack **s, struct al_dump *out, struct al_stack_error *error);

struct al_dump_native {
    struct al_native *native;
    struct al_stack_sample sample;
    struct al_stack_thread *threads;
};
// Puts native frames among those of d's sample, as far as they fit, or stops each thread while it is read once more. d->sample is
// *out's from then on. What cannot be had is said on stderr; on an error d is as it was. Free *out in both cases, after printing.
int al_dump_native_add(struct al_dump_native *out, struct al_dump *d, struct al_stack *stack, const struct al_native_settings *settings);
void al_dump_native_free(struct al_dump_native *out);

// The local variables of all threads of the sample, secrets masked; s is d->stack. AL_E_NOMEM.
int al_dump_locals(struct al_stack *s, struct al_dump *d);
void al_dump_locals_free(struct al_dump *d);
struct al_dump_member;
int al_dump_main_locals(struct al_dump_member *m);

// Tasks that run in a thread of the sample, if any; NULL none.
const struct al_async_task *al_dump_running(const struct al_dump *d, const struct al_stack_thread *t);
void al_dump_frame_text(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f);
void al_dump_frame_members(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f);
// The border of the task that runs, behind its outermost frame; tasks of a thread that wait; all tasks.
void al_dump_border(struct al_buf *b, const struct al_dump *d, const struct al_async_task *task);
void al_dump_tasks_text(struct al_buf *b, const struct al_dump *d, uint64_t tstate);
void al_dump_tasks_json(struct al_buf *b, const struct al_dump *d);

void al_dump_text(struct al_buf *b, const struct al_dump *d);
void al_dump_json(struct al_buf *b, const struct al_dump *d);
void al_dump_frame_json(struct al_buf *b, const struct al_differ_frame *f);

// ---- a whole job ----

#define AL_DUMP_BETWEEN 4 // samples of ranks' main threads between the two of all

struct al_dump_member { // a process, sampled twice
    struct al_dump dump; // of the later sample
    struct al_stack *stack;
    struct al_stack_error error;
    int result;
    bool peer;                     // of the processes that are compared where none is known as a rank
    bool told;                     // an error of it is worth a word
    struct al_stack_thread *first; // threads of the earlier sample, with frames of their own
    size_t first_count;
    struct al_stack_thread between[AL_DUMP_BETWEEN]; // of its main thread; frames NULL: none
    struct al_stack_locals *locals; // of the main thread's frames, innermost first; NULL: not asked for
    const struct al_stack_frame *frames;
    uint32_t frame_count;
    double asleep;        // seconds that its main thread has slept without a break; -1: it runs, or the kernel does not say
    struct al_rank board; // what its alula run knows of it; pid 0: nothing
};

struct al_dump_absent {
    int32_t rank;
    char reason[160];
};

struct al_dump_job {
    struct al_stacks_who who;
    struct al_dump_member *members; // ranks in order, each with its workers behind it, then all others
    uint32_t count;
    struct al_dump_absent *absent; // ranks that should run on this host and do not
    uint32_t absent_count;
    int32_t world;      // -1 not known
    bool none_read;     // nothing is Python, or may be read
    bool peers;         // no rank is known: processes side by side are compared instead
    double apart;       // seconds between the samples
    int64_t at_ns;      // monotonic, of the later ones
    struct al_rank *board; // of all alula runs
    uint32_t board_count;
};

// The job of a process, or with pid 0 of the only alula run (AL_E_INVALID with the reason in *error where it is not one).
int al_dump_job_read(struct al_dump_job *j, pid_t pid, const struct al_stack_settings *settings, bool no_cmdline,
                     bool locals, struct al_stack_error *error);
void al_dump_job_free(struct al_dump_job *j);
static inline bool al_dump_is_rank(const struct al_dump_member *m) {
    return m->peer || m->dump.process->role == AL_ROLE_RANK;
}
// What its ranks do differently, as text or as one JSON object. AL_E_NOMEM.
int al_dump_differences(struct al_buf *b, const struct al_dump_job *j, bool json);

#endif
