// SPDX-License-Identifier: Apache-2.0
// A board as text, and back.
#include "launch/board.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "model/metric.h"

#define VERSION_LINE "alula board "
#define LINE_MAX_LEN 8192
#define NUMBER_MAX 1e18 // so that every figure fits an integer
#define RANK_MAX 10000000

// ---- text ----

static void add_text(struct al_buf *b, const char *key, const char *text) {
    char clean[512];
    if (!*text)
        return;
    (void)al_str_copy(clean, sizeof clean, text);
    al_buf_printf(b, "%s %s\n", key, al_str_clean(clean));
}

static void add_value(struct al_buf *b, const char *name, struct al_value v) {
    if (v.status == AL_STATUS_UNREAD)
        return;
    if (v.status != AL_STATUS_OK && v.status != AL_STATUS_STALE) {
        al_buf_printf(b, " %s=!%s", name, al_status_word(v.status));
        return;
    }
    al_buf_printf(b, " %s=", name);
    al_buf_number(b, v.num);
    al_buf_printf(b, "@%lld%s", (long long)v.at_ns, v.status == AL_STATUS_STALE ? "~" : "");
}

static void add_rank(struct al_buf *b, const struct al_rank *r) {
    char source[sizeof r->source];
    al_buf_printf(b, "rank pid=%d start=%llu job=%d rank=%d local=%d world=%d device=%d", (int)r->pid,
                  (unsigned long long)r->start_ticks, (int)r->job, (int)r->rank, (int)r->local_rank, (int)r->world,
                  (int)r->device);
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
        add_value(b, al_rank_metric_table[m].name, r->m[m]);
    (void)al_str_copy(source, sizeof source, r->source);
    if (*source)
        al_buf_printf(b, " source=%s", al_str_clean(source));
    al_buf_char(b, '\n');
}

void al_board_format(struct al_buf *b, const struct al_board_head *h, const struct al_rank *ranks, uint32_t count) {
    al_buf_str(b, VERSION_LINE "1\n");
    al_buf_printf(b, "pid %d\nstart_ticks %llu\npid_ns %llu\njob %d\nbegan_ns %lld\nwritten_ns %lld\n", (int)h->pid,
                  (unsigned long long)h->start_ticks, (unsigned long long)h->pid_ns, (int)h->job,
                  (long long)h->began_realtime_ns, (long long)h->written_ns);
    add_text(b, "command", h->command);
    add_text(b, "output", h->output);
    add_text(b, "record", h->record);
    for (uint32_t i = 0; i < count && i < AL_BOARD_RANKS; i++)
        add_rank(b, &ranks[i]);
}

// ---- back ----

static bool take_i32(const char *text, int64_t least, int64_t most, int32_t *ret) {
    int64_t value;
    if (!al_str_i64(text, &value) || value < least || value > most)
        return false;
    *ret = (int32_t)value;
    return true;
}

static struct al_value take_value(char *text) {
    struct al_value v = al_value_none(AL_STATUS_ERROR);
    if (*text == '!') {
        int status = al_status_from_word(text + 1);
        return al_value_none(status > AL_STATUS_OK && status != AL_STATUS_STALE ? (enum al_status)status : AL_STATUS_ERROR);
    }
    char *at = strchr(text, '@');
    bool old = al_str_ends(text, "~");
    if (!at)
        return v;
    *at++ = '\0';
    if (old)
        at[strlen(at) - 1] = '\0';
    double num;
    int64_t ns;
    if (!al_str_double(text, &num) || !isfinite(num) || fabs(num) > NUMBER_MAX || !al_str_i64(at, &ns) || ns < 0)
        return v;
    return (struct al_value){num, ns, old ? AL_STATUS_STALE : AL_STATUS_OK};
}

static int find_metric(const char *name) {
    for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
        if (strcmp(al_rank_metric_table[m].name, name) == 0)
            return m;
    return -1;
}

