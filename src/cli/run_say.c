// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/run.h"
#include "cli/run_end.h"
#include "detect/say.h"
#include "launch/end.h"

#define GIB 1073741824.0

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
    al_term_string(&b, r->command);
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
    if (r->record) {
        al_buf_str(&b, "; recording: ");
        al_term_string(&b, r->record);
    }
    al_buf_char(&b, '\n');
    al_run_print(&b);
}

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

static void memory_line(struct al_buf *b, struct al_run *r, const struct al_tally *t) {
    double total = 0;
    pthread_mutex_lock(&r->device.lock);
    for (uint32_t i = 0; i < r->device.gpu_count; i++)
        if ((r->device.gpus[i].used_by_job || r->device.gpu_count == 1) && r->device.gpus[i].memory_known)
            total = r->device.gpus[i].memory_total;
    pthread_mutex_unlock(&r->device.lock);
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

static void gpu_line(struct al_buf *b, struct al_run *r, const struct al_tally *t) {
    double ratio;
    if (!al_tally_gpu_ratio(t, &ratio))
        return;
    line_head(b, t);
    al_buf_printf(b, "GPU utilisation about %s (estimate: time between CUDA events / step time)", al_say_percent(ratio).s);
    struct al_run_utilization u;
    al_run_utilization(r, &u);
    if (u.known)
        al_buf_printf(b, ", by NVML so far %s", al_say_percent(u.mean).s);
    al_buf_char(b, '\n');
}

static void step_lines(struct al_buf *b, struct al_run *r, struct al_run_rank *k, uint64_t steps) {
    const struct al_tally *t = &k->tally;
    double n = (double)(steps - k->logged_steps);
    int64_t part[AL_PART_COUNT], rest = t->total.part_ns[AL_IN_OTHER] - k->logged.part_ns[AL_IN_OTHER];
    for (int i = 0; i < AL_PART_COUNT; i++)
        part[i] = t->total.part_ns[i] - k->logged.part_ns[i];
    memory_line(b, r, t);
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
    gpu_line(b, r, t);
}

void al_run_say_step(struct al_run *r, struct al_run_rank *k) {
    struct al_buf b = AL_BUF_INIT;
    uint64_t steps = al_tally_steps(&k->tally);
    if (steps % r->log_every != 0)
        return;
    step_lines(&b, r, k, steps);
    k->logged = k->tally.total;
    k->logged_steps = steps;
    al_run_print(&b);
}

// ---- verdicts ----

static void say_finding(const struct al_run *r, const struct al_finding *f) {
    struct al_buf b = AL_BUF_INIT;
    if (r->quiet)
        return;
    al_buf_printf(&b, "alula: %s: %s -- ", al_level_word(f->level), f->title);
    al_term_string(&b, f->message);
    al_buf_printf(&b, " [confidence %s]\nalula:     also considered: ", al_confidence_word(f->confidence));
    al_term_string(&b, f->considered);
    al_buf_str(&b, "\nalula:     do: ");
    al_term_string(&b, f->advice);
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

static uint32_t judge(struct al_run *r, bool live, struct al_steps_verdict *verdicts) {
    static struct al_steps_rank ranks[AL_RUN_RANKS];
    struct al_steps_view view;
    struct al_run_utilization u;
    (void)al_run_view(r, live, ranks, &view);
    al_run_utilization(r, &u);
    view.utilization_known = u.known;
    view.utilization = u.mean;
    view.utilization_missing = u.why;
    return al_steps_judge(&r->settings, &view, verdicts, AL_STEPS_VERDICTS);
}

uint32_t al_run_verdicts(struct al_run *r, struct al_steps_verdict *ret) {
    return judge(r, false, ret);
}

void al_run_judge(struct al_run *r, bool live) {
    static struct al_steps_verdict verdicts[AL_STEPS_VERDICTS];
    uint32_t count = judge(r, live, verdicts);
    for (uint32_t i = 0; i < count; i++) {
        struct al_finding *f = &verdicts[i].finding;
        if (verdicts[i].verdict != AL_VERDICT_FINDING)
            continue;
        // What the recent steps show counts for --fail-on only if the whole run shows it too.
        if (!live && (int)f->level > r->level)
            r->level = (int)f->level;
        if (!told_before(r, &verdicts[i]))
            say_finding(r, f);
    }
}

// ---- the end ----

static void summary_line(struct al_buf *b, const struct al_run_rank *k) {
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

static void gpu_summary(struct al_buf *b, struct al_run *r) {
    struct al_run_utilization u;
    al_run_utilization(r, &u);
    if (u.known)
        al_buf_printf(b, "alula: GPU utilisation while training: mean %s, most %s (%s)\n", al_say_percent(u.mean).s,
                      al_say_percent(u.max).s, u.why);
    else {
        al_buf_str(b, "alula: GPU utilisation: not known: ");
        al_term_string(b, u.why);
        al_buf_char(b, '\n');
    }
}

static void verdict_lines(struct al_buf *b, struct al_run *r) {
    static struct al_steps_verdict verdicts[AL_STEPS_VERDICTS];
    static const char *const words[] = {"nothing found", "finding", "too little data", "cannot tell"};
    uint32_t count = judge(r, false, verdicts);
    for (uint32_t i = 0; i < count; i++) {
        const struct al_steps_verdict *v = &verdicts[i];
        // Details of rules that found nothing are for --verbose; whether all is well is for everyone.
        if (!r->verbose && v->verdict != AL_VERDICT_FINDING && strcmp(v->rule, "healthy") != 0)
            continue;
        if (v->verdict == AL_VERDICT_QUIET && strcmp(v->rule, "healthy") == 0)
            al_buf_str(b, "alula: "); // its message says it all
        else
            al_buf_printf(b, "alula: %s: %s: ", v->rule, words[v->verdict]);
        al_term_string(b, v->finding.message);
        al_buf_char(b, '\n');
    }
}

void al_run_say_end(struct al_run *r) {
    struct al_buf b = AL_BUF_INIT;
    al_run_judge(r, false);
    al_run_say_post_mortem(r, &b);
    if (r->quiet) {
        al_run_print(&b);
        return;
    }
    uint32_t trained = 0;
    for (uint32_t i = 0; i < r->rank_count; i++) {
        if (!al_tally_trains(&r->ranks[i]->tally))
            continue;
        if (trained++ < 8 || r->verbose)
            summary_line(&b, r->ranks[i]);
    }
    if (trained > 8 && !r->verbose)
        al_buf_printf(&b, "alula: and %u ranks more (all of them in the report, or with --verbose)\n", trained - 8);
    if (!trained)
        al_buf_printf(&b, "alula: no training step was seen (%u process%s told of themselves)\n", r->rank_count,
                      r->rank_count == 1 ? "" : "es");
    uint32_t alive = 0;
    for (uint32_t i = 0; i < r->rank_count; i++)
        alive += !r->ranks[i]->ended && al_tally_trains(&r->ranks[i]->tally);
    if (alive)
        al_buf_printf(&b, "alula: %u training process%s go%s on, from now on unwatched\n", alive, alive == 1 ? "" : "es",
                      alive == 1 ? "es" : "");
    gpu_summary(&b, r);
    verdict_lines(&b, r);
    if (r->written[0]) {
        al_buf_str(&b, "alula: report: ");
        al_term_string(&b, r->written);
        al_buf_str(&b, "/metrics_report.json\n");
    }
    al_run_print(&b);
}
