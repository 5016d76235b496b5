// SPDX-License-Identifier: Apache-2.0
// Settings that are known to be slow, and that the trainer itself told: they need no clock to be found, but the time that
// they cost is not known without the kernel timeline. So it is information, and never said of a job without a GPU.
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/advice.h"
#include "detect/steps_part.h"

struct slow {
    bool eager, full_precision;
};

static bool is(const struct al_advice *a, enum al_text text, const char *key, const char *value) {
    char now[48];
    return al_tally_word(a->tally, text, key, now, sizeof now) && strcmp(now, value) == 0;
}

static struct slow look(const struct al_advice *a) {
    return (struct slow){
        .eager = is(a, AL_TEXT_MODEL, "attn", "eager"),
        // Mixed precision keeps float32 parameters and computes in the other type.
        .full_precision = is(a, AL_TEXT_MODEL, "dtype", "float32") && is(a, AL_TEXT_OPTIONS, "bf16", "0") &&
                          is(a, AL_TEXT_OPTIONS, "fp16", "0"),
    };
}

static void put_advice(const struct al_advice *a, struct slow s, struct al_finding *f) {
    struct al_buf b = AL_BUF_INIT;
    bool swift = a->framework >= AL_FRAMEWORK_SWIFT;
    if (s.eager) {
        al_advice_put(&b, a, AL_OPTION_ATTENTION,
                      a->framework == AL_FRAMEWORK_SWIFT            ? "flash_attn"
                      : a->framework == AL_FRAMEWORK_MEGATRON_SWIFT ? "flash"
                                                                    : "sdpa");
        al_buf_str(&b, swift ? " (sdpa where flash-attn is not installed)" : " (flash_attention_2 where flash-attn is installed)");
    }
    if (s.full_precision) {
        al_buf_str(&b, s.eager ? "; " : "");
        al_advice_put(&b, a, AL_OPTION_BF16, strcmp(al_advice_name(a, AL_OPTION_BF16), "bf16") == 0 ? "true" : "bfloat16");
        al_buf_str(&b, " (GPUs from Ampere on)");
    }
    if (b.data && !b.failed)
        (void)al_str_copy(f->advice, sizeof f->advice, b.data);
    al_buf_free(&b);
}

static bool uses_cuda(const struct al_steps_view *v) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->ranks[i].tally->device_count)
            return true;
    return false;
}

void al_steps_settings(const struct al_steps_view *v, struct al_steps_verdict *ret) {
    struct al_advice a;
    al_steps_begin(ret, "settings", "job");
    al_advice_of(v, &a);
    struct slow s = look(&a);
    if (!v->count) {
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "no process told of training steps");
        return;
    }
    if (!a.tally->text[AL_TEXT_OPTIONS][0] && !a.tally->text[AL_TEXT_MODEL][0]) {
        al_steps_say(ret, AL_VERDICT_CANNOT_TELL, "no trainer told of its options");
        return;
    }
    // A loop of its own may compute in another type than its parameters have, and nobody tells.
    s.full_precision &= a.framework != AL_FRAMEWORK_TORCH;
    s.eager &= a.framework != AL_FRAMEWORK_TORCH;
    if (!uses_cuda(v) || (!s.eager && !s.full_precision)) {
        al_steps_say(ret, AL_VERDICT_QUIET, "no setting known to be slow");
        return;
    }
    struct al_finding *f = &ret->finding;
    f->level = AL_LEVEL_INFO;
    f->confidence = AL_CONFIDENCE_MEDIUM;
    (void)snprintf(f->title, sizeof f->title, "settings known to be slow");
    al_steps_say(ret, AL_VERDICT_FINDING, "%s%s%s",
                 s.eager ? "attention runs in its eager form, which keeps the whole matrix of scores in memory" : "",
                 s.eager && s.full_precision ? "; " : "",
                 s.full_precision ? "the model computes in float32, which tensor cores do not take at their full rate" : "");
    (void)snprintf(f->considered, sizeof f->considered,
                   "told by the trainer itself; what it costs here is not measured: some models have no other attention, and a "
                   "job may need float32");
    put_advice(&a, s, f);
}
