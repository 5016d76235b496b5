// SPDX-License-Identifier: Apache-2.0
#include "export/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "export/jsonl.h"
#include "export/report_part.h"
#include "model/told.h"

static const struct {
    const char *key;
    int decimals;
} figure_table[] = {
#define X(key, decimals) {#key, decimals},
    AL_REPORT_FIGURES(X)
#undef X
};

void al_report_text(struct al_buf *b, const char *key, const char *text) {
    al_buf_printf(b, ",\"%s\":", key);
    al_json_string_or_null(b, text);
}

void al_report_number(struct al_buf *b, const char *key, bool known, double value) {
    al_buf_printf(b, ",\"%s\":", key);
    if (known)
        al_buf_number(b, value);
    else
        al_buf_str(b, "null");
}

static void key_count(struct al_buf *b, const char *key, uint64_t value) {
    al_buf_printf(b, ",\"%s\":%llu", key, (unsigned long long)value);
}

void al_report_id(struct al_buf *b, const char *key, int64_t value) {
    al_buf_printf(b, ",\"%s\":", key);
    al_json_integer_or_null(b, value >= 0, value);
}

static void put_figures(struct al_buf *b, const struct al_report *r) {
    for (int i = 0; i < AL_REPORT_FIGURE_COUNT; i++) {
        const struct al_report_figure *f = &r->figures[i];
        al_buf_printf(b, "  \"%s\": ", figure_table[i].key);
        if (f->known)
            al_buf_fixed(b, f->value, figure_table[i].decimals);
        else
            al_buf_str(b, "null");
        al_buf_str(b, ",\n");
    }
}

static void put_sources(struct al_buf *b, const struct al_report *r) {
    al_buf_str(b, ",\n    \"figures\": {");
    for (int i = 0; i < AL_REPORT_FIGURE_COUNT; i++) {
        const struct al_report_figure *f = &r->figures[i];
        al_buf_printf(b, "%s\n      \"%s\": {\"confidence\":", i ? "," : "", figure_table[i].key);
        al_json_string(b, f->known && f->confidence ? f->confidence : "none");
        al_report_text(b, f->known ? "source" : "reason", f->source);
        if (f->known && f->error > 0)
            al_report_number(b, "error", true, f->error);
        al_buf_char(b, '}');
    }
    al_buf_str(b, "\n    }");
}

static void put_parts(struct al_buf *b, const char *key, const struct al_report_rank *k, const double *seconds) {
    al_buf_printf(b, ",\"%s\":{", key);
    for (uint32_t i = 0; i < k->part_count; i++) {
        al_buf_printf(b, "%s\"%s\":", i ? "," : "", k->part_words[i]);
        al_buf_number(b, seconds[i]);
    }
    al_buf_char(b, '}');
}

// Of the parts that the process itself told of, in its own words.
static void put_confidence(struct al_buf *b, const struct al_report_rank *k) {
    const char *source = k->step_source ? k->step_source : "";
    al_buf_str(b, ",\"part_confidence\":{");
    for (uint32_t i = 0, n = 0; i < k->part_count; i++) {
        const char *word = al_told_confidence(source, k->part_words[i]);
        if (word)
            al_buf_printf(b, "%s\"%s\":\"%s\"", n++ ? "," : "", k->part_words[i], word);
    }
    al_buf_char(b, '}');
    al_report_text(b, "part_unknown_because", al_told_reason(source));
}

static void put_host_timeline(struct al_buf *b, const struct al_report_rank *k) {
    double other = k->part_count ? k->part_seconds[0] : 0;
    bool known = k->wall_seconds > 0;
    al_buf_str(b, ",\n       \"host_timeline\":{\"source\":\"marks of the probe\",\"confidence\":\"exact\"");
    put_confidence(b, k);
    al_report_number(b, "wall_seconds", known, k->wall_seconds);
    al_report_number(b, "explained_ratio", known, known ? 1 - other / k->wall_seconds : 0);
    put_parts(b, "seconds", k, k->part_seconds);
    put_parts(b, "after_last_step_seconds", k, k->after_seconds);
    if (k->errors_known) {
        al_report_number(b, "step_error_seconds", true, k->step_error_seconds);
        put_parts(b, "errors_seconds", k, k->part_error_seconds);
    }
    al_buf_char(b, '}');
}

