// SPDX-License-Identifier: Apache-2.0
#include "job/keep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

#define VERSION_LINE "job 1"
#define LINE 1024

static void word(struct al_buf *b, const char *key, const char *text) {
    al_buf_printf(b, "%s ", key);
    for (const char *p = text; *p; p++)
        al_buf_char(b, (unsigned char)*p < ' ' ? ' ' : *p);
    al_buf_char(b, '\n');
}

static void number(struct al_buf *b, const char *key, double value) {
    al_buf_printf(b, "%s ", key);
    al_buf_number(b, value);
    al_buf_char(b, '\n');
}

static void count(struct al_buf *b, const char *key, int64_t value) {
    al_buf_printf(b, "%s %lld\n", key, (long long)value);
}

static void keep_rank(struct al_buf *b, const struct al_book_rank *k) {
    al_buf_printf(b, "rank %d %llu %llu %d %lld %d %d\n", (int)k->pid, (unsigned long long)k->start_ticks,
                  (unsigned long long)k->tally.lost, (int)k->workers, (long long)(k->ended ? k->ended_ns : 0),
                  k->status_known, k->status);
}

static void keep_gpu(struct al_buf *b, const struct al_book_gpu *g) {
    const double numbers[] = {g->ratio_ns, g->covered_ns, g->max, g->memory_known, g->memory_most, g->memory_total,
                              al_book_gpu_error(g)};
    al_buf_printf(b, "gpu %s %u %d", g->uuid, g->index, g->used_by_job);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        al_buf_char(b, ' ');
        al_buf_number(b, numbers[i]);
    }
    word(b, "", g->name);
}

static void keep_tree(struct al_buf *b, const struct al_book_tree *t) {
    if (!t->processes)
        return;
    al_buf_printf(b, "tree %u", t->processes);
    for (int i = 0; i < AL_BOOK_KIND_COUNT; i++)
        al_buf_printf(b, " %u", t->most[i]);
    al_buf_char(b, '\n');
}

static void keep_trainlog(struct al_buf *b, const struct al_book *book) {
    const struct al_trainlog *l = &book->trainlog;
    const double numbers[] = {l->steps_per_second, l->elapsed_seconds, l->memory_gib};
    if (!*book->trainlog_path)
        return;
    word(b, "trainlog_path", book->trainlog_path);
    al_buf_printf(b, "trainlog %d %d %d %lld %lld %llu %llu", (int)l->writer, (int)l->speed_key, l->old_speed_after_resume,
                  (long long)l->step, (long long)l->steps_of_all, (unsigned long long)l->lines,
                  (unsigned long long)l->damaged);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        al_buf_char(b, ' ');
        al_buf_number(b, numbers[i]); // "null" when not told
    }
    al_buf_char(b, '\n');
}

void al_book_keep(struct al_buf *b, const struct al_book *book, const struct al_book_kept *k) {
    const struct al_book_job *j = &book->job;
    al_buf_str(b, VERSION_LINE "\n");
    count(b, "pid", j->pid);
    word(b, "command", j->command);
    count(b, "origin_ns", k->origin_ns);
    count(b, "start_ns", j->start_ns);
    count(b, "start_realtime_ns", j->start_realtime_ns);
    count(b, "written_realtime_ns", k->written_realtime_ns);
    number(b, "runtime_seconds", k->runtime_seconds);
    number(b, "cpus", j->cpus);
    count(b, "finished", k->finished);
    count(b, "ended", j->ended);
    count(b, "status", j->status);
    count(b, "oom_kills", (int64_t)j->oom_kills);
    if (*k->output_dir_source)
        word(b, "output_dir_source", k->output_dir_source);
    if (!book->device_open)
        word(b, "device_missing", book->device_missing);
    keep_tree(b, &book->tree);
    keep_trainlog(b, book);
    for (uint32_t i = 0; i < book->rank_count; i++) {
        keep_rank(b, book->ranks[i]);
        al_book_keep_look(b, book->ranks[i]);
    }
    for (uint32_t i = 0; i < book->gpu_count; i++)
        keep_gpu(b, &book->gpus[i]);
}

// ---- reading ----

