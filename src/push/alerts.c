// SPDX-License-Identifier: Apache-2.0
#include "push/alerts.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "export/jsonl.h"

struct open {
    struct al_finding f;
    int told; // the level that was told, -1: none
    char title[sizeof ((struct al_finding *)0)->title]; // that was told
    int64_t told_ns;
};

#define REWORD_NS (60 * AL_NS_PER_S) // a finding that changes to and fro is not told each time

struct past { // told by the run before
    char key[sizeof ((struct al_finding *)0)->key];
    int level;
};

struct al_alerts {
    enum al_alert_format format;
    enum al_level least;
    int64_t repeat_ns;
    struct open *open;
    uint32_t count, cap;
    struct past *past;
    uint32_t past_count;
    int64_t past_until_ns; // real monotonic time: a restart is over by then
};

int al_alerts_new(enum al_alert_format format, enum al_level least, int64_t repeat_ns, struct al_alerts **ret) {
    struct al_alerts *a = calloc(1, sizeof *a);
    *ret = a;
    if (!a)
        return AL_E_NOMEM;
    *a = (struct al_alerts){.format = format, .least = least, .repeat_ns = repeat_ns};
    return 0;
}

struct al_alerts *al_alerts_free(struct al_alerts *a) {
    if (a) {
        free(a->open);
        free(a->past);
    }
    free(a);
    return NULL;
}

static struct open *find(struct al_alerts *a, const char *key) {
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->open[i].f.key, key) == 0)
            return &a->open[i];
    return NULL;
}

static struct open *add(struct al_alerts *a) {
    if (a->count == a->cap) {
        uint32_t cap = a->cap ? 2 * a->cap : 4;
        struct open *more = cap <= AL_ALERTS_MAX ? realloc(a->open, cap * sizeof *more) : NULL;
        if (!more)
            return NULL;
        a->open = more;
        a->cap = cap;
    }
    a->open[a->count].told = -1;
    return &a->open[a->count++];
}

// --- Alertmanager ---

static void pair(struct al_buf *b, const char *key, const char *value, bool first) {
    if (!*value)
        return;
    al_buf_printf(b, "%s\"%s\":", first ? "" : ",", key);
    al_json_string(b, value);
}

static void alert(struct al_buf *b, const struct al_snapshot *s, const struct al_finding *f, int level,
                  int64_t ends_ns) {
    // Labels are an alert's identity: nothing that changes while it lasts, but the level.
    al_buf_str(b, "{\"labels\":{");
    pair(b, "alertname", "AlulaFinding", true);
    pair(b, "rule", f->rule, false);
    pair(b, "severity", al_level_word((enum al_level)level), false);
    pair(b, "key", f->key, false);
    pair(b, "instance", s->node.hostname, false);
    if (f->gpu_index >= 0)
        al_buf_printf(b, ",\"gpu\":\"%d\"", f->gpu_index);
    pair(b, "uuid", f->gpu_uuid, false);
    al_buf_str(b, "},\"annotations\":{");
    pair(b, "summary", f->title, true);
    pair(b, "description", f->message, false);
    pair(b, "advice", f->advice, false);
    pair(b, "considered", f->considered, false);
    al_buf_str(b, "},\"startsAt\":");
    al_jsonl_time(b, f->began_realtime_ns);
    al_buf_str(b, ",\"endsAt\":");
    al_jsonl_time(b, ends_ns);
    al_buf_char(b, '}');
}

static void alertmanager(const struct al_alerts *a, const struct al_snapshot *s, const struct open *o, int now,
                         struct al_buf *b) {
    al_buf_char(b, '[');
    if (o->told >= 0 && o->told != now) { // its level is one of its labels: the one before ends
        alert(b, s, &o->f, o->told, s->realtime_ns);
        al_buf_str(b, now >= 0 ? "," : "");
    }
    if (now >= 0)
        alert(b, s, &o->f, now, s->realtime_ns + 4 * a->repeat_ns);
    al_buf_char(b, ']');
}

// --- what is told ---

// now: the level that is told from here on, -1 when it ended.
static void tell(const struct al_alerts *a, const struct al_snapshot *s, const struct open *o, int now,
                 struct al_buf *b) {
    if (a->format == AL_ALERT_ALERTMANAGER) {
        alertmanager(a, s, o, now, b);
        return;
    }
    struct al_finding f = o->f;
    // What a receiver hears of first begins for it, whatever it was below the level that it asked for.
    f.phase = now < 0 ? AL_PHASE_ENDED : o->told < 0 ? AL_PHASE_BEGAN : AL_PHASE_UPDATED;
    al_jsonl_finding(b, s, &f);
}

