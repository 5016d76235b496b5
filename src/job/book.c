// SPDX-License-Identifier: Apache-2.0
#include "job/book.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int al_book_init(struct al_book *book, const struct al_settings *settings) {
    *book = (struct al_book){.settings = *settings};
    al_trainlog_init(&book->trainlog);
    book->ranks = calloc(AL_BOOK_RANKS, sizeof *book->ranks);
    book->gpus = calloc(AL_GPU_MAX, sizeof *book->gpus);
    book->views = calloc(AL_BOOK_RANKS, sizeof *book->views);
    book->verdicts = calloc(AL_STEPS_VERDICTS, sizeof *book->verdicts);
    if (book->ranks && book->gpus && book->views && book->verdicts)
        return 0;
    al_book_free(book);
    return AL_E_NOMEM;
}

void al_book_free(struct al_book *book) {
    for (uint32_t i = 0; book->ranks && i < book->rank_count; i++)
        free(book->ranks[i]);
    for (uint32_t i = 0; book->gpus && i < AL_GPU_MAX; i++)
        free(book->gpus[i].samples);
    free(book->ranks);
    free(book->gpus);
    free(book->views);
    free(book->verdicts);
    *book = (struct al_book){0};
}

struct al_book_rank *al_book_add(struct al_book *book, pid_t pid, uint64_t start_ticks) {
    struct al_book_rank *k = book->rank_count < AL_BOOK_RANKS ? calloc(1, sizeof *k) : NULL;
    if (!k)
        return NULL;
    k->pid = pid;
    k->start_ticks = start_ticks;
    k->workers = -1;
    al_tally_init(&k->tally);
    book->ranks[book->rank_count++] = k;
    return k;
}

void al_book_counted(struct al_book *book) {
    int64_t begin = 0, end = 0;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_tally *t = &book->ranks[i]->tally;
        if (t->begin_ns && (!begin || t->begin_ns < begin))
            begin = t->begin_ns;
        if (al_tally_steps(t) && t->step_end_ns > end)
            end = t->step_end_ns;
        book->cuda_seen |= t->device_count > 0;
    }
    book->begin_ns = begin;
    book->end_ns = end;
}

void al_book_rank_ended(struct al_book_rank *k, int64_t at_ns, bool status_known, int status) {
    if (!k->ended)
        k->ended_ns = at_ns;
    k->ended = true;
    if (status_known) {
        k->status_known = true;
        k->status = status;
    }
}

const struct al_book_rank *al_book_leader(const struct al_book *book) {
    const struct al_book_rank *found = NULL;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (!al_tally_trains(&k->tally))
            continue;
        if (!found || (k->tally.rank >= 0 && (found->tally.rank < 0 || k->tally.rank < found->tally.rank)))
            found = k;
    }
    return found;
}

void al_book_view(struct al_book *book, bool live, struct al_steps_view *ret) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (al_tally_trains(&k->tally))
            book->views[count++] = (struct al_steps_rank){&k->tally, k->tally.rank, k->pid, k->workers, k->looked ? &k->look : NULL};
    }
    *ret = (struct al_steps_view){.ranks = book->views, .count = count, .live = live, .cpus = book->job.cpus, .command = book->job.command};
}

uint32_t al_book_judge(struct al_book *book, bool live, const struct al_steps_verdict **ret) {
    struct al_steps_view view;
    struct al_book_utilization u;
    al_book_view(book, live, &view);
    al_book_utilization(book, &u);
    view.utilization_known = u.known;
    view.utilization = u.mean;
    view.utilization_missing = u.why;
    *ret = book->verdicts;
    return al_steps_judge(&book->settings, &view, book->verdicts, AL_STEPS_VERDICTS);
}

const char *al_book_verdict_word(enum al_verdict v) {
    static const char *const words[] = {"nothing found", "finding", "too little data", "cannot tell"};
    return words[v];
}

void al_book_fill(const struct al_book *book, struct al_snapshot *s) {
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        struct al_rank *r = k->ended || !k->tally.first_ns ? NULL : al_snapshot_add_rank(s);
        if (!r)
            continue;
        r->pid = k->pid;
        r->start_ticks = k->start_ticks;
        r->job = book->job.pid;
        al_tally_rank(&k->tally, r);
    }
}
