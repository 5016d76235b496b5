// SPDX-License-Identifier: Apache-2.0
#include "cli/stored.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "detect/detect.h"
#include "store/store.h"

#define OPEN_MAX_KEYS 1024

struct open_key {
    char key[160];
    int64_t began_ns, began_realtime_ns;
    bool adopted; // the rules raised it again
};

struct al_stored {
    struct al_sink sink; // first
    struct al_store *store;
    struct al_detect *detect; // may be NULL
    const struct al_settings *settings;
    int64_t from_ns;   // of the recording
    int64_t start_ns;  // the replay's clock at its first tick
    int64_t last_ns;   // stored findings up to here were looked at
    bool started, thinned, off;
    struct open_key *open;
    uint32_t count;
    // of the tick under way
    const struct al_snapshot *now;
    al_stored_fn *fn;
    void *user;
};

static void begin(struct al_stored *st, const struct al_snapshot *s) {
    if (st->started)
        return;
    st->started = true;
    st->start_ns = s->monotonic_ns;
}

static int64_t place(const struct al_stored *st, const struct al_snapshot *s) {
    return s->monotonic_ns - st->start_ns + st->from_ns;
}

static void switch_rules(struct al_stored *st, bool off) {
    struct al_settings set = *st->settings;
    st->off = off;
    for (unsigned i = 0; i < al_setting_count && off; i++) {
        const double no = 0;
        if (strcmp(al_setting_table[i].key, "enabled") == 0)
            memcpy((char *)&set + al_setting_table[i].offset, &no, sizeof no);
    }
    al_detect_settings(st->detect, &set);
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_stored *st = (struct al_stored *)sink;
    begin(st, s);
    st->thinned = al_store_level(st->store, place(st, s)) > 0;
    if (st->detect && st->thinned != st->off)
        switch_rules(st, st->thinned);
    return 0;
}

static const struct al_sink_ops sink_ops = {.name = "stored", .tick = on_tick};

int al_stored_new(const struct al_source *source, struct al_detect *detect, const struct al_settings *settings,
                  struct al_stored **ret) {
    int64_t from_ns = 0;
    struct al_store *store = al_store_of(source, &from_ns);
    *ret = NULL;
    if (!store)
        return 0;
    struct al_store_info info;
    al_store_info(store, &info);
    if (!info.level_ns[1] && !info.level_ns[2])
        return 0;
    struct al_stored *st = calloc(1, sizeof *st);
    if (!st)
        return AL_E_NOMEM;
    st->sink.ops = &sink_ops;
    st->store = store;
    st->detect = detect;
    st->settings = settings;
    st->from_ns = from_ns;
    st->last_ns = from_ns - 1;
    *ret = st;
    return 0;
}

struct al_sink *al_stored_sink(struct al_stored *st) {
    return &st->sink;
}

struct al_stored *al_stored_free(struct al_stored *st) {
    if (st)
        free(st->open);
    free(st);
    return NULL;
}

static struct open_key *find(struct al_stored *st, const char *key) {
    for (uint32_t i = 0; i < st->count; i++)
        if (strcmp(st->open[i].key, key) == 0)
            return &st->open[i];
    return NULL;
}

static void forget(struct al_stored *st, struct open_key *k) {
    *k = st->open[--st->count];
}

static int remember(struct al_stored *st, const struct al_finding *f) {
    struct open_key *k = find(st, f->key);
    if (k || st->count == OPEN_MAX_KEYS)
        return 0;
    struct open_key *wider = realloc(st->open, (st->count + 1) * sizeof *wider);
    if (!wider)
        return AL_E_NOMEM;
    st->open = wider;
    k = &wider[st->count++];
    memset(k, 0, sizeof *k);
    (void)al_str_copy(k->key, sizeof k->key, f->key);
    k->began_ns = f->began_ns;
    k->began_realtime_ns = f->began_realtime_ns;
    return 0;
}

static int on_stored(void *user, int64_t at_ns, const struct al_finding *stored) {
    struct al_stored *st = user;
    struct al_finding f = *stored;
    int64_t shift = st->start_ns - st->from_ns;
    struct open_key *k = find(st, f.key);
    bool thinned = al_store_level(st->store, at_ns) > 0;
    // In whole parts the rules speak, but the end of what only the stored ones began is still theirs to tell.
    if (!thinned && !(k && !k->adopted && f.phase == AL_PHASE_ENDED))
        return 0;
    f.began_ns += shift;
    f.updated_ns += shift;
    f.ended_ns += f.ended_ns ? shift : 0;
    int result = 0;
    if (f.phase == AL_PHASE_ENDED && k)
        forget(st, k);
    else if (f.phase != AL_PHASE_ENDED)
        result = remember(st, &f);
    return result ? result : st->fn(st->user, st->now, &f);
}

int al_stored_tick(struct al_stored *st, const struct al_snapshot *s, al_stored_fn *fn, void *user) {
    if (!st)
        return 0;
    begin(st, s);
    int64_t at = place(st, s);
    st->now = s;
    st->fn = fn;
    st->user = user;
    int result = al_store_findings(st->store, st->last_ns, at, on_stored, st);
    st->last_ns = at;
    return result;
}

bool al_stored_keep(struct al_stored *st, struct al_finding *f) {
    if (!st)
        return true;
    if (st->thinned)
        return false;
    struct open_key *k = find(st, f->key);
    if (!k)
        return true;
    if (f->phase == AL_PHASE_BEGAN)
        f->phase = AL_PHASE_UPDATED;
    k->adopted = true;
    f->began_ns = k->began_ns;
    f->began_realtime_ns = k->began_realtime_ns;
    if (f->phase == AL_PHASE_ENDED)
        forget(st, k);
    return true;
}
