// SPDX-License-Identifier: Apache-2.0
// alula dump's two ways to print one process.
#ifndef AL_CLI_DUMP_H
#define AL_CLI_DUMP_H

#include "base/buf.h"
#include "cli/stacks.h"

struct al_dump {
    const struct al_stacks_process *process;
    const struct al_stack *stack; // NULL: it could not be read, as error says
    const struct al_stack_sample *sample;
    int64_t at_realtime_ns;
    const char *error;
};

void al_dump_text(struct al_buf *b, const struct al_dump *d);
void al_dump_json(struct al_buf *b, const struct al_dump *d);

#endif
