// SPDX-License-Identifier: Apache-2.0
#include "host/trainlog.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

#define SPEED_MOST 1e6 // steps a second; more is no speed

// ---- a flat look at a JSON object: keys of the top level, values as text ----

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r' || *c->at == '\n'))
        c->at++;
}

static bool take(struct cursor *c, char what) {
    skip_space(c);
    if (c->at == c->end || *c->at != what)
        return false;
    c->at++;
    return true;
}

// Behind the opening quote; what is between the quotes is left as it is written (our keys have no escapes).
static bool take_string(struct cursor *c, const char **ret, size_t *ret_len) {
    *ret = c->at;
    for (; c->at < c->end; c->at++) {
        if (*c->at == '\\' && c->at + 1 < c->end) {
            c->at++;
        } else if (*c->at == '"') {
            *ret_len = (size_t)(c->at++ - *ret);
            return true;
        }
    }
    return false;
}

// An array or object with all that is in it.
static bool skip_nested(struct cursor *c) {
    const char *text;
    size_t len, depth = 0;
    while (c->at < c->end) {
        char k = *c->at++;
        if (k == '"' && !take_string(c, &text, &len))
            return false;
        depth += k == '[' || k == '{';
        depth -= k == ']' || k == '}'; // the first one opens
        if (!depth)
            return true;
    }
    return false;
}

// A string, or a number as it is written; empty for anything else.
static bool take_value(struct cursor *c, char *out, size_t size) {
    const char *text = "";
    size_t len = 0;
    skip_space(c);
    if (c->at == c->end)
        return false;
    if (*c->at == '[' || *c->at == '{') {
        if (!skip_nested(c))
            return false;
    } else if (*c->at == '"') {
        c->at++;
        if (!take_string(c, &text, &len))
            return false;
    } else {
        for (text = c->at; c->at < c->end && !strchr(",} \t\r\n", *c->at); c->at++)
            len++;
        if (!len)
            return false;
    }
    out[0] = '\0';
    if (len < size)
        (void)al_str_copy_n(out, size, text, len);
    return true;
}

// ---- values ----

// Of a figure that cannot be below 0.
static void take_number(double *ret, const char *value) {
    double number;
    if (al_str_double(value, &number) && isfinite(number) && number >= 0)
        *ret = number;
}

bool al_trainlog_seconds(const char *text, double *ret) {
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
    double sum = 0, number;
    size_t next = 0;
    bool any = false;
    if (al_str_double(text, &number) && isfinite(number) && number >= 0) {
        *ret = number;
        return true;
    }
    while (*text) {
        char digits[24];
        size_t len = strspn(text, "0123456789.");
        if (!len || !al_str_copy_n(digits, sizeof digits, text, len) || !al_str_double(digits, &number))
            return false;
        for (text += len; next < 4 && units[next].letter != *text;)
            next++;
        if (next == 4) // no unit, or none that may follow the last one
            return false;
        sum += number * units[next++].seconds;
        text++;
        text += strspn(text, " ");
        any = true;
    }
    if (any)
        *ret = sum;
    return any;
}

static void take_seconds(double *ret, const char *value) {
    double seconds;
    if (al_trainlog_seconds(value, &seconds))
        *ret = seconds;
}

// "5/94", or the step alone
static bool take_step(struct al_trainlog *l, const char *value) {
    const char *slash = strchr(value, '/');
    char first[24];
    uint64_t step, all;
    if (!al_str_copy_n(first, sizeof first, value, slash ? (size_t)(slash - value) : strlen(value)) ||
        !al_str_u64(first, &step) || step > INT64_MAX / 4)
        return false;
    if (slash && al_str_u64(slash + 1, &all) && all <= INT64_MAX / 4)
        l->steps_of_all = (int64_t)all;
    l->step = (int64_t)step;
    return true;
}

struct line {
    double iter_s, s_it;
    enum al_trainlog_writer writer;
    bool named_step;
};

