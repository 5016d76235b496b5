// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/str.h"
#include "job/compare.h"

#define NAME_WIDTH 24
#define VALUE_WIDTH 14

static void pad_to(struct al_buf *b, size_t from, size_t width) {
    size_t len = b->len - from;
    al_buf_pad(b, ' ', len < width ? width - len : 1);
}

static void value(struct al_buf *b, const struct al_compare_row *r, const struct al_side_figure *f) {
    size_t from = b->len;
    if (f->known) {
        al_buf_fixed(b, f->value, r->decimals);
        al_buf_printf(b, "%s%s", *r->unit ? " " : "", r->unit);
    } else {
        al_buf_char(b, '-');
    }
    pad_to(b, from, VALUE_WIDTH);
}

static void row(struct al_buf *b, const struct al_compare_row *r) {
    size_t from = b->len;
    al_buf_str(b, r->part ? "  " : "");
    al_term_string(b, r->words);
    pad_to(b, from, NAME_WIDTH);
    value(b, r, &r->a);
    value(b, r, &r->b);
    from = b->len;
    if (!isnan(r->ratio)) {
        al_buf_str(b, r->ratio >= 0 ? "+" : "");
        al_buf_fixed(b, r->ratio * 100, 1);
        al_buf_str(b, " %");
    } else {
        al_buf_char(b, '-');
    }
    if (r->change != AL_CHANGE_UNKNOWN) {
        pad_to(b, from, VALUE_WIDTH - 2);
        al_buf_str(b, al_change_word(r->change));
    }
    if (r->change == AL_CHANGE_SAME && !isnan(r->noise)) {
        al_buf_str(b, " (noise ");
        al_buf_fixed(b, r->noise * 100, 1);
        al_buf_str(b, " %)");
    }
    al_buf_char(b, '\n');
}

static double seconds_of(const struct al_side *s, const char *word) {
    for (uint32_t i = 0; i < s->part_count; i++)
        if (strcmp(s->part[i].word, word) == 0)
            return s->part[i].f.value;
    return 0;
}

// The host's own waits are the most that can have left the GPUs idle: work that was launched before goes on meanwhile.
static void rest_line(struct al_buf *b, const struct al_side *s, char letter) {
    static const struct {
        const char *word, *says;
    } waits[] = {{"data", "waiting for data"}, {"save", "checkpoints"}, {"log", "logging"}, {"rollout", "rollouts"},
                 {"communication", "blocking collectives"}};
    double step = s->f[AL_SIDE_STEP].value, busy = s->f[AL_SIDE_UTILIZATION].value / 100, left = 1 - busy;
    int said = 0;
    if (!s->f[AL_SIDE_UTILIZATION].known || !s->f[AL_SIDE_STEP].known || !(step > 0) || !(left > 0))
        return;
    al_buf_printf(b, "%c: the GPUs were busy ", letter);
    al_buf_fixed(b, busy * 100, 1);
    al_buf_str(b, " % of the time; the other ");
    al_buf_fixed(b, left * 100, 1);
    al_buf_str(b, " %:");
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        double share = fmin(seconds_of(s, waits[i].word) / step, left);
        if (share < 0.005)
            continue;
        al_buf_printf(b, "%s %s up to ", said++ ? "," : "", waits[i].says);
        al_buf_fixed(b, share * 100, 1);
        al_buf_str(b, " %");
        left -= share;
    }
    al_buf_str(b, said ? ", within the step's own work " : " within the step's own work ");
    al_buf_fixed(b, left * 100, 1);
    al_buf_str(b, " % (kernels that come too late or wait for each other)\n");
}

static void shares_line(struct al_buf *b, const struct al_side *s, char letter) {
    double step = s->f[AL_SIDE_STEP].value, last = INFINITY;
    if (!s->part_count || !(step > 0))
        return;
    al_buf_printf(b, "%c: a step is", letter);
    for (uint32_t n = 0; n < s->part_count; n++) { // the greatest first
        double most = -1;
        uint32_t at = 0;
        for (uint32_t i = 0; i < s->part_count; i++)
            if (s->part[i].f.value < last && s->part[i].f.value > most) {
                most = s->part[i].f.value;
                at = i;
            }
        if (most / step < 0.0005)
            break;
        last = most;
        al_buf_str(b, n ? ", " : " ");
        al_term_string(b, s->part[at].word);
        al_buf_char(b, ' ');
        al_buf_fixed(b, most / step * 100, 1);
        al_buf_str(b, " %");
    }
    al_buf_char(b, '\n');
}

