// SPDX-License-Identifier: Apache-2.0
// What a rank tells of itself: where it is, and how its recent steps spend their time.
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "tui/draw.h"

#define BAR_MOST 60
#define LASTS_NS (10 * AL_NS_PER_S) // a phase that lasts longer says for how long

static const uint8_t inks[] = {
    [AL_IN_OTHER] = AL_STYLE_DIM,       [AL_IN_DATA] = AL_INK_WARN,  [AL_IN_FORWARD] = AL_INK_GOOD,
    [AL_IN_BACKWARD] = AL_INK_COOL,     [AL_IN_OPTIMIZER] = AL_INK_BLUE, [AL_IN_EVALUATION] = AL_INK_ODD,
    [AL_IN_SAVE] = AL_INK_ODD,          [AL_IN_LOG] = AL_INK_ODD,    [AL_IN_ROLLOUT] = AL_INK_COOL,
    [AL_IN_COMMUNICATION] = AL_INK_BAD, [AL_PHASE_COUNT] = AL_INK_PLAIN,
};

// The order in which a step goes, not that of the numbers.
static const uint8_t order[] = {AL_IN_DATA, AL_IN_FORWARD, AL_IN_BACKWARD, AL_IN_OPTIMIZER, AL_IN_COMMUNICATION,
                                AL_IN_ROLLOUT, AL_IN_EVALUATION, AL_IN_SAVE, AL_IN_LOG, AL_PHASE_COUNT, AL_IN_OTHER};
_Static_assert(sizeof order == AL_PHASE_COUNT + 1 && sizeof inks == AL_PHASE_COUNT + 1, "each part once");

static void where(struct al_draw *d, int w, struct al_buf *page, const struct al_rank *r) {
    char text[200], step[AL_TXT], epoch[AL_TXT], age[AL_TXT] = "", rate[AL_TXT];
    struct al_value phase = r->m[AL_RANK_PHASE];
    const char *word = al_rank_phase(r);
    if (!word && al_txt_has(phase) && phase.num >= 0 && phase.num <= AL_RANK_BETWEEN)
        word = al_rank_phase_word((uint32_t)phase.num);
    al_txt_short(step, AL_UNIT_COUNT, r->m[AL_RANK_STEP]);
    al_txt_short(epoch, AL_UNIT_COUNT, r->m[AL_RANK_EPOCH]);
    int64_t since = d->in->s->monotonic_ns - phase.at_ns;
    if (al_txt_has(phase) && phase.at_ns > 0 && since > LASTS_NS)
        al_txt_age(age, since);
    (void)snprintf(text, sizeof text, "step %s, epoch %s, in %s%s%s%s", step, epoch, word ? word : "an unknown phase",
                   *age ? " for " : "", age, phase.status == AL_STATUS_STALE ? " (the last that was told)" : "");
    al_page_wrap(page, w, AL_STYLE_BOLD, "training", text);
    struct al_value seconds = r->m[AL_RANK_STEP_SECONDS], steps = r->m[AL_RANK_STEP_RATE];
    if (al_txt_has(seconds) && al_txt_has(steps)) {
        bool small = seconds.num < 10;
        (void)al_fmt_fixed(step, sizeof step, small ? seconds.num * 1e3 : seconds.num, seconds.num < 0.01 ? 2 : small ? 0 : 1);
        (void)al_fmt_fixed(rate, sizeof rate, steps.num, 2);
        (void)snprintf(text, sizeof text, "%s steps a second, %s %s a step", rate, step, small ? "ms" : "s");
        al_page_wrap(page, w, AL_INK_PLAIN, "rate", text);
    }
    if (*r->source)
        al_page_wrap(page, w, AL_INK_PLAIN, "known by", r->source);
}

static void share(struct al_buf *page, int room, uint32_t part, struct al_value v) {
    char line[64 + 4 * BAR_MOST], number[AL_TXT];
    double ratio = v.num < 0 ? 0 : v.num > 1 ? 1 : v.num;
    int full = (int)(ratio * room * 8 + 0.5);
    (void)al_fmt_fixed(number, sizeof number, 100 * ratio, 1);
    size_t len = (size_t)snprintf(line, sizeof line, "  %-14s%6s %%%s ", al_rank_phase_word(part), number,
                                  v.status == AL_STATUS_STALE ? "~" : " ");
    for (; full >= 8; full -= 8)
        len += (size_t)snprintf(line + len, sizeof line - len, "\u2588");
    if (full > 0) // U+2589 is seven eighths wide, U+258F one
        (void)snprintf(line + len, sizeof line - len, "\xe2\x96%c", (char)(0x90 - full));
    al_page_line(page, inks[part], line);
}

void al_page_rank(struct al_draw *d, int w, struct al_buf *page, const struct al_rank *r) {
    bool any = false;
    if (!r)
        return;
    al_page_line(page, AL_INK_PLAIN, "");
    where(d, w, page, r);
    int room = w - 28 < 8 ? 8 : w - 28 > BAR_MOST ? BAR_MOST : w - 28;
    for (size_t i = 0; i < sizeof order; i++) {
        struct al_value v = r->m[AL_RANK_SHARE_OTHER + order[i]];
        // Parts that this job does not have are left out; the remainder is always shown.
        if (!al_txt_has(v) || (v.num < 0.0005 && order[i] != AL_IN_OTHER && order[i] != AL_IN_DATA))
            continue;
        if (!any)
            al_page_line(page, AL_STYLE_BOLD | AL_STYLE_LINE, "share of step time, over the last 32 steps");
        any = true;
        share(page, room, order[i], v);
    }
}