static void take_pair(struct al_rank *r, const char *key, char *value) {
    int metric;
    if (strcmp(key, "pid") == 0)
        (void)take_i32(value, 1, INT32_MAX, &r->pid);
    else if (strcmp(key, "start") == 0)
        (void)al_str_u64(value, &r->start_ticks);
    else if (strcmp(key, "job") == 0)
        (void)take_i32(value, 0, INT32_MAX, &r->job);
    else if (strcmp(key, "rank") == 0)
        (void)take_i32(value, -1, RANK_MAX, &r->rank);
    else if (strcmp(key, "local") == 0)
        (void)take_i32(value, -1, RANK_MAX, &r->local_rank);
    else if (strcmp(key, "world") == 0)
        (void)take_i32(value, -1, RANK_MAX, &r->world);
    else if (strcmp(key, "device") == 0)
        (void)take_i32(value, -1, RANK_MAX, &r->device);
    else if ((metric = find_metric(key)) >= 0)
        r->m[metric] = take_value(value);
}

static bool take_rank(struct al_board *b, char *line) {
    if (b->rank_count == AL_BOARD_RANKS)
        return true;
    if (b->rank_count == b->rank_cap) {
        uint32_t cap = b->rank_cap ? 2 * b->rank_cap : 8;
        struct al_rank *more = realloc(b->ranks, cap * sizeof *more);
        if (!more)
            return false;
        b->ranks = more;
        b->rank_cap = cap;
    }
    struct al_rank *r = &b->ranks[b->rank_count];
    *r = (struct al_rank){.rank = -1, .local_rank = -1, .world = -1, .device = -1};
    for (char *p = line; p && *p;) {
        char *value = strchr(p, '=');
        if (!value)
            break;
        *value++ = '\0';
        if (strcmp(p, "source") == 0) { // the last one: it may hold blanks
            (void)al_str_copy(r->source, sizeof r->source, value);
            (void)al_str_clean(r->source);
            break;
        }
        char *end = strchr(value, ' ');
        if (end)
            *end++ = '\0';
        take_pair(r, p, value);
        p = end;
    }
    b->rank_count += r->pid > 0;
    return true;
}

static void take_head(struct al_board_head *h, const char *key, char *value) {
    if (strcmp(key, "pid") == 0)
        (void)take_i32(value, 1, INT32_MAX, &h->pid);
    else if (strcmp(key, "start_ticks") == 0)
        (void)al_str_u64(value, &h->start_ticks);
    else if (strcmp(key, "pid_ns") == 0)
        (void)al_str_u64(value, &h->pid_ns);
    else if (strcmp(key, "job") == 0)
        (void)take_i32(value, 0, INT32_MAX, &h->job);
    else if (strcmp(key, "began_ns") == 0)
        (void)al_str_i64(value, &h->began_realtime_ns);
    else if (strcmp(key, "written_ns") == 0)
        (void)al_str_i64(value, &h->written_ns);
    else if (strcmp(key, "command") == 0)
        (void)al_str_copy(h->command, sizeof h->command, al_str_clean(value));
    else if (strcmp(key, "output") == 0)
        (void)al_str_copy(h->output, sizeof h->output, al_str_clean(value));
    else if (strcmp(key, "record") == 0)
        (void)al_str_copy(h->record, sizeof h->record, al_str_clean(value));
}

static bool take_line(struct al_board *b, char *line) {
    char *blank = strchr(line, ' ');
    if (!blank)
        return true;
    *blank = '\0';
    if (strcmp(line, "rank") == 0)
        return take_rank(b, blank + 1);
    take_head(&b->head, line, blank + 1);
    return true;
}

int al_board_parse(const char *text, size_t len, struct al_board *b) {
    char line[LINE_MAX_LEN];
    size_t at = 0;
    bool first = true;
    b->head = (struct al_board_head){0};
    b->rank_count = 0;
    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = (end ? (size_t)(end - text) : len) - at;
        bool whole = n < sizeof line && !memchr(text + at, '\0', n);
        memcpy(line, text + at, whole ? n : 0);
        line[whole ? n : 0] = '\0';
        at += n + 1;
        if (first) {
            if (!al_str_starts(line, VERSION_LINE))
                return AL_E_FORMAT;
            if (strcmp(line, VERSION_LINE "1") != 0)
                return AL_E_UNSUPPORTED;
            first = false;
        } else if (!take_line(b, line)) {
            return AL_E_NOMEM;
        }
    }
    if (b->head.written_ns < 0)
        b->head.written_ns = 0;
    return first || !b->head.pid ? AL_E_FORMAT : 0;
}

void al_board_clear(struct al_board *b) {
    free(b->ranks);
    *b = (struct al_board){0};
}
