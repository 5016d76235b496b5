// SPDX-License-Identifier: Apache-2.0
// alula ps: training process trees, as a table or as JSON.
#ifndef AL_EXPORT_PS_H
#define AL_EXPORT_PS_H

#include "base/buf.h"
#include "model/snapshot.h"

// An alula run that watches a job, from its board.
struct al_ps_run {
    pid_t job, alula;
    const char *command, *output, *record; // "" when not known
    int64_t began_realtime_ns;
};

struct al_ps_options {
    unsigned width; // of the terminal; 0: commands are not cut
    bool color, ascii;
    const char *user; // name or number; NULL: everybody
    const struct al_ps_run *runs;
    uint32_t run_count;
    const char *device_missing; // why the GPUs were not asked; "" when they were
};

// A process and its place among the trees.
struct al_ps_row {
    const struct al_proc *p;
    const struct al_rank *rank; // NULL: it tells nothing of itself
    int depth;
    bool last;       // the last child of its parent
    uint32_t guides; // bit d: a line of depth d goes on below
};

// Jobs one after the other, parents before their children. *ret_rows is the caller's to free; AL_E_NOMEM.
int al_ps_rows(const struct al_snapshot *s, const char *user, struct al_ps_row **ret_rows, uint32_t *ret_count);
// Both: AL_E_NOMEM, or 0 with the number of processes in *ret_count (may be NULL).
int al_ps_table(struct al_buf *b, const struct al_snapshot *s, const struct al_ps_options *o, uint32_t *ret_count);
int al_ps_json(struct al_buf *b, const struct al_snapshot *s, const struct al_ps_options *o, uint32_t *ret_count);

#endif
