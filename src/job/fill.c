// SPDX-License-Identifier: Apache-2.0
// metrics_report.json from what was counted.
#include "job/fill.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/report.h"
#include "job/communication.h"
#include "job/end.h"
#include "job/memory.h"
#include "job/useful.h"

#define GIB 1073741824.0

static void put(struct al_report *p, int key, bool known, double value, const char *confidence, const char *source) {
    struct al_report_figure *f = &p->figures[key];
    f->known = known;
    f->value = value;
    f->confidence = confidence;
    (void)al_str_copy(f->source, sizeof f->source, source);
}

// The trainer's own closing figure where it told one: the two must not contradict each other.
static void put_speed(struct al_report *p, const struct al_tally *t, int key, const char *name, bool known, double value,
                      const char *source) {
    double own;
    if (t && al_tally_metric(t, name, &own))
        put(p, key, true, own, "exact", "the trainer's own closing metrics");
    else
        put(p, key, known, value, "exact", source);
}

// A rate varies as the steps' times do.
static void put_rate_errors(struct al_report *p, const struct al_tally *t) {
    static const int keys[] = {AL_REPORT_train_steps_per_second, AL_REPORT_train_samples_per_second};
    double error, mean = t && al_tally_steps(t) ? (double)t->total.wall_ns / 1e9 / (double)al_tally_steps(t) : 0;
    if (mean <= 0 || !al_spread_error(&t->spread_wall, &error))
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        p->figures[keys[i]].error = p->figures[keys[i]].value * error / mean;
}

static double samples_of_all(const struct al_book *book, bool *ret_known) {
    double sum = 0;
    *ret_known = true;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_tally *t = &book->ranks[i]->tally;
        if (!al_tally_steps(t))
            continue;
        *ret_known &= !t->samples_unknown && t->samples > 0;
        sum += (double)t->samples;
    }
    return sum;
}

static void put_speeds(struct al_report *p, const struct al_book *book) {
    const struct al_book_rank *leader = al_book_leader(book);
    const struct al_tally *t = leader ? &leader->tally : NULL;
    double seconds = t ? (double)t->total.wall_ns / 1e9 : 0;
    bool steps = t && al_tally_steps(t) && seconds > 0, samples_known;
    double samples = samples_of_all(book, &samples_known);
    const char *none = !t ? "no process told of training steps" : "no step ended";
    put_speed(p, t, AL_REPORT_train_runtime, "train_runtime", steps, seconds,
              steps ? "from the first step's begin to the last step's end" : none);
    put_speed(p, t, AL_REPORT_train_steps_per_second, "train_steps_per_second", steps,
              steps ? (double)t->done / seconds : 0, steps ? "optimizer steps over train_runtime" : none);
    put_speed(p, t, AL_REPORT_train_samples_per_second, "train_samples_per_second", steps && samples_known,
              steps ? samples / seconds : 0,
              !steps ? none : samples_known ? "samples of all ranks over train_runtime" : "batch sizes were not told");
    put_rate_errors(p, t);
}

static void put_device(struct al_report *p, struct al_book *book) {
    struct al_book_utilization u;
    double peak = 0, most = -1;
    al_book_utilization(book, &u);
    put(p, AL_REPORT_gpu_avg_utilization_percent, u.known, u.mean * 100, "exact", u.why);
    put(p, AL_REPORT_gpu_max_utilization_percent, u.known, u.max * 100, "exact", u.why);
    p->figures[AL_REPORT_gpu_avg_utilization_percent].error = u.error * 100;
    for (uint32_t i = 0; i < book->rank_count; i++)
        if (al_tally_peak(&book->ranks[i]->tally, &peak) && peak > most)
            most = peak;
    put(p, AL_REPORT_gpu_peak_memory_allocated_gb, most >= 0, most / GIB, "exact",
        most >= 0 ? "torch's allocator, greatest rank and device, in GiB" : "no process told of a CUDA allocator");
}

static void put_shares(struct al_report *p, struct al_book *book) {
    struct al_steps_view view;
    struct al_steps_communication c;
    double data = 0;
    al_book_view(book, false, &view);
    bool known = al_steps_share(&view, AL_IN_DATA, true, &data);
    const char *unseen = al_steps_data_unknown(&view);
    put(p, AL_REPORT_data_loading_time_ratio, known && !unseen, data, "exact",
        !known ? "no step ended" : unseen ? unseen : "waiting for data over wall time of all steps, all ranks");
    al_steps_communication(&view, &c);
    put(p, AL_REPORT_communication_time_ratio, known && c.known, c.ratio, c.ratio > 0 ? "inferred" : "exact",
        known ? c.source : "no step ended");
}

struct storage {
    struct al_report_log log;
    struct al_report_gpu gpus[AL_GPU_MAX];
    struct al_report_verdict verdict_rows[AL_STEPS_VERDICTS];
    struct al_report_rank *rows;
    struct al_book_memory *memory; // one a row
    char (*ended)[700];
};

static void put_times(struct al_report_rank *row, const struct al_tally *t) {
    uint64_t steps = al_tally_steps(t);
    row->wall_seconds = (double)t->total.wall_ns / 1e9;
    row->step_mean_seconds = steps ? row->wall_seconds / (double)steps : 0;
    row->step_least_seconds = (double)t->shortest_ns / 1e9;
    row->step_most_seconds = (double)t->longest_ns / 1e9;
    row->part_count = AL_PART_COUNT;
    for (int i = 0; i < AL_PART_COUNT; i++) {
        row->part_words[i] = al_part_word(i);
        row->part_seconds[i] = (double)t->total.part_ns[i] / 1e9;
        row->after_seconds[i] = (double)t->current.part_ns[i] / 1e9;
    }
    row->errors_known = al_spread_error(&t->spread_wall, &row->step_error_seconds);
    for (int i = 0; i < AL_PART_COUNT; i++)
        row->errors_known &= al_spread_error(&t->spread_part[i], &row->part_error_seconds[i]);
    row->gpu_known = al_tally_gpu_ratio(t, &row->gpu_ratio);
    row->gpu_steps = t->gpu_steps;
    for (int i = 0; i < AL_PHASE_COUNT; i++) {
        row->gpu_words[i] = al_part_word(i);
        row->gpu_seconds[i] = (double)t->gpu_ns[i] / 1e9;
    }
}

