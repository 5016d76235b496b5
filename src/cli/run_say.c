// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"
#include "job/end.h"
#include "job/say.h"

void al_run_print(struct al_buf *b) {
    // One call, so that lines of the job do not get between.
    if (b->data && !b->failed)
        (void)!write(STDERR_FILENO, b->data, b->len);
    al_buf_free(b);
}

void al_run_say_start(const struct al_run *r) {
    struct al_buf b = AL_BUF_INIT;
    const char *source, *dir = al_run_output_dir(r, &source);
    if (r->quiet)
        return;
    al_buf_str(&b, "alula: watching ");
    al_term_string(&b, r->book.job.command);
    al_buf_str(&b, r->linked && r->probed ? ": steps, phases and memory of its Python processes, and its GPUs"
                   : r->linked            ? ": its GPUs (the probe is not installed beside this alula: no steps)"
                                          : ": its GPUs (no socket could be made: no steps)");
    if (dir) {
        al_buf_str(&b, "; report: ");
        al_term_string(&b, dir);
        al_buf_str(&b, "/metrics_report.json");
    } else {
        al_buf_str(&b, "; report: where the trainer writes, if it says so (else --output-dir)");
    }
    if (r->record.store) {
        al_buf_str(&b, "; recording: ");
        al_term_string(&b, r->record.path);
        if (*r->record.folder)
            al_buf_str(&b, r->record.named ? ", moved there at the end" : ", moved beside the report at the end");
    }
    al_buf_char(&b, '\n');
    al_run_print(&b);
}

static bool told_before(struct al_run *r, const struct al_steps_verdict *v) {
    for (uint32_t i = 0; i < r->told_count; i++)
        if (strcmp(r->told[i].key, v->finding.key) == 0)
            return true;
    if (r->told_count < AL_STEPS_VERDICTS) {
        struct al_run_told *t = &r->told[r->told_count++];
        t->rule = v->rule;
        (void)al_str_copy(t->key, sizeof t->key, v->finding.key);
    }
    return false;
}

#define LOOK_NS (6 * AL_NS_PER_S) // time that a look at the stacks may take until a finding is told without

// Notes whose stacks the verdicts want seen.
static void want_looks(struct al_run *r, bool wanted) {
    struct al_run_looks *l = &r->looks;
    l->count = 0;
    for (uint32_t i = 0; wanted && i < r->book.rank_count && l->count < sizeof l->pids / sizeof *l->pids; i++)
        if (!r->book.ranks[i]->ended && al_tally_trains(&r->book.ranks[i]->tally))
            l->pids[l->count++] = r->book.ranks[i]->pid;
}

// A finding whose line is being looked for is told a little later, and once.
static bool waits_for_look(struct al_run *r, const struct al_steps_verdict *v) {
    if (!v->look || !r->looks.possible)
        return false;
    for (uint32_t i = 0; i < r->book.rank_count; i++)
        if (r->book.ranks[i]->looked)
            return false;
    int64_t now = al_monotonic_ns();
    r->looks.asked_ns = r->looks.asked_ns ? r->looks.asked_ns : now;
    return now - r->looks.asked_ns < LOOK_NS;
}

void al_run_judge(struct al_run *r, bool live) {
    const struct al_steps_verdict *verdicts;
    struct al_buf b = AL_BUF_INIT;
    bool look = false;
    pthread_mutex_lock(&r->lock);
    uint32_t count = al_book_judge(&r->book, live, &verdicts);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_finding *f = &verdicts[i].finding;
        look |= verdicts[i].look;
        if (verdicts[i].verdict != AL_VERDICT_FINDING)
            continue;
        // What the recent steps show counts for --fail-on only if the whole run shows it too.
        if (!live && al_run_fails_on(r, f))
            r->failed = true;
        if ((live && waits_for_look(r, &verdicts[i])) || told_before(r, &verdicts[i]))
            continue;
        al_run_record_note(r, f);
        if (!r->quiet)
            al_book_say_finding(f, &b);
    }
    if (live)
        want_looks(r, look);
    pthread_mutex_unlock(&r->lock);
    al_run_print(&b);
}

void al_run_say_end(struct al_run *r) {
    struct al_buf b = AL_BUF_INIT;
    al_run_judge(r, false);
    pthread_mutex_lock(&r->lock);
    if (!r->soak.asked)
        al_book_post_mortem(&r->book, &b);
    if (!r->quiet)
        al_book_say_summary(&r->book, r->verbose, &b);
    pthread_mutex_unlock(&r->lock);
    if (!r->quiet && r->written[0]) {
        al_buf_str(&b, "alula: report: ");
        al_term_string(&b, r->written);
        al_buf_str(&b, "/metrics_report.json\n");
    }
    al_run_print(&b);
}
