// SPDX-License-Identifier: Apache-2.0
// What happens now and then: findings, gaps, clocks, Xids, attributes, verdicts.
#include <math.h>
#include <string.h>

#include "store/writer.h"

#define CLOCK_EVERY_NS (60 * 1000000000LL)
#define CLOCK_JUMP_NS 100000000LL // the wall clock against the monotonic one

struct value {
    char type; // i, r, t
    int64_t i;
    double r;
    const char *t;
};

static int insert(struct al_writer *w, const char *sql, const struct value *values, int count) {
    sqlite3_stmt *st = NULL;
    int result = al_db_prepare(w->db, sql, &st, &w->why);
    for (int i = 0; i < count && !result; i++) {
        if (values[i].type == 'i')
            (void)sqlite3_bind_int64(st, i + 1, values[i].i);
        else if (values[i].type == 'r' && isfinite(values[i].r))
            (void)sqlite3_bind_double(st, i + 1, values[i].r);
        else if (values[i].type == 't' && values[i].t)
            (void)sqlite3_bind_text(st, i + 1, values[i].t, -1, SQLITE_TRANSIENT);
    }
    if (!result)
        result = al_db_run(st, &w->why);
    (void)sqlite3_finalize(st);
    return result;
}
#define INT(v) {.type = 'i', .i = (v)}
#define NUM(v) {.type = 'r', .r = (v)}
#define TXT(v) {.type = 't', .t = (v)}
#define INSERT(w, sql, values) insert(w, sql, values, (int)(sizeof(values) / sizeof *(values)))

int al_writer_meta(struct al_writer *w, const char *key, const char *text) {
    const struct value v[] = {TXT(key), TXT(text)};
    return INSERT(w, "INSERT OR REPLACE INTO meta VALUES(?, ?)", v);
}

int al_writer_meta_int(struct al_writer *w, const char *key, int64_t value) {
    const struct value v[] = {TXT(key), INT(value)};
    return INSERT(w, "INSERT OR REPLACE INTO meta VALUES(?, ?)", v);
}

int al_writer_note_clock(struct al_writer *w, const struct al_snapshot *s, int64_t t) {
    int64_t offset = s->realtime_ns - s->monotonic_ns, jump = offset - w->clock_offset_ns;
    bool first = w->tick == 1, jumped = jump > CLOCK_JUMP_NS || jump < -CLOCK_JUMP_NS;
    if (!first && !jumped && t - w->clock_t < CLOCK_EVERY_NS)
        return 0;
    const struct value v[] = {INT(t), INT(s->monotonic_ns), INT(s->realtime_ns), TXT(s->node.boot_id),
                              TXT(first ? "start" : jumped ? "jump" : "minute")};
    w->clock_t = t;
    w->clock_offset_ns = offset;
    return INSERT(w, "INSERT INTO clocks VALUES(?, ?, ?, ?, ?)", v);
}

int al_writer_note_gap(struct al_writer *w, int64_t from, int64_t to, const char *reason) {
    const struct value v[] = {INT(from), INT(to), TXT(reason)};
    return INSERT(w, "INSERT INTO gaps VALUES(?, ?, ?)", v);
}

int al_writer_note_text(struct al_writer *w, const char *text, int64_t *ret_id) {
    *ret_id = 0;
    if (!*text)
        return 0;
    const struct value v[] = {TXT(text)};
    int result = INSERT(w, "INSERT OR IGNORE INTO texts VALUES(NULL, ?)", v);
    sqlite3_stmt *st = NULL;
    if (!result)
        result = al_db_prepare(w->db, "SELECT id FROM texts WHERE text = ?", &st, &w->why);
    if (!result) {
        (void)sqlite3_bind_text(st, 1, text, -1, SQLITE_TRANSIENT);
        if (sqlite3_step(st) == SQLITE_ROW)
            *ret_id = sqlite3_column_int64(st, 0);
    }
    (void)sqlite3_finalize(st);
    return result;
}

int al_writer_note_attrs(struct al_writer *w, uint32_t position, int64_t gpu) {
    int result = 0;
    for (int a = 0; a < AL_ATTR_COUNT && !result; a++) {
        struct al_attr_value value = {0};
        if (w->o.attr(w->o.user, position, (enum al_attr)a, &value) != 0)
            continue;
        bool ok = value.status == AL_STATUS_OK, text = al_attrs[a].type == 'T';
        const struct value v[] = {INT(gpu), TXT(al_attrs[a].name), TXT(al_status_word(value.status)),
                                  NUM(ok && !text ? value.num : NAN), TXT(ok && text ? value.text : NULL)};
        result = INSERT(w, "INSERT OR REPLACE INTO gpu_attributes VALUES(?, ?, ?, ?, ?)", v);
    }
    return result;
}

