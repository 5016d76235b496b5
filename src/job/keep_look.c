// SPDX-License-Identifier: Apache-2.0
// The last look at a rank's stacks, as lines of what is kept of a job.
#include <string.h>

#include "base/str.h"
#include "job/keep.h"
#include "model/metric.h"

#define TEXTS 6

static char *text_of(struct al_look *l, int which, size_t *ret_size) {
    struct al_look_line *line = which < TEXTS / 2 ? &l->line : &l->worker;
    switch (which % (TEXTS / 2)) {
    case 0: *ret_size = sizeof line->function; return line->function;
    case 1: *ret_size = sizeof line->file; return line->file;
    default: *ret_size = sizeof line->call; return line->call;
    }
}

void al_book_keep_look(struct al_buf *b, const struct al_book_rank *k) {
    struct al_look l = k->look;
    if (!k->looked)
        return;
    al_buf_printf(b, "look %d %llu %d %d\n", (int)k->pid, (unsigned long long)k->start_ticks, (int)l.line.line, (int)l.worker.line);
    for (int m = 0; m < AL_LOOK_METRIC_COUNT; m++) {
        if (!al_ok(l.m[m]) || !(l.m[m].num > 0))
            continue; // 0 says the same as nothing here
        al_buf_printf(b, "look_figure %d %llu %s ", (int)k->pid, (unsigned long long)k->start_ticks, al_look_metric_table[m].name);
        al_buf_number(b, l.m[m].num);
        al_buf_char(b, '\n');
    }
    for (int i = 0; i < TEXTS; i++) {
        size_t size;
        char *text = text_of(&l, i, &size);
        if (!*text)
            continue;
        al_buf_printf(b, "look_text %d %llu %d ", (int)k->pid, (unsigned long long)k->start_ticks, i);
        al_buf_str(b, al_str_clean(text));
        al_buf_char(b, '\n');
    }
}

static bool take_number(char **p, int64_t low, int64_t high, int64_t *ret) {
    char word[32];
    size_t skip = strspn(*p, " "), len = strcspn(*p + skip, " ");
    if (!al_str_copy_n(word, sizeof word, *p + skip, len) || !al_str_i64(word, ret) || *ret < low || *ret > high)
        return false;
    *p += skip + len;
    return true;
}

static struct al_book_rank *rank_of(char **p, const struct al_book *book) {
    int64_t pid, start;
    if (!take_number(p, 1, INT32_MAX, &pid) || !take_number(p, 0, INT64_MAX, &start))
        return NULL;
    return al_book_find(book, (pid_t)pid, (uint64_t)start);
}

static void read_lines(char *p, struct al_book_rank *k) {
    int64_t line, worker;
    if (!take_number(&p, 0, INT32_MAX, &line) || !take_number(&p, 0, INT32_MAX, &worker))
        return;
    k->look = (struct al_look){.pid = k->pid, .start_ticks = k->start_ticks, .rank = -1};
    k->look.line.line = (int32_t)line;
    k->look.worker.line = (int32_t)worker;
    k->looked = true;
}

static void read_figure(const char *p, struct al_look *l) {
    const char *name = p + strspn(p, " "), *number = strchr(name, ' ');
    double value;
    for (int m = 0; number && m < AL_LOOK_METRIC_COUNT; m++) {
        size_t len = strlen(al_look_metric_table[m].name);
        if ((size_t)(number - name) == len && memcmp(name, al_look_metric_table[m].name, len) == 0 &&
            al_str_double(number + 1, &value) && value > 0 && value < 1e9)
            l->m[m] = al_value_ok(value, 0);
    }
}

void al_book_read_look(const char *key, char *p, struct al_book *book) {
    struct al_book_rank *k = rank_of(&p, book);
    int64_t which;
    size_t size;
    if (!k)
        return;
    if (strcmp(key, "look") == 0) {
        read_lines(p, k);
    } else if (strcmp(key, "look_figure") == 0 && k->looked) {
        read_figure(p, &k->look);
    } else if (strcmp(key, "look_text") == 0 && k->looked && take_number(&p, 0, TEXTS - 1, &which)) {
        char *text = text_of(&k->look, (int)which, &size);
        (void)al_str_copy(text, size, *p == ' ' ? p + 1 : p);
        (void)al_str_clean(text);
    }
}