static bool is_news(const struct al_alerts *a, const struct al_snapshot *s, const struct open *o) {
    if (o->told < 0)
        return o->f.level >= a->least;
    bool reworded = strcmp(o->title, o->f.title) != 0 && s->monotonic_ns - o->told_ns >= REWORD_NS;
    return reworded || (int)o->f.level != o->told;
}

// True when the run before told the finding at this level, and nothing has to be told.
static bool was_told(struct al_alerts *a, const struct al_finding *f) {
    for (uint32_t i = 0; i < a->past_count; i++)
        if (strcmp(a->past[i].key, f->key) == 0) {
            bool same = a->past[i].level == (int)f->level && al_monotonic_ns() < a->past_until_ns;
            a->past[i] = a->past[--a->past_count];
            return same;
        }
    return false;
}

int al_alerts_finding(struct al_alerts *a, const struct al_snapshot *s, const struct al_finding *f, struct al_buf *b) {
    struct open *o = find(a, f->key);
    if (!o && f->phase != AL_PHASE_ENDED)
        o = add(a);
    if (!o)
        return 0; // ended unheard of, or too many
    o->f = *f;
    if (f->phase == AL_PHASE_ENDED) {
        if (o->told >= 0)
            tell(a, s, o, -1, b);
        *o = a->open[--a->count];
    } else if (is_news(a, s, o)) {
        if (o->told >= 0 || !was_told(a, f))
            tell(a, s, o, (int)f->level, b);
        o->told = (int)f->level;
        o->told_ns = s->monotonic_ns;
        (void)al_str_copy(o->title, sizeof o->title, f->title);
    }
    return b->failed ? AL_E_NOMEM : 0;
}

void al_alerts_repeat(const struct al_alerts *a, const struct al_snapshot *s, struct al_buf *b) {
    bool any = false;
    for (uint32_t i = 0; i < a->count && a->format == AL_ALERT_ALERTMANAGER; i++) {
        if (a->open[i].told < 0)
            continue;
        al_buf_char(b, any ? ',' : '[');
        alert(b, s, &a->open[i].f, a->open[i].told, s->realtime_ns + 4 * a->repeat_ns);
        any = true;
    }
    if (any)
        al_buf_char(b, ']');
}

uint32_t al_alerts_open(const struct al_alerts *a, struct al_finding *ret, uint32_t max) {
    uint32_t count = a->count < max ? a->count : max;
    for (uint32_t i = 0; i < count; i++)
        ret[i] = a->open[i].f;
    return count;
}

// "<time>", then "<level> <key>" lines; keys hold no newline.
void al_alerts_save(const struct al_alerts *a, int64_t realtime_ns, struct al_buf *b) {
    al_buf_printf(b, "%lld\n", (long long)realtime_ns);
    for (uint32_t i = 0; i < a->count; i++)
        if (a->open[i].told >= 0 && !strchr(a->open[i].f.key, '\n'))
            al_buf_printf(b, "%s %s\n", al_level_word((enum al_level)a->open[i].told), a->open[i].f.key);
    for (uint32_t i = 0; i < a->past_count && al_monotonic_ns() < a->past_until_ns; i++)
        al_buf_printf(b, "%s %s\n", al_level_word((enum al_level)a->past[i].level), a->past[i].key);
}

void al_alerts_load(struct al_alerts *a, int64_t realtime_ns, char *text) {
    char *line = strsep(&text, "\n");
    int64_t saved;
    if (!line || !al_str_i64(line, &saved) || saved > realtime_ns || realtime_ns - saved > AL_ALERTS_RESTART_NS)
        return;
    if (!a->past)
        a->past = calloc(AL_ALERTS_MAX, sizeof *a->past);
    while (a->past && a->past_count < AL_ALERTS_MAX && (line = strsep(&text, "\n"))) {
        const char *level = strsep(&line, " ");
        struct past *p = &a->past[a->past_count];
        p->level = al_level_from_word(level);
        if (p->level >= 0 && line && *line && al_str_copy(p->key, sizeof p->key, line))
            a->past_count++;
    }
    a->past_until_ns = al_monotonic_ns() + AL_ALERTS_RESTART_NS;
}
