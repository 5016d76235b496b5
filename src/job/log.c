// SPDX-License-Identifier: Apache-2.0
// The trainer's log beside what was measured, and why the two may differ.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/say.h"
#include "job/useful.h"

#define AGREE 0.02 // relative difference that needs no explanation

static const char *explain(const struct al_trainlog *l, const struct al_tally *t, double difference) {
    if (fabs(difference) <= AGREE)
        return "they agree";
    if (l->old_speed_after_resume)
        return "up to ms-swift 3.12.4 a resumed run's speed counts the steps before it too: it is too high";
    if (difference < 0)
        return "the trainer's clock starts before its first batch is asked for and its figure is a mean since then; alula's starts "
               "with the first step";
    if (l->step >= 0 && t->step > l->step)
        return "the log's last figure is of an earlier step; what came behind it was slower";
    return "the log's figure is a mean up to its last line; evaluation and checkpoints behind it are in alula's alone";
}

bool al_book_trainer_log(const struct al_book *book, struct al_report_log *ret) {
    const struct al_trainlog *l = &book->trainlog;
    const struct al_book_rank *leader = al_book_leader(book);
    const struct al_tally *t = leader ? &leader->tally : NULL;
    if (!book->trainlog_path[0] || !l->lines)
        return false;
    *ret = (struct al_report_log){.path = book->trainlog_path,
                                  .writer = l->writer == AL_TRAINLOG_MEGATRON ? "megatron"
                                            : l->writer == AL_TRAINLOG_HF     ? "huggingface"
                                                                              : NULL,
                                  .speed_key = l->speed_key == AL_TRAINLOG_ITER_S ? "train_speed(iter/s)"
                                               : l->speed_key == AL_TRAINLOG_S_IT ? "train_speed(s/it)"
                                                                                  : NULL,
                                  .steps_per_second = l->steps_per_second,
                                  .measured_steps_per_second = NAN,
                                  .difference = NAN,
                                  .elapsed_seconds = l->elapsed_seconds,
                                  .memory_gib = l->memory_gib,
                                  .step = l->step,
                                  .steps_of_all = l->steps_of_all,
                                  .lines = l->lines,
                                  .damaged = l->damaged};
    if (t && t->done && t->total.wall_ns > 0)
        ret->measured_steps_per_second = (double)t->done * 1e9 / (double)t->total.wall_ns;
    if (t && !isnan(ret->steps_per_second) && ret->measured_steps_per_second > 0) {
        ret->difference = ret->steps_per_second / ret->measured_steps_per_second - 1;
        ret->explanation = explain(l, t, ret->difference);
    }
    return true;
}

void al_book_say_trainer_log(const struct al_book *book, struct al_buf *b) {
    struct al_report_log l;
    if (!al_book_trainer_log(book, &l))
        return;
    if (!isnan(l.steps_per_second)) {
        al_buf_str(b, "alula: the trainer's log says ");
        al_buf_fixed(b, l.steps_per_second, 3);
        al_buf_printf(b, " steps/s (%s, step %lld)", l.speed_key, (long long)l.step);
        if (l.explanation) {
            al_buf_str(b, ", alula measured ");
            al_buf_fixed(b, l.measured_steps_per_second, 3);
            al_buf_printf(b, ": %s", l.explanation);
        }
        al_buf_char(b, '\n');
    }
    if (!isnan(l.memory_gib)) {
        al_buf_str(b, "alula: memory(GiB) ");
        al_buf_fixed(b, l.memory_gib, 2);
        al_buf_str(b, " in that log is " AL_REPORT_LOG_MEMORY "\n");
    }
}
