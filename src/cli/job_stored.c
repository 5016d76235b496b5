// SPDX-License-Identifier: Apache-2.0
#include "cli/job_stored.h"

#include <string.h>

#include "alula-version.h"
#include "cli/cli.h"
#include "job/fill.h"

// Times in a recording count from its first tick; a book takes 0 for "none". Without a job's own origin any will do.
#define ORIGIN_NS (1000 * AL_NS_PER_S)

static int settings_of(struct al_store *s, const char *config, struct al_settings *ret) {
    struct al_config c;
    struct al_config_error e;
    if (config) {
        int status = al_cli_load_config(config, &c);
        *ret = c.settings;
        return status;
    }
    al_config_default(&c);
    const char *text = al_store_meta(s, "config");
    // One of another version may know other keys: then the defaults hold.
    if (text)
        (void)al_config_parse(text, strlen(text), &c, &e);
    *ret = c.settings;
    return 0;
}

static int on_mark(void *user, const struct al_store_process *who, const struct al_mark *m, const char *text, size_t len) {
    struct al_cli_job *job = user;
    struct al_book_rank *k = al_book_find(&job->book, who->pid, who->start_ticks);
    if (!k)
        k = al_book_add(&job->book, who->pid, who->start_ticks);
    if (!k)
        return 0; // more processes than a book holds
    if (text)
        al_tally_text(&k->tally, m->code, text, len);
    else
        al_tally_event(&k->tally, m->at_ns + job->kept.origin_ns, m->kind, m->code, m->device, m->a, m->b);
    return 0;
}

static void shift(struct al_snapshot *s, int64_t by_ns) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_gpu *g = &s->gpus[i];
        for (uint32_t n = 0; n < g->fresh_count && n < AL_FRESH_MAX; n++)
            g->fresh[n].at_ns += by_ns;
        g->m[AL_GPU_UTIL].at_ns += by_ns;
    }
}

// A thinned tick holds a mean over its span: it counts as that mean in each second of it.
static void spread_mean(struct al_store *store, struct al_snapshot *s, int64_t t) {
    static const int seconds[] = {0, 10, 60};
    int level = al_store_level(store, t), count = level > 0 && level < 3 ? seconds[level] : 0;
    for (uint32_t i = 0; count && i < s->gpu_count; i++) {
        struct al_gpu *g = &s->gpus[i];
        struct al_value mean = al_ok(g->m[AL_GPU_UTIL_MEAN]) ? g->m[AL_GPU_UTIL_MEAN] : g->m[AL_GPU_UTIL];
        if (!al_ok(mean))
            continue;
        g->fresh_count = (uint32_t)count;
        for (int n = 0; n < count; n++)
            g->fresh[n] = (struct al_fresh){t + n * AL_NS_PER_S, mean.num};
    }
}

static bool nobody(const void *user, pid_t pid) {
    (void)user, (void)pid;
    return false;
}

// The GPUs' use while the job trained, once more.
static int read_ticks(struct al_store *store, struct al_cli_job *job) {
    struct al_snapshot *s = al_snapshot_new();
    int64_t before = -1, t;
    int result = s ? 0 : AL_E_NOMEM;
    while (!result && al_store_next(store, before, &t) == 0) {
        al_snapshot_clear(s);
        result = al_store_at(store, before, t, s);
        if (!result) {
            spread_mean(store, s, t);
            shift(s, job->kept.origin_ns);
            al_book_snapshot(&job->book, s, job->is_job ? NULL : nobody, NULL);
        }
        before = t;
    }
    al_snapshot_free(s);
    al_book_settle(&job->book);
    return result == AL_E_END ? 0 : result;
}

static int fill(struct al_store *store, struct al_cli_job *job) {
    const char *text = al_store_meta(store, AL_BOOK_KEY);
    job->is_job = text && al_book_read(text, &job->book, &job->kept) == 0;
    if (job->kept.origin_ns <= 0)
        job->kept.origin_ns = ORIGIN_NS;
    int result = al_store_read_marks(store, on_mark, job);
    al_book_counted(&job->book);
    if (!job->is_job) {
        job->book.begin_ns = job->kept.origin_ns;
        job->book.end_ns = job->kept.origin_ns + job->info.duration_ns;
        job->book.device_open = job->book.no_job = true;
        job->book.job.start_realtime_ns = job->info.start_realtime_ns;
    }
    if (!job->kept.finished) {
        job->kept.runtime_seconds = (double)job->info.duration_ns / 1e9;
        job->kept.written_realtime_ns = job->info.start_realtime_ns + job->info.duration_ns;
    }
    return result || job->kept.finished ? result : read_ticks(store, job);
}

int al_cli_job_load(const char *path, const char *config, struct al_cli_job *ret) {
    struct al_store_error e = {{0}};
    struct al_store *store = NULL;
    struct al_settings settings;
    memset(ret, 0, sizeof *ret);
    int result = al_store_open(path, &store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        return al_error_exit_status(result);
    }
    int status = settings_of(store, config, &settings);
    if (!status) {
        al_store_info(store, &ret->info);
        result = al_book_init(&ret->book, &settings);
        if (!result)
            result = fill(store, ret);
        if (result) {
            al_cli_error("%s: %s", path, al_error_text(result));
            status = al_error_exit_status(result);
            al_book_free(&ret->book);
        }
    }
    ret->damaged = al_store_damage(store, &e) > 0;
    if (!status && ret->damaged)
        al_cli_error("%s: %s; the rest is shown", path, e.text);
    al_store_free(store);
    return status;
}

int al_cli_job_json(struct al_cli_job *job, struct al_buf *b) {
    const struct al_book_report r = {.version = AL_VERSION,
                                     .output_dir_source = job->kept.output_dir_source,
                                     .finished = job->kept.finished,
                                     .written_realtime_ns = job->kept.written_realtime_ns,
                                     .runtime_seconds = job->kept.runtime_seconds};
    return al_book_report_json(&job->book, &r, b);
}