static void put_rank(const struct al_book *book, const struct al_book_rank *k, struct al_report_rank *row,
                     struct al_book_memory *memory, char *ended, size_t size) {
    const struct al_tally *t = &k->tally;
    *row = (struct al_report_rank){.rank = t->rank,
                                   .world = t->world,
                                   .epoch = t->epoch,
                                   .pid = k->pid,
                                   .framework = t->text[AL_TEXT_FRAMEWORK],
                                   .step_source = t->text[AL_TEXT_SOURCE],
                                   .error = t->text[AL_TEXT_ERROR],
                                   .where = t->text[AL_TEXT_WHERE],
                                   .done = t->done,
                                   .skipped = t->skipped,
                                   .aborted = t->aborted,
                                   .micro = t->micro,
                                   .lost = t->lost,
                                   .samples_known = t->samples > 0 && !t->samples_unknown,
                                   .samples = (double)t->samples,
                                   .ended = "",
                                   .phase = al_part_word((int)al_tally_phase(t)),
                                   .step = al_tally_steps(t) ? t->step : -1};
    put_times(row, t);
    al_book_memory_fill(k, memory, &row->memory);
    if (k->ended && !al_book_ended_well(k)) {
        al_book_cause(book, k, ended, size);
        row->ended = ended;
    }
}

static void put_gpus(struct al_report *p, const struct al_book *book, struct al_report_gpu *rows) {
    for (uint32_t i = 0; i < book->gpu_count; i++) {
        const struct al_book_gpu *g = &book->gpus[i];
        rows[i] = (struct al_report_gpu){.uuid = g->uuid,
                                         .name = g->name,
                                         .index = g->index,
                                         .used_by_job = g->used_by_job,
                                         .utilization_known = g->covered_ns > 0,
                                         .utilization_mean = g->covered_ns > 0 ? g->ratio_ns / g->covered_ns : 0,
                                         .utilization_max = g->max,
                                         .utilization_error = al_book_gpu_error(g),
                                         .covered_seconds = g->covered_ns / 1e9,
                                         .memory_known = g->memory_known,
                                         .memory_most = g->memory_most,
                                         .memory_total = g->memory_total};
    }
    p->gpus = rows;
    p->gpu_count = book->gpu_count;
    p->device_missing = book->device_open ? NULL : book->device_missing;
}

static void put_verdicts(struct al_report *p, struct al_book *book, struct storage *s) {
    const struct al_steps_verdict *verdicts;
    p->verdict_count = al_book_judge(book, false, &verdicts);
    for (uint32_t i = 0; i < p->verdict_count; i++)
        s->verdict_rows[i] = (struct al_report_verdict){verdicts[i].rule, al_book_verdict_word(verdicts[i].verdict),
                                                        &verdicts[i].finding};
    p->verdicts = s->verdict_rows;
}

static void fill(struct al_report *p, struct al_book *book, struct storage *s) {
    put_speeds(p, book);
    put_device(p, book);
    put_shares(p, book);
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (al_tally_trains(&k->tally)) {
            put_rank(book, k, &s->rows[p->rank_count], &s->memory[p->rank_count],
                     s->ended[p->rank_count], sizeof s->ended[0]);
            p->rank_count++;
        }
    }
    p->ranks = s->rows;
    put_verdicts(p, book, s);
    put_gpus(p, book, s->gpus);
    al_book_useful(book, &p->useful);
    p->log = al_book_trainer_log(book, &s->log) ? &s->log : NULL;
    al_book_communication(book, &p->communication);
}

int al_book_report_json(struct al_book *book, const struct al_book_report *r, struct al_buf *b) {
    char end[96] = "";
    struct al_report p = {.version = r->version,
                          .command = book->job.command,
                          .output_dir_source = r->output_dir_source,
                          .started_realtime_ns = book->job.start_realtime_ns,
                          .written_realtime_ns = r->written_realtime_ns,
                          .finished = r->finished,
                          .runtime_seconds = r->runtime_seconds,
                          .job_end = end};
    size_t rows = book->rank_count ? book->rank_count : 1;
    struct storage *s = calloc(1, sizeof *s);
    if (!s)
        return AL_E_NOMEM;
    s->rows = calloc(rows, sizeof *s->rows);
    s->memory = calloc(rows, sizeof *s->memory);
    s->ended = calloc(rows, sizeof *s->ended);
    if (r->finished && book->job.ended)
        al_book_status_words(book->job.status, end, sizeof end);
    struct al_buf processes = AL_BUF_INIT;
    al_book_put_tree(&processes, book);
    al_buf_char(&processes, '\0');
    p.processes = processes.data;
    bool room = s->rows && s->memory && s->ended && !processes.failed;
    if (room) {
        fill(&p, book, s);
        al_report_json(b, &p);
    }
    al_buf_free(&processes);
    free(s->rows);
    free(s->memory);
    free(s->ended);
    free(s);
    return room && !b->failed ? 0 : AL_E_NOMEM;
}
