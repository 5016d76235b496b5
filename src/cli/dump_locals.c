// SPDX-License-Identifier: Apache-2.0
// alula dump --locals: what is shown of variables, and what is masked.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/dump.h"
#include "host/command.h"

// What begins so is a credential whatever its name is: Hugging Face, OpenAI and others, GitHub, GitLab, AWS, Slack, JWT.
static const char *const CREDENTIALS[] = {"hf_",   "sk-",  "ghp_", "gho_", "ghs_",  "github_pat_", "glpat-",
                                          "AKIA",  "ASIA", "xoxb-", "xoxp-", "eyJ",  "Bearer ",     "-----BEGIN"};

static void mask(char *text, size_t size) {
    char shown[AL_CMD_MAX];
    for (size_t i = 0; i < sizeof CREDENTIALS / sizeof *CREDENTIALS; i++)
        if (al_str_starts(text, CREDENTIALS[i]) && strlen(text) > strlen(CREDENTIALS[i]) + 8) {
            (void)al_str_copy(text, size, "***");
            return;
        }
    al_command_mask(text, strlen(text), shown, sizeof shown);
    (void)al_str_copy(text, size, shown);
}

static const struct al_stack_locals_options options = {al_command_secret, mask};

int al_dump_locals(struct al_stack *s, struct al_dump *d) {
    int result = 0;
    d->locals = calloc(d->sample->count + 1, sizeof *d->locals);
    if (!d->locals)
        return AL_E_NOMEM;
    for (size_t i = 0; i < d->sample->count && !result; i++)
        result = al_stack_locals(s, &d->sample->threads[i], &options, &d->locals[i]);
    return result;
}

void al_dump_locals_free(struct al_dump *d) {
    for (size_t i = 0; d->locals && i < d->sample->count; i++)
        al_stack_locals_free(d->locals[i], d->sample->threads[i].count);
    free(d->locals);
    d->locals = NULL;
}

int al_dump_main_locals(struct al_dump_member *m) {
    for (size_t i = 0; i < m->dump.sample->count; i++) {
        const struct al_stack_thread *t = &m->dump.sample->threads[i];
        if (!t->main)
            continue;
        int result = al_stack_locals(m->stack, t, &options, &m->locals);
        m->frames = t->frames;
        m->frame_count = result ? 0 : t->count;
        return result;
    }
    return 0;
}