int al_writer_note_xids(struct al_writer *w, struct al_live *live, const struct al_gpu *g, int64_t t) {
    int result = 0;
    uint32_t count = g->xid_count < AL_XID_CODES ? g->xid_count : AL_XID_CODES;
    for (uint32_t i = 0; i < count && !result; i++) {
        const struct al_xid *x = &g->xid[i], *old = NULL;
        for (uint32_t j = 0; j < live->xid_count; j++)
            if (live->xid[j].code == x->code)
                old = &live->xid[j];
        if (old && old->count == x->count && old->last_ns == x->last_ns)
            continue;
        const struct value v[] = {INT(t), INT(live->id), INT(x->code), INT(x->count), INT(x->last_ns - w->start_ns)};
        result = INSERT(w, "INSERT INTO xids VALUES(?, ?, ?, ?, ?)", v);
    }
    memcpy(live->xid, g->xid, sizeof live->xid);
    live->xid_count = count;
    return result;
}

int al_writer_note_finding(struct al_writer *w, const struct al_snapshot *s, const struct al_finding *f) {
    const struct value v[] = {
        INT(s->monotonic_ns - w->start_ns), TXT(al_phase_word(f->phase)), TXT(f->rule), TXT(f->key),
        TXT(al_level_word(f->level)), TXT(al_confidence_word(f->confidence)), INT(f->gpu_index), TXT(f->gpu_uuid),
        INT(f->pid), INT(f->job), INT(f->began_ns - w->start_ns), INT(f->ended_ns ? f->ended_ns - w->start_ns : 0),
        INT(f->updated_ns - w->start_ns), INT(f->began_realtime_ns), TXT(f->title), TXT(f->message),
        TXT(f->considered), TXT(f->advice)};
    int result = INSERT(w, "INSERT INTO findings VALUES(NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", v);
    int64_t id = sqlite3_last_insert_rowid(w->db);
    for (uint32_t i = 0; i < f->evidence_count && i < AL_EVIDENCE_MAX && !result; i++) {
        const struct al_evidence *e = &f->evidence[i];
        const struct value ev[] = {INT(id), TXT(e->name), NUM(e->value), TXT(al_unit_word(e->unit)), TXT(e->source)};
        result = INSERT(w, "INSERT INTO evidence VALUES(?, ?, ?, ?, ?)", ev);
    }
    w->stats.findings++;
    return result;
}

int al_store_verdict(struct al_sink *sink, const char *rule, const char *key, const char *verdict, const char *why) {
    struct al_writer *w = (struct al_writer *)sink;
    if (w->failed || !w->started)
        return w->failed;
    const struct value v[] = {INT(w->last_t), TXT(rule), TXT(key), TXT(verdict), TXT(why)};
    int result = INSERT(w, "INSERT INTO verdicts SELECT ?1, ?2, ?3, ?4, ?5 WHERE ?4 IS NOT (SELECT verdict FROM verdicts"
                           " WHERE rule = ?2 AND key = ?3 ORDER BY t DESC, rowid DESC LIMIT 1)", v);
    if (result)
        w->failed = result;
    return result;
}

int al_store_note_meta(struct al_sink *sink, const char *key, const char *text) {
    struct al_writer *w = (struct al_writer *)sink;
    if (!w->failed)
        w->failed = al_writer_meta(w, key, text);
    return w->failed;
}

int al_store_note_gap(struct al_sink *sink, int64_t from_ns, int64_t to_ns, const char *reason) {
    struct al_writer *w = (struct al_writer *)sink;
    return w->failed ? w->failed : al_writer_note_gap(w, from_ns, to_ns, reason);
}

int al_store_note_range(struct al_sink *sink, uint32_t gpu, int metric, double min, double max) {
    struct al_writer *w = (struct al_writer *)sink;
    int64_t id = 0;
    for (uint32_t i = 0; i < w->lives[AL_STORE_GPU].count; i++) {
        const struct al_live *l = &w->lives[AL_STORE_GPU].list[i];
        if (l->seen == w->tick && l->position == gpu)
            id = l->id;
    }
    const struct value v[] = {INT(w->last_t), INT(id), TXT(al_gpu_metrics[metric].name), NUM(min), NUM(max)};
    return w->failed ? w->failed : INSERT(w, "INSERT INTO sample_ranges VALUES(?, ?, ?, ?, ?)", v);
}