static bool is(const char *key, size_t len, const char *name) {
    return len == strlen(name) && memcmp(key, name, len) == 0;
}

static void take_key(struct al_trainlog *l, struct line *n, const char *key, size_t len, const char *value) {
    if (is(key, len, "global_step/max_steps") || is(key, len, "steps[global_step/max_steps]")) {
        n->named_step = take_step(l, value);
        n->writer = AL_TRAINLOG_HF;
    } else if (is(key, len, "iteration")) {
        n->named_step = take_step(l, value);
        n->writer = AL_TRAINLOG_MEGATRON;
    } else if (is(key, len, "train_speed(iter/s)")) {
        take_number(&n->iter_s, value);
    } else if (is(key, len, "train_speed(s/it)")) {
        take_number(&n->s_it, value);
    } else if (is(key, len, "memory(GiB)")) {
        take_number(&l->memory_gib, value);
    } else if (is(key, len, "loss")) {
        double loss; // may be below 0
        if (al_str_double(value, &loss) && isfinite(loss))
            l->loss = loss;
    } else if (is(key, len, "elapsed_time")) {
        take_seconds(&l->elapsed_seconds, value);
    } else if (is(key, len, "remaining_time")) {
        take_seconds(&l->remaining_seconds, value);
    } else if (is(key, len, "train_runtime")) {
        take_number(&l->train_runtime, value);
    } else if (is(key, len, "train_samples_per_second")) {
        take_number(&l->train_samples_per_second, value);
    } else if (is(key, len, "train_steps_per_second")) {
        take_number(&l->train_steps_per_second, value);
    }
}

// A line of evaluation has the speed too: whatever the line is about, the speed is that of the training.
static void close_line(struct al_trainlog *l, const struct line *n) {
    if (n->writer)
        l->writer = n->writer;
    if (n->named_step && l->first_step < 0)
        l->first_step = l->step;
    if (n->iter_s > 0 && n->iter_s < SPEED_MOST) {
        l->steps_per_second = n->iter_s;
        l->speed_key = AL_TRAINLOG_ITER_S;
    } else if (n->s_it > 1 / SPEED_MOST) {
        l->steps_per_second = 1 / n->s_it;
        l->speed_key = AL_TRAINLOG_S_IT;
    } else {
        return;
    }
    l->steps++;
    // Lines come at the first step and then every few: a first one this late is a resumed run.
    l->old_speed_after_resume = l->speed_key == AL_TRAINLOG_ITER_S && l->first_step > 1;
}

void al_trainlog_init(struct al_trainlog *l) {
    *l = (struct al_trainlog){.first_step = -1,
                              .step = -1,
                              .steps_of_all = -1,
                              .steps_per_second = NAN,
                              .elapsed_seconds = NAN,
                              .remaining_seconds = NAN,
                              .memory_gib = NAN,
                              .loss = NAN,
                              .train_runtime = NAN,
                              .train_samples_per_second = NAN,
                              .train_steps_per_second = NAN};
}

void al_trainlog_line(struct al_trainlog *l, const char *text, size_t len, bool cut) {
    struct cursor c = {text, text + len};
    struct line n = {.iter_s = NAN, .s_it = NAN};
    bool whole = false;
    skip_space(&c);
    if (c.at == c.end)
        return;
    l->lines++;
    if (!take(&c, '{')) {
        l->damaged++;
        return;
    }
    while (!(whole = take(&c, '}'))) {
        const char *key;
        size_t key_len;
        char value[64];
        if (!take(&c, '"') || !take_string(&c, &key, &key_len) || !take(&c, ':') || !take_value(&c, value, sizeof value))
            break;
        take_key(l, &n, key, key_len, value);
        if (!take(&c, ',')) {
            whole = take(&c, '}');
            break;
        }
    }
    l->damaged += !whole && !cut;
    close_line(l, &n);
}
