// SPDX-License-Identifier: Apache-2.0
#include "job/say.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "detect/say.h"
#include "job/communication.h"
#include "job/end.h"
#include "job/memory.h"
#include "job/useful.h"

#define GIB 1073741824.0
#define SUMMARY_RANKS 8 // with a line of their own unless all are asked for

// ---- the lines of --log-every ----

static void milliseconds(struct al_buf *b, const char *word, int64_t ns, double steps) {
    al_buf_printf(b, "%s ", word);
    al_buf_fixed(b, (double)ns / steps / 1e6, 1);
    al_buf_str(b, " ms");
}

static void line_head(struct al_buf *b, const struct al_tally *t) {
    al_buf_str(b, "alula: ");
    if (t->world > 1)
        al_buf_printf(b, "rank %lld ", (long long)t->rank);
    al_buf_printf(b, "step %lld: ", (long long)t->step);
}

static void memory_line(struct al_buf *b, const struct al_book *book, const struct al_tally *t) {
    double total = 0;
    for (uint32_t i = 0; i < book->gpu_count; i++)
        if ((book->gpus[i].used_by_job || book->gpu_count == 1) && book->gpus[i].memory_known)
            total = book->gpus[i].memory_total;
    for (uint32_t i = 0; i < t->device_count; i++) {
        const struct al_tally_memory *m = &t->memory[i];
        if (!m->known[AL_ALLOCATOR_ALLOCATED])
            continue;
        line_head(b, t);
        if (t->device_count > 1)
            al_buf_printf(b, "cuda:%d ", (int)m->device);
        al_buf_str(b, "memory ");
        al_buf_fixed(b, (double)m->last[AL_ALLOCATOR_ALLOCATED] / GIB, 2);
        if (total > 0) {
            al_buf_str(b, " / ");
            al_buf_fixed(b, total / GIB, 1);
            al_buf_printf(b, " GiB (%s)", al_say_percent((double)m->last[AL_ALLOCATOR_ALLOCATED] / total).s);
        } else {
            al_buf_str(b, " GiB");
        }
        if (m->known[AL_ALLOCATOR_ALLOCATED_PEAK]) {
            al_buf_str(b, ", peak ");
            al_buf_fixed(b, (double)m->most[AL_ALLOCATOR_ALLOCATED_PEAK] / GIB, 2);
            al_buf_str(b, " GiB");
        }
        al_buf_char(b, '\n');
    }
}

static void gpu_line(struct al_buf *b, const struct al_book *book, const struct al_tally *t) {
    double ratio;
    if (!al_tally_gpu_ratio(t, &ratio))
        return;
    line_head(b, t);
    al_buf_printf(b, "GPU utilisation about %s (estimate: time between CUDA events / step time)", al_say_percent(ratio).s);
    struct al_book_utilization u;
    al_book_utilization(book, &u);
    if (u.known)
        al_buf_printf(b, ", by NVML so far %s", al_say_percent(u.mean).s);
    al_buf_char(b, '\n');
}

static void step_lines(struct al_buf *b, const struct al_book *book, const struct al_book_rank *k, uint64_t steps) {
    const struct al_tally *t = &k->tally;
    double n = (double)(steps - k->logged_steps);
    int64_t part[AL_PART_COUNT], rest = t->total.part_ns[AL_IN_OTHER] - k->logged.part_ns[AL_IN_OTHER];
    for (int i = 0; i < AL_PART_COUNT; i++)
        part[i] = t->total.part_ns[i] - k->logged.part_ns[i];
    memory_line(b, book, t);
    line_head(b, t);
    milliseconds(b, "forward", part[AL_IN_FORWARD], n);
    milliseconds(b, ", backward", part[AL_IN_BACKWARD], n);
    milliseconds(b, ", optimizer_step", part[AL_IN_OPTIMIZER], n);
    milliseconds(b, ", total_step", t->total.wall_ns - k->logged.wall_ns, n);
    milliseconds(b, "; data", part[AL_IN_DATA], n);
    static const int others[] = {AL_IN_EVALUATION, AL_IN_SAVE, AL_IN_LOG, AL_IN_ROLLOUT, AL_IN_COMMUNICATION,
                                 AL_PART_BETWEEN};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (part[others[i]]) {
            al_buf_str(b, ", ");
            milliseconds(b, al_part_word(others[i]), part[others[i]], n);
        }
    milliseconds(b, ", other", rest, n);
    al_buf_printf(b, " (host time, mean of %.0f step%s)\n", n, n == 1 ? "" : "s");
    gpu_line(b, book, t);
}

void al_book_say_step(const struct al_book *book, struct al_book_rank *k, struct al_buf *b) {
    uint64_t steps = al_tally_steps(&k->tally);
    if (steps == k->logged_steps)
        return;
    step_lines(b, book, k, steps);
    k->logged = k->tally.total;
    k->logged_steps = steps;
}

void al_book_say_finding(const struct al_finding *f, struct al_buf *b) {
    al_buf_printf(b, "alula: %s: %s -- ", al_level_word(f->level), f->title);
    al_term_string(b, f->message);
    al_buf_printf(b, " [confidence %s]\nalula:     also considered: ", al_confidence_word(f->confidence));
    al_term_string(b, f->considered);
    al_buf_str(b, "\nalula:     do: ");
    al_term_string(b, f->advice);
    al_buf_char(b, '\n');
}