// The next word of a line that is cut up on the way; NULL at its end.
static char *next(char **p) {
    char *w = *p + strspn(*p, " ");
    if (!*w)
        return NULL;
    char *end = w + strcspn(w, " ");
    *p = *end ? end + 1 : end;
    *end = '\0';
    return w;
}

static bool take_i64(char **p, int64_t low, int64_t high, int64_t *ret) {
    char *w = next(p);
    return w && al_str_i64(w, ret) && *ret >= low && *ret <= high;
}

static bool take_double(char **p, double *ret) {
    char *w = next(p);
    return w && al_str_double(w, ret) && isfinite(*ret) && *ret >= 0;
}

struct al_book_rank *al_book_find(const struct al_book *book, pid_t pid, uint64_t start_ticks) {
    for (uint32_t i = 0; i < book->rank_count; i++)
        if (book->ranks[i]->pid == pid && book->ranks[i]->start_ticks == start_ticks)
            return book->ranks[i];
    return NULL;
}

static void read_tree(char *p, struct al_book_tree *ret) {
    struct al_book_tree t = {0};
    int64_t n;
    if (!take_i64(&p, 1, UINT32_MAX, &n))
        return;
    t.processes = (uint32_t)n;
    // One of another version may know other kinds behind these.
    for (int i = 0; i < AL_BOOK_KIND_COUNT && take_i64(&p, 0, UINT32_MAX, &n); i++)
        t.most[i] = (uint32_t)n;
    *ret = t;
}

static bool take_told(char **p, double *ret) {
    char *w = next(p);
    *ret = NAN;
    return w && (strcmp(w, "null") == 0 || (al_str_double(w, ret) && isfinite(*ret) && *ret >= 0));
}

static void read_trainlog(char *p, struct al_trainlog *ret) {
    struct al_trainlog l;
    int64_t writer, key, old, lines, damaged;
    al_trainlog_init(&l);
    if (!take_i64(&p, 0, AL_TRAINLOG_MEGATRON, &writer) || !take_i64(&p, 0, AL_TRAINLOG_S_IT, &key) ||
        !take_i64(&p, 0, 1, &old) || !take_i64(&p, -1, INT64_MAX, &l.step) || !take_i64(&p, -1, INT64_MAX, &l.steps_of_all) ||
        !take_i64(&p, 0, INT64_MAX, &lines) || !take_i64(&p, 0, INT64_MAX, &damaged) ||
        !take_told(&p, &l.steps_per_second) || !take_told(&p, &l.elapsed_seconds) || !take_told(&p, &l.memory_gib))
        return;
    l.writer = (enum al_trainlog_writer)writer;
    l.speed_key = (enum al_trainlog_speed)key;
    l.old_speed_after_resume = old;
    l.lines = (uint64_t)lines;
    l.damaged = (uint64_t)damaged;
    // A speed without its key cannot be told of.
    if (key == AL_TRAINLOG_NO_SPEED)
        l.steps_per_second = NAN;
    *ret = l;
}

static void read_rank(char *p, struct al_book *book) {
    int64_t pid, start, lost, workers, ended, known, status;
    if (!take_i64(&p, 1, INT32_MAX, &pid) || !take_i64(&p, 0, INT64_MAX, &start) || !take_i64(&p, 0, INT64_MAX, &lost) ||
        !take_i64(&p, -1, INT32_MAX, &workers) || !take_i64(&p, 0, INT64_MAX, &ended) || !take_i64(&p, 0, 1, &known) ||
        !take_i64(&p, 0, INT32_MAX, &status) || al_book_find(book, (pid_t)pid, (uint64_t)start))
        return;
    struct al_book_rank *k = al_book_add(book, (pid_t)pid, (uint64_t)start);
    if (!k)
        return;
    al_tally_lost(&k->tally, (uint64_t)lost);
    k->workers = (int32_t)workers;
    k->ended = ended > 0;
    k->ended_ns = ended;
    k->status_known = known;
    k->status = (int)status;
}

