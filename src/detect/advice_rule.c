// SPDX-License-Identifier: Apache-2.0
// Advice for the rules on steps.
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/advice.h"

// An option that helps a little beside the main one, unless it is set so already.
static void put_also(struct al_buf *b, const struct al_advice *a, enum al_option option, const char *value) {
    if (!al_advice_name(a, option))
        return;
    al_buf_str(b, "; ");
    al_advice_put(b, a, option, value);
}

static int32_t workers_now(const struct al_advice *a) {
    int32_t seen = -1;
    double told;
    for (uint32_t i = 0; i < a->view->count; i++)
        if (a->view->ranks[i].workers > seen)
            seen = a->view->ranks[i].workers;
    // What runs counts; the option alone where processes could not be looked at (or have ended).
    if (al_advice_now_number(a, AL_OPTION_WORKERS, &told) && told >= 0 && told < 1000 && (int32_t)told > seen)
        seen = (int32_t)told;
    return seen;
}

static void put_loader_switches(struct al_buf *b, const struct al_advice *a, int32_t workers) {
    double number;
    bool starts_anew = a->tally->epoch > 0 && workers > 0; // more epochs than one, each with new workers
    if (al_advice_now_number(a, AL_OPTION_PREFETCH, &number) && number > 0 && number < 4 && workers > 0)
        put_also(b, a, AL_OPTION_PREFETCH, "4");
    if (starts_anew && al_advice_now_number(a, AL_OPTION_PERSISTENT, &number) && number == 0)
        put_also(b, a, AL_OPTION_PERSISTENT, "true");
    if (a->tally->device_count && al_advice_now_number(a, AL_OPTION_PIN, &number) && number == 0)
        put_also(b, a, AL_OPTION_PIN, "true");
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

static void put_data(struct al_buf *b, const struct al_advice *a) {
    const struct al_steps_view *v = a->view;
    int want = al_steps_workers(v->cpus, v->count);
    int32_t now = workers_now(a);
    char value[16];
    if (a->framework >= AL_FRAMEWORK_SWIFT && v->command && strstr(v->command, "--streaming true")) {
        al_buf_str(b, "with --streaming true ms-swift reads with one worker at most, whatever is asked for: without it (the data "
                      "tokenised once, kept in a cache) more of them can read; or make a sample cheaper");
        return;
    }
    if (now >= want) {
        al_buf_printf(b, "%d workers a rank run already and %.3g cores are all that %u rank%s have: more workers will not help. "
                         "Make a sample cheaper (tokenise or decode once beforehand, cache, faster storage) or give the job "
                         "more cores", (int)now, v->cpus, v->count, plural(v->count));
        put_loader_switches(b, a, now);
        return;
    }
    (void)snprintf(value, sizeof value, "%d", want);
    al_advice_put(b, a, AL_OPTION_WORKERS, value);
    if (now >= 0)
        al_buf_printf(b, " (now %d)", (int)now);
    al_buf_printf(b, ": this node gives the job %.3g cores for %u rank%s", v->cpus, v->count, plural(v->count));
    put_loader_switches(b, a, now);
    al_buf_str(b, ". If it still waits, make a sample cheaper (tokenise or decode once beforehand)");
}

// The same number of samples a step in fewer and larger pieces
static void put_larger_batches(struct al_buf *b, const struct al_advice *a) {
    double batch, steps;
    char value[24];
    if (!al_advice_now_number(a, AL_OPTION_BATCH, &batch) || !(batch >= 1 && batch < 1e6)) {
        al_buf_str(b, "larger micro-batches");
        return;
    }
    (void)snprintf(value, sizeof value, "%.0f", 2 * batch);
    al_advice_put(b, a, AL_OPTION_BATCH, value);
    if (al_advice_now_number(a, AL_OPTION_ACCUMULATE, &steps) && steps >= 2 && steps < 1e6) {
        (void)snprintf(value, sizeof value, "%.0f", steps / 2);
        al_buf_str(b, " with ");
        al_advice_put(b, a, AL_OPTION_ACCUMULATE, value);
    }
    al_buf_str(b, " if memory allows");
}

static void put_host_bound(struct al_buf *b, const struct al_advice *a) {
    char optim[48];
    al_buf_str(b, "small kernels: ");
    put_larger_batches(b, a);
    if (al_advice_name(a, AL_OPTION_PACKING) && !al_advice_on(a, AL_OPTION_PACKING) && !al_advice_on(a, AL_OPTION_PADDING_FREE)) {
        al_buf_str(b, ", or ");
        al_advice_put(b, a, AL_OPTION_PACKING, "true");
        if (a->framework == AL_FRAMEWORK_SWIFT)
            al_buf_str(b, " (it needs --attn_impl flash_attn)");
    }
    if (al_advice_now(a, AL_OPTION_OPTIM, optim, sizeof optim) && strcmp(optim, "adamw_torch") == 0)
        put_also(b, a, AL_OPTION_OPTIM, "adamw_torch_fused");
    if (a->framework == AL_FRAMEWORK_TORCH)
        al_buf_str(b, ", torch.compile or CUDA graphs, AdamW(fused=True)");
    al_buf_str(b, ". Or the step synchronises (.item(), .cpu(), a printed tensor): do so every n-th step");
}

static bool put_less_often(struct al_buf *b, const struct al_advice *a, enum al_option option, const char *word) {
    double now;
    char value[24] = "N";
    if (!al_advice_name(a, option))
        return false;
    if (al_advice_now_number(a, option, &now) && now >= 1 && now < 1e8)
        (void)snprintf(value, sizeof value, "%.0f", 4 * now);
    al_buf_printf(b, "%s less often: ", word);
    al_advice_put(b, a, option, value);
    if (value[0] != 'N')
        al_buf_printf(b, " (now %.0f)", now);
    return true;
}

static bool put_rule(struct al_buf *b, const struct al_advice *a, const char *rule) {
    if (strcmp(rule, "data_wait") == 0) {
        put_data(b, a);
        return true;
    }
    if (strcmp(rule, "host_bound") == 0) {
        put_host_bound(b, a);
        return true;
    }
    if (strcmp(rule, "save") == 0) {
        if (!put_less_often(b, a, AL_OPTION_SAVE, "save"))
            return false;
        if (!al_advice_on(a, AL_OPTION_SAVE_MODEL))
            put_also(b, a, AL_OPTION_SAVE_MODEL, "true");
        al_buf_str(b, " where no resuming is planned; or write to a local disk first");
        return true;
    }
    if (strcmp(rule, "log") == 0)
        return put_less_often(b, a, AL_OPTION_LOG, "log");
    if (strcmp(rule, "evaluation") == 0)
        return put_less_often(b, a, AL_OPTION_EVALUATE, "evaluate");
    return false;
}

bool al_advice_rule(const struct al_steps_view *v, const char *rule, char *out, size_t size) {
    struct al_advice a;
    struct al_buf b = AL_BUF_INIT;
    al_advice_of(v, &a);
    bool known = put_rule(&b, &a, rule) && b.data && !b.failed;
    if (known)
        (void)al_str_copy(out, size, b.data);
    al_buf_free(&b);
    return known;
}