// ---- the end ----

static void summary_line(struct al_buf *b, const struct al_book_rank *k) {
    const struct al_tally *t = &k->tally;
    double wall = (double)t->total.wall_ns;
    uint64_t steps = al_tally_steps(t);
    int parts = 0;
    al_buf_str(b, "alula: ");
    if (t->world > 1)
        al_buf_printf(b, "rank %lld: ", (long long)t->rank);
    if (!steps || wall <= 0) {
        al_buf_str(b, "no step ended\n");
        return;
    }
    al_buf_printf(b, "%llu steps in %s (", (unsigned long long)steps, al_say_seconds(wall / 1e9).s);
    al_buf_fixed(b, (double)t->done / (wall / 1e9), 2);
    al_buf_str(b, "/s):");
    for (int i = AL_PART_COUNT - 1; i >= 0; i--)
        if ((double)t->total.part_ns[i] / wall >= 0.0005 || i == AL_IN_OTHER)
            al_buf_printf(b, "%s %s %s", parts++ ? "," : "", al_part_word(i),
                          al_say_percent((double)t->total.part_ns[i] / wall).s);
    if (t->skipped || t->aborted || t->micro)
        al_buf_printf(b, "; %llu skipped, %llu aborted, %llu micro-steps", (unsigned long long)t->skipped,
                      (unsigned long long)t->aborted, (unsigned long long)t->micro);
    if (t->lost)
        al_buf_printf(b, "; %llu records LOST: these figures miss them", (unsigned long long)t->lost);
    double peak;
    if (al_tally_peak(t, &peak))
        al_buf_printf(b, "; peak allocated %s", al_say_bytes(peak).s);
    al_buf_char(b, '\n');
}

static void gpu_summary(struct al_buf *b, const struct al_book *book) {
    struct al_book_utilization u;
    al_book_utilization(book, &u);
    if (u.known)
        al_buf_printf(b, "alula: GPU utilisation while training: mean %s, most %s (%s)\n", al_say_percent(u.mean).s,
                      al_say_percent(u.max).s, u.why);
    else {
        al_buf_str(b, "alula: GPU utilisation: not known: ");
        al_term_string(b, u.why);
        al_buf_char(b, '\n');
    }
}

static void verdict_lines(struct al_buf *b, struct al_book *book, bool verbose) {
    const struct al_steps_verdict *verdicts;
    uint32_t count = al_book_judge(book, false, &verdicts);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_steps_verdict *v = &verdicts[i];
        // Details of rules that found nothing are for --verbose; whether all is well is for everyone.
        if (!verbose && v->verdict != AL_VERDICT_FINDING && strcmp(v->rule, "healthy") != 0)
            continue;
        if (v->verdict == AL_VERDICT_QUIET && strcmp(v->rule, "healthy") == 0)
            al_buf_str(b, "alula: "); // its message says it all
        else
            al_buf_printf(b, "alula: %s: %s: ", v->rule, al_book_verdict_word(v->verdict));
        al_term_string(b, v->finding.message);
        al_buf_char(b, '\n');
    }
}

static void no_steps_line(struct al_buf *b, const struct al_book *book) {
    uint32_t cuda = 0;
    for (uint32_t i = 0; i < book->rank_count; i++)
        cuda += strcmp(book->ranks[i]->tally.text[AL_TEXT_SOURCE], AL_SOURCE_CUDA) == 0;
    al_buf_printf(b, "alula: no training step was seen (%u process%s told of themselves", book->rank_count,
                  book->rank_count == 1 ? "" : "es");
    if (cuda)
        al_buf_printf(b, ", %u by CUDA alone: no Python training loop seen; the device view still works", cuda);
    al_buf_str(b, ")\n");
}

static void rank_lines(struct al_buf *b, const struct al_book *book, bool verbose) {
    uint32_t trained = 0, alive = 0;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (!al_tally_trains(&k->tally))
            continue;
        alive += !k->ended;
        if (trained++ < SUMMARY_RANKS || verbose)
            summary_line(b, k);
    }
    if (trained > SUMMARY_RANKS && !verbose)
        al_buf_printf(b, "alula: and %u ranks more (all of them in the report, or with --verbose)\n",
                      trained - SUMMARY_RANKS);
    if (!trained)
        no_steps_line(b, book);
    if (alive && book->job.ended)
        al_buf_printf(b, "alula: %u training process%s go%s on, from now on unwatched\n", alive, alive == 1 ? "" : "es",
                      alive == 1 ? "es" : "");
}

void al_book_say_summary(struct al_book *book, bool verbose, struct al_buf *b) {
    rank_lines(b, book, verbose);
    al_book_say_tree(book, b);
    al_book_say_memory(book, verbose, b);
    gpu_summary(b, book);
    al_book_say_useful(book, b);
    al_book_say_trainer_log(book, b);
    al_book_say_communication(book, b);
    verdict_lines(b, book, verbose);
}