static void read_gpu(char *p, struct al_book *book) {
    struct al_book_gpu *g = &book->gpus[book->gpu_count], read = {0};
    int64_t index, used;
    double known;
    char *uuid = next(&p);
    if (book->gpu_count == AL_GPU_MAX || !uuid || al_book_gpu(book, uuid) ||
        !take_i64(&p, 0, INT32_MAX, &index) || !take_i64(&p, 0, 1, &used) || !take_double(&p, &read.ratio_ns) ||
        !take_double(&p, &read.covered_ns) || !take_double(&p, &read.max) || !take_double(&p, &known) ||
        !take_double(&p, &read.memory_most) || !take_double(&p, &read.memory_total) ||
        !take_double(&p, &read.kept_error) ||
        !al_str_copy(read.uuid, sizeof read.uuid, uuid))
        return;
    read.index = (uint32_t)index;
    read.used_by_job = used;
    read.memory_known = known != 0;
    (void)al_str_copy(read.name, sizeof read.name, p + strspn(p, " "));
    (void)al_str_clean(read.name); // what is written again is read alike
    *g = read;
    book->gpu_count++;
}

static void read_job(const char *key, char *p, struct al_book *book, struct al_book_kept *k) {
    struct al_book_job *j = &book->job;
    int64_t n = 0;
    const struct {
        const char *key;
        int64_t *number;
    } numbers[] = {{"origin_ns", &k->origin_ns},
                   {"start_ns", &j->start_ns},
                   {"start_realtime_ns", &j->start_realtime_ns},
                   {"written_realtime_ns", &k->written_realtime_ns}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0 && take_i64(&p, 0, INT64_MAX / 2, &n))
            *numbers[i].number = n;
    if (strcmp(key, "pid") == 0 && take_i64(&p, 0, INT32_MAX, &n))
        j->pid = (pid_t)n;
    else if (strcmp(key, "finished") == 0 && take_i64(&p, 0, 1, &n))
        k->finished = n;
    else if (strcmp(key, "ended") == 0 && take_i64(&p, 0, 1, &n))
        j->ended = n;
    else if (strcmp(key, "status") == 0 && take_i64(&p, 0, INT32_MAX, &n))
        j->status = (int)n;
    else if (strcmp(key, "oom_kills") == 0 && take_i64(&p, 0, INT64_MAX, &n))
        j->oom_kills = (uint64_t)n;
    else if (strcmp(key, "runtime_seconds") == 0)
        (void)take_double(&p, &k->runtime_seconds);
    else if (strcmp(key, "cpus") == 0)
        (void)take_double(&p, &j->cpus);
    else if (strcmp(key, "command") == 0)
        (void)al_str_copy(j->command, sizeof j->command, p);
    else if (strcmp(key, "output_dir_source") == 0)
        (void)al_str_copy(k->output_dir_source, sizeof k->output_dir_source, p);
    else if (strcmp(key, "trainlog_path") == 0)
        (void)al_str_copy(book->trainlog_path, sizeof book->trainlog_path, p);
    else if (strcmp(key, "device_missing") == 0)
        (void)al_str_copy(book->device_missing, sizeof book->device_missing, p);
}

static void read_line(char *line, struct al_book *book, struct al_book_kept *k) {
    char *p = line, *key = next(&p);
    if (!key)
        return;
    if (strcmp(key, "rank") == 0)
        read_rank(p, book);
    else if (al_str_starts(key, "look"))
        al_book_read_look(key, p, book);
    else if (strcmp(key, "trainlog") == 0)
        read_trainlog(p, &book->trainlog);
    else if (strcmp(key, "tree") == 0 && k->finished)
        read_tree(p, &book->tree);
    else if (strcmp(key, "gpu") == 0 && k->finished)
        read_gpu(p, book);
    else
        read_job(key, p, book, k);
}

int al_book_read(const char *text, struct al_book *book, struct al_book_kept *ret) {
    char line[LINE];
    *ret = (struct al_book_kept){0};
    if (strncmp(text, VERSION_LINE "\n", sizeof VERSION_LINE) != 0)
        return AL_E_FORMAT;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, "\n");
        if (al_str_copy_n(line, sizeof line, p, len))
            read_line(line, book, ret);
        p += len + (p[len] == '\n');
    }
    book->device_open = !*book->device_missing;
    return 0;
}
