// SPDX-License-Identifier: Apache-2.0
#include "job/useful.h"

#include <stdio.h>

#include "base/str.h"
#include "detect/say.h"
#include "model/gpu_peak.h"
#include "tally/mfu.h"

// Of the job's GPUs together, by their names; 0 when one of them is not known.
static double peak_of(const struct al_book *book, uint32_t *ret_gpus, const char **ret_why) {
    struct al_book_utilization u;
    double sum = 0, peak;
    uint32_t used = 0;
    al_book_utilization(book, &u);
    for (uint32_t i = 0; i < book->gpu_count; i++)
        used += book->gpus[i].used_by_job;
    *ret_gpus = 0;
    *ret_why = "which GPUs are the job's is not known";
    if (!book->gpu_count || (!used && !u.known))
        return 0;
    for (uint32_t i = 0; i < book->gpu_count; i++) {
        const struct al_book_gpu *g = &book->gpus[i];
        if (used && !g->used_by_job)
            continue;
        if (!al_gpu_peak_bf16(g->name, &peak)) {
            *ret_why = "the peak of a GPU of this name is not in alula's table";
            return 0;
        }
        sum += peak;
        ++*ret_gpus;
    }
    return sum;
}

void al_book_useful(const struct al_book *book, struct al_report_useful *ret) {
    static const struct al_tally *tallies[AL_BOOK_RANKS];
    const struct al_book_rank *leader = al_book_leader(book);
    struct al_mfu m;
    const char *why;
    uint32_t count = 0;
    if (leader)
        tallies[count++] = &leader->tally; // it told of the model
    for (uint32_t i = 0; i < book->rank_count; i++)
        if (book->ranks[i] != leader && al_tally_steps(&book->ranks[i]->tally))
            tallies[count++] = &book->ranks[i]->tally;
    *ret = (struct al_report_useful){.formula = AL_MFU_FORMULA};
    double peak = peak_of(book, &ret->gpus, &why);
    al_mfu(tallies, count, leader ? (double)leader->tally.total.wall_ns / 1e9 : 0, peak, &m);
    ret->tokens_known = m.tokens_known;
    ret->tokens = m.tokens;
    ret->tokens_per_second = m.tokens_per_second;
    ret->parameters = m.parameters;
    ret->trainable = m.trainable;
    ret->flops_known = m.flops_known;
    ret->flops_per_second = m.flops_per_second;
    ret->peak = peak;
    ret->mfu_known = m.mfu_known;
    ret->mfu = m.ratio;
    ret->missing = m.flops_known && !peak ? why : m.missing;
}

static void put_count(struct al_buf *b, double value) {
    static const char *const suffixes[] = {"", " k", " M", " G", " T", " P"};
    int i = 0;
    for (; value >= 9999.5 && i < 5; i++)
        value /= 1000;
    al_buf_fixed(b, value, i && value < 1000 ? 1 : 0);
    al_buf_str(b, suffixes[i]);
}

void al_book_say_useful(const struct al_book *book, struct al_buf *b) {
    struct al_report_useful u;
    al_book_useful(book, &u);
    if (!u.tokens_known)
        return;
    al_buf_str(b, "alula: ");
    put_count(b, u.tokens_per_second);
    al_buf_str(b, " tokens/s (padding counted)");
    if (u.flops_known) {
        al_buf_str(b, ", ");
        put_count(b, u.flops_per_second);
        al_buf_str(b, "FLOP/s of the model's own");
    }
    if (u.mfu_known) {
        al_buf_printf(b, ": MFU about %s of ", al_say_percent(u.mfu).s);
        put_count(b, u.peak);
        al_buf_printf(b, "FLOP/s (dense BF16, %u GPU%s)\n", u.gpus, u.gpus == 1 ? "" : "s");
    } else {
        al_buf_printf(b, "; MFU not known: %s\n", u.missing);
    }
}
