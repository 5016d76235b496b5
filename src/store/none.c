// SPDX-License-Identifier: Apache-2.0
// A build without SQLite or zstd: every call says so.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/profiles.h"
#include "store/store.h"

static int refuse(struct al_store_error *e) {
    if (e)
        (void)snprintf(e->text, sizeof e->text, "this alula was built without SQLite and zstd: no recordings");
    return AL_E_UNSUPPORTED;
}

bool al_store_built(void) {
    return false;
}
int al_store_writer(const struct al_store_options *o, struct al_sink **ret, struct al_store_error *reterr) {
    (void)o, (void)ret;
    return refuse(reterr);
}
int al_store_close(struct al_sink *sink, struct al_store_error *reterr) {
    (void)sink;
    return refuse(reterr);
}
const char *al_store_why(const struct al_sink *sink) {
    (void)sink;
    return "";
}
void al_store_stats(const struct al_sink *sink, struct al_store_stats *ret) {
    (void)sink;
    memset(ret, 0, sizeof *ret);
}
int al_store_verdict(struct al_sink *sink, const char *rule, const char *key, const char *verdict, const char *why) {
    (void)sink, (void)rule, (void)key, (void)verdict, (void)why;
    return refuse(NULL);
}
int al_store_note_meta(struct al_sink *sink, const char *key, const char *text) {
    (void)sink, (void)key, (void)text;
    return refuse(NULL);
}
int al_store_note_gap(struct al_sink *sink, int64_t from_ns, int64_t to_ns, const char *reason) {
    (void)sink, (void)from_ns, (void)to_ns, (void)reason;
    return refuse(NULL);
}
int al_store_note_range(struct al_sink *sink, uint32_t gpu, int metric, double min, double max) {
    (void)sink, (void)gpu, (void)metric, (void)min, (void)max;
    return refuse(NULL);
}
bool al_store_has(struct al_store *s, int metric) {
    (void)s, (void)metric;
    return false;
}
int al_store_open(const char *path, struct al_store **ret, struct al_store_error *reterr) {
    (void)path, (void)ret;
    return refuse(reterr);
}
struct al_store *al_store_free(struct al_store *s) {
    (void)s;
    return NULL;
}
void al_store_info(struct al_store *s, struct al_store_info *ret) {
    (void)s;
    memset(ret, 0, sizeof *ret);
}
uint32_t al_store_damage(const struct al_store *s, struct al_store_error *reterr) {
    (void)s, (void)reterr;
    return 0;
}
const char *al_store_meta(struct al_store *s, const char *key) {
    (void)s, (void)key;
    return NULL;
}
int al_store_next(struct al_store *s, int64_t after_ns, int64_t *ret_ns) {
    (void)s, (void)after_ns, (void)ret_ns;
    return refuse(NULL);
}
int al_store_at(struct al_store *s, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    (void)s, (void)after_ns, (void)at_ns, (void)ret;
    return refuse(NULL);
}
int al_store_level(const struct al_store *s, int64_t at_ns) {
    (void)s, (void)at_ns;
    return 0;
}
bool al_store_range(struct al_store *s, int64_t at_ns, uint32_t gpu, int metric, double *ret_min, double *ret_max) {
    (void)s, (void)at_ns, (void)gpu, (void)metric, (void)ret_min, (void)ret_max;
    return false;
}
int al_store_attr(struct al_store *s, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    (void)s, (void)gpu, (void)attr, (void)ret;
    return refuse(NULL);
}
int al_store_findings(struct al_store *s, int64_t after_ns, int64_t until_ns, al_store_finding_fn *fn, void *user) {
    (void)s, (void)after_ns, (void)until_ns, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_gaps(struct al_store *s, al_store_gap_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_verdicts(struct al_store *s, al_store_verdict_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_gpus(struct al_store *s, al_store_entity_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_processes(struct al_store *s, al_store_entity_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_source(struct al_store *s, int64_t from_ns, int64_t to_ns, struct al_source **ret) {
    (void)s, (void)from_ns, (void)to_ns, (void)ret;
    return refuse(NULL);
}
struct al_store *al_store_of(const struct al_source *source, int64_t *ret_from_ns) {
    (void)source, (void)ret_from_ns;
    return NULL;
}
int al_store_marks(struct al_sink *sink, const struct al_store_process *who, const struct al_mark *marks, size_t count) {
    (void)sink, (void)who, (void)marks, (void)count;
    return refuse(NULL);
}
int al_store_mark_text(struct al_sink *sink, const struct al_store_process *who, int64_t at_ns, uint16_t code,
                       const char *text, size_t len) {
    (void)sink, (void)who, (void)at_ns, (void)code, (void)text, (void)len;
    return refuse(NULL);
}
int al_store_commit(struct al_sink *sink) {
    (void)sink;
    return refuse(NULL);
}
int al_store_read_marks(struct al_store *s, al_store_mark_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_ranks(struct al_store *s, al_store_entity_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}

int al_store_add_profile(const char *path, const struct al_store_profile *p, const struct al_store_profile_parts *parts,
                         int64_t *ret_id, struct al_store_error *reterr) {
    (void)path, (void)p, (void)parts, (void)ret_id;
    return refuse(reterr);
}
int al_store_profiles(struct al_store *s, al_store_profile_fn *fn, void *user) {
    (void)s, (void)fn, (void)user;
    return refuse(NULL);
}
int al_store_read_profile(struct al_store *s, int64_t id, const struct al_store_profile_reader *r, struct al_store_error *reterr) {
    (void)s, (void)id, (void)r;
    return refuse(reterr);
}