void al_compare_text(struct al_buf *out, const struct al_side *a, const struct al_side *b) {
    struct al_compare_row rows[AL_COMPARE_ROWS];
    char cautions[AL_COMPARE_CAUTIONS][400];
    uint32_t count = al_compare(a, b, rows), warned = al_compare_cautions(a, b, cautions);
    al_buf_str(out, "a: ");
    al_term_string(out, a->name);
    al_buf_str(out, "\nb: ");
    al_term_string(out, b->name);
    al_buf_str(out, "\n\n");
    al_buf_pad(out, ' ', NAME_WIDTH);
    al_buf_str(out, "a             b             change\n");
    for (uint32_t i = 0; i < count; i++)
        // Parts that are nowhere worth a line: their sum is in "a step".
        if (!rows[i].part || rows[i].a.value >= 0.005 || rows[i].b.value >= 0.005)
            row(out, &rows[i]);
    al_buf_char(out, '\n');
    shares_line(out, a, 'a');
    shares_line(out, b, 'b');
    rest_line(out, a, 'a');
    rest_line(out, b, 'b');
    for (uint32_t i = 0; i < warned; i++) {
        al_buf_str(out, "caution: ");
        al_term_string(out, cautions[i]);
        al_buf_char(out, '\n');
    }
}

static void key_number(struct al_buf *b, const char *key, bool known, double number) {
    al_buf_printf(b, ",\"%s\":", key);
    if (known)
        al_buf_number(b, number);
    else
        al_buf_str(b, "null");
}

static void side_json(struct al_buf *out, const char *key, const struct al_side *s) {
    al_buf_printf(out, "\"%s\":{\"file\":", key);
    al_json_string(out, s->name);
    key_number(out, "steps", s->steps > 0, s->steps);
    key_number(out, "world_size", s->world > 0, s->world);
    key_number(out, "samples_per_step", s->samples_per_step > 0, s->samples_per_step);
    key_number(out, "gpus", s->gpu_count > 0, s->gpu_count);
    al_buf_str(out, ",\"gpu\":");
    if (*s->gpu)
        al_json_string(out, s->gpu);
    else
        al_buf_str(out, "null");
    al_buf_str(out, "},\n");
}

void al_compare_json(struct al_buf *out, const struct al_side *a, const struct al_side *b) {
    struct al_compare_row rows[AL_COMPARE_ROWS];
    char cautions[AL_COMPARE_CAUTIONS][400];
    uint32_t count = al_compare(a, b, rows), warned = al_compare_cautions(a, b, cautions);
    al_buf_char(out, '{');
    side_json(out, "a", a);
    side_json(out, "b", b);
    al_buf_str(out, "\"figures\":[");
    for (uint32_t i = 0; i < count; i++) {
        const struct al_compare_row *r = &rows[i];
        al_buf_str(out, i ? ",\n{\"key\":" : "\n{\"key\":");
        al_json_string(out, r->key);
        al_buf_printf(out, ",\"part_of_step\":%s,\"unit\":", r->part ? "true" : "false");
        al_json_string(out, r->unit);
        key_number(out, "a", r->a.known, r->a.value);
        key_number(out, "b", r->b.known, r->b.value);
        key_number(out, "change_ratio", !isnan(r->ratio), r->ratio);
        key_number(out, "noise_ratio", !isnan(r->noise), r->noise);
        al_buf_printf(out, ",\"verdict\":\"%s\"}", al_change_word(r->change));
    }
    al_buf_str(out, "],\n\"cautions\":[");
    for (uint32_t i = 0; i < warned; i++) {
        al_buf_str(out, i ? "," : "");
        al_json_string(out, cautions[i]);
    }
    al_buf_str(out, "]}\n");
}
