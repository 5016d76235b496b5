// SPDX-License-Identifier: Apache-2.0
// alula dump --native and --blocking: the sample once more, with native frames.
#include <stdlib.h>

#include "base/err.h"
#include "cli/cli.h"
#include "cli/dump.h"

#define RATE 1000.0 // pictures a second, so that the first one comes soon

int al_dump_native_add(struct al_dump_native *out, struct al_dump *d, struct al_stack *stack, const struct al_native_settings *settings) {
    struct al_native_settings with = *settings;
    struct al_unwind_error error;
    *out = (struct al_dump_native){0};
    with.rate = RATE;
    int result = al_native_open(d->process->pid, stack, &with, &out->native, &error);
    if (*error.text)
        al_cli_error("dump: %s", error.text);
    else if (result)
        al_cli_error("dump: %s", al_error_text(result));
    if (result)
        return result;
    out->sample = *d->sample;
    out->threads = malloc((d->sample->count + 1) * sizeof *out->threads);
    if (!out->threads)
        return AL_E_NOMEM;
    for (size_t i = 0; i < d->sample->count; i++) {
        result = al_native_thread(out->native, d->sample, i, AL_NATIVE_AWAIT, &out->threads[i]);
        if (result == AL_E_NOMEM)
            return result;
    }
    out->sample.threads = out->threads;
    d->sample = &out->sample;
    return 0;
}

void al_dump_native_free(struct al_dump_native *out) {
    al_native_free(out->native);
    free(out->threads);
    *out = (struct al_dump_native){0};
}