static void put_gpu_timeline(struct al_buf *b, const struct al_report_rank *k) {
    al_buf_str(b, ",\n       \"gpu_timeline\":");
    if (!k->gpu_known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_str(b, "{\"source\":\"CUDA events at the marks\",\"confidence\":\"inferred\"");
    key_count(b, "measured_steps", k->gpu_steps);
    al_report_number(b, "estimated_ratio", true, k->gpu_ratio);
    al_buf_str(b, ",\"seconds\":{");
    for (int i = 0, n = 0; i < AL_PHASE_COUNT; i++)
        if (k->gpu_seconds[i] > 0) {
            al_buf_printf(b, "%s\"%s\":", n++ ? "," : "", k->gpu_words[i]);
            al_buf_number(b, k->gpu_seconds[i]);
        }
    al_buf_str(b, "}}");
}

static void put_rank(struct al_buf *b, const struct al_report_rank *k) {
    al_buf_printf(b, "\n      {\"pid\":%lld", (long long)k->pid);
    al_report_id(b, "rank", k->rank);
    al_report_id(b, "world_size", k->world);
    al_report_text(b, "framework", k->framework);
    al_report_text(b, "step_source", k->step_source);
    key_count(b, "steps", k->done);
    key_count(b, "skipped_steps", k->skipped);
    key_count(b, "aborted_steps", k->aborted);
    key_count(b, "micro_steps", k->micro);
    al_report_number(b, "samples", k->samples_known, k->samples);
    al_report_id(b, "epoch", k->epoch);
    key_count(b, "lost_records", k->lost);
    bool steps = k->done + k->skipped + k->aborted > 0;
    al_report_number(b, "step_mean_seconds", steps, k->step_mean_seconds);
    al_report_number(b, "step_least_seconds", steps, k->step_least_seconds);
    al_report_number(b, "step_most_seconds", steps, k->step_most_seconds);
    put_host_timeline(b, k);
    put_gpu_timeline(b, k);
    al_report_rank_memory(b, &k->memory);
    al_buf_str(b, ",\n       \"last\":{\"phase\":");
    al_json_string_or_null(b, k->phase);
    al_report_id(b, "step", k->step);
    al_report_text(b, "ended", k->ended);
    al_report_text(b, "error", k->error);
    al_report_text(b, "where", k->where);
    al_report_oom(b, k->memory.oom);
    al_buf_str(b, "}}");
}

static void put_gpu(struct al_buf *b, const struct al_report_gpu *g) {
    al_buf_printf(b, "\n      {\"index\":%u", g->index);
    al_report_text(b, "uuid", g->uuid);
    al_report_text(b, "name", g->name);
    al_buf_printf(b, ",\"used_by_job\":%s", g->used_by_job ? "true" : "false");
    al_report_number(b, "utilization_mean_ratio", g->utilization_known, g->utilization_mean);
    al_report_number(b, "utilization_max_ratio", g->utilization_known, g->utilization_max);
    al_report_number(b, "covered_seconds", g->utilization_known, g->covered_seconds);
    al_report_number(b, "memory_used_most_bytes", g->memory_known, g->memory_most);
    al_report_number(b, "memory_total_bytes", g->memory_known, g->memory_total);
    al_buf_char(b, '}');
}

static void put_verdict(struct al_buf *b, const struct al_report_verdict *v) {
    const struct al_finding *f = v->finding;
    al_buf_str(b, "\n      {\"rule\":");
    al_json_string(b, v->rule);
    al_report_text(b, "entity", f->key);
    al_report_text(b, "verdict", v->verdict);
    al_report_text(b, "title", f->title);
    al_report_text(b, "message", f->message);
    al_report_text(b, "considered", f->considered);
    al_report_text(b, "advice", f->advice);
    al_buf_str(b, ",\"evidence\":[");
    for (uint32_t i = 0; i < f->evidence_count; i++) {
        const struct al_evidence *e = &f->evidence[i];
        al_buf_str(b, i ? ",{\"name\":" : "{\"name\":");
        al_json_string(b, e->name);
        al_report_number(b, "value", true, e->value);
        al_report_text(b, "unit", al_unit_word(e->unit));
        al_report_text(b, "source", e->source);
        al_buf_char(b, '}');
    }
    al_buf_str(b, "]}");
}

static void put_device(struct al_buf *b, const struct al_report *r) {
    al_buf_str(b, ",\n    \"device\": {\"source\":\"nvml\"");
    al_report_text(b, "missing", r->device_missing);
    al_buf_str(b, ",\"gpus\":[");
    for (uint32_t i = 0; i < r->gpu_count; i++) {
        if (i)
            al_buf_char(b, ',');
        put_gpu(b, &r->gpus[i]);
    }
    al_buf_str(b, "]}");
}

void al_report_json(struct al_buf *b, const struct al_report *r) {
    al_buf_str(b, "{\n");
    put_figures(b, r);
    al_buf_printf(b, "  \"alula\": {\n    \"report_version\": %d", AL_REPORT_VERSION);
    al_report_text(b, "alula_version", r->version);
    al_report_text(b, "command", r->command);
    al_buf_str(b, ",\"started\":");
    al_jsonl_time(b, r->started_realtime_ns);
    al_buf_str(b, ",\"written\":");
    al_jsonl_time(b, r->written_realtime_ns);
    al_buf_printf(b, ",\"finished\":%s", r->finished ? "true" : "false");
    al_report_number(b, "command_seconds", true, r->runtime_seconds);
    al_report_text(b, "job_end", r->job_end);
    al_report_text(b, "output_dir_from", r->output_dir_source);
    put_sources(b, r);
    put_device(b, r);
    al_report_useful(b, &r->useful);
    al_report_log(b, r->log);
    al_buf_printf(b, ",\n    \"processes\": %s", r->processes ? r->processes : "null");
    al_buf_str(b, ",\n    \"communication\": ");
    al_report_communication(b, &r->communication);
    al_buf_str(b, ",\n    \"ranks\": [");
    for (uint32_t i = 0; i < r->rank_count; i++) {
        if (i)
            al_buf_char(b, ',');
        put_rank(b, &r->ranks[i]);
    }
    al_buf_str(b, "],\n    \"verdicts\": [");
    for (uint32_t i = 0; i < r->verdict_count; i++) {
        if (i)
            al_buf_char(b, ',');
        put_verdict(b, &r->verdicts[i]);
    }
    al_buf_str(b, "]\n  }\n}\n");
}

static int error_now(void) {
    return errno == ENOENT || errno == ENOTDIR ? AL_E_NOENT
           : errno == EACCES || errno == EPERM || errno == EROFS ? AL_E_DENIED : AL_E_IO;
}

int al_report_write(const struct al_buf *b, const char *folder) {
    char path[4200], beside[4240];
    if (b->failed)
        return AL_E_NOMEM;
    int len = snprintf(path, sizeof path, "%s/metrics_report.json", folder);
    if (len < 0 || len >= (int)sizeof path)
        return AL_E_INVALID;
    (void)snprintf(beside, sizeof beside, "%s.%lld.tmp", path, (long long)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return error_now();
    bool good = al_fs_write_all(fd, b->data ? b->data : "", b->len); // no fsync: behind a checkpoint it may take seconds
    int error = errno;
    if (close(fd) && good) {
        good = false;
        error = errno;
    }
    if (good && rename(beside, path) == 0)
        return 0;
    if (good)
        error = errno;
    (void)unlink(beside);
    errno = error;
    return error_now();
}
