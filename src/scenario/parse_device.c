// SPDX-License-Identifier: Apache-2.0
// Lines about what GPUs do: figures, attributes, loss and return, Xid events, driver samples, faults and hangs.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/reader.h"

static int read_mask(struct al_reader *r, struct al_gpu_mask *mask, uint32_t *ret) {
    int error = al_reader_need(r, "a GPU number or range such as 0-7");
    if (!error)
        error = al_read_gpus(r, r->word.key, r->word.key_column, mask);
    return error ? error : al_add_mask(r->s, mask, ret);
}

static int need_pair(struct al_reader *r) {
    if (r->word.has_value)
        return 0;
    return al_reader_fail(r, r->word.key_column, "'%.40s' needs a value: %.40s=…", r->word.key, r->word.key);
}

static int parse_lists_status(struct al_reader *r, struct al_change *e) {
    e->kind = AL_CHANGE_GPU_LISTS;
    e->field = strcmp(r->word.key, "processes") != 0;
    int got = al_read_status(r, r->word.value, r->word.value_column, &e->status);
    if (got == 0)
        return al_reader_fail(r, r->word.value_column, "'%.40s' takes a status such as !ok or !denied", r->word.key);
    return got < 0 ? got : 0;
}

static int parse_gpu(struct al_reader *r) {
    struct al_gpu_mask mask;
    uint32_t target;
    int got = read_mask(r, &mask, &target);
    if (got)
        return got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        struct al_change e = {.kind = AL_CHANGE_GPU, .target = target};
        int error = need_pair(r);
        if (error)
            return error;
        int metric = al_gpu_metric_find(w->key);
        if (metric >= 0) {
            e.field = (uint16_t)metric;
            error = al_read_track(r, w->value, w->value_column, al_gpu_metrics[metric].unit, &e);
        } else if (strcmp(w->key, "processes") == 0 || strcmp(w->key, "process_utilization") == 0) {
            error = parse_lists_status(r, &e);
        } else {
            error =
                al_reader_fail(r, w->key_column, "'%.60s' is no metric of a GPU; docs/metrics.md lists them", w->key);
        }
        if (!error)
            error = al_add_event(r, e);
        if (error)
            return error;
    }
    return got;
}

static int parse_attr(struct al_reader *r) {
    struct al_gpu_mask mask;
    uint32_t target;
    int got = read_mask(r, &mask, &target);
    if (got)
        return got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int error = need_pair(r), attr = al_attr_find(w->key);
        if (!error && attr < 0)
            error = al_reader_fail(r, w->key_column, "'%.60s' is no attribute of a GPU (see docs/scenario.md)", w->key);
        if (error)
            return error;
        struct al_change e = {.kind = AL_CHANGE_ATTR, .target = target, .field = (uint16_t)attr, .status = AL_STATUS_OK};
        got = al_read_status(r, w->value, w->value_column, &e.status);
        if (got < 0)
            return got;
        if (got == 0 && al_attrs[attr].type == 'T' && strlen(w->value) >= AL_ATTR_TEXT)
            error = al_reader_fail(r, w->value_column, "longer than %d bytes; shorten it", AL_ATTR_TEXT - 1);
        else if (got == 0 && al_attrs[attr].type == 'T')
            error = al_add_text(r->s, w->value, &e.text);
        else if (got == 0)
            error = al_read_number(r, w->value, w->value_column, AL_UNIT_NONE, &e.a);
        if (!error)
            error = al_add_event(r, e);
        if (error)
            return error;
    }
    return got;
}

static int parse_back(struct al_reader *r, uint32_t target, const struct al_gpu_mask *mask) {
    uint64_t index;
    int got = al_reader_word(r);
    if (got <= 0)
        return got;
    struct al_word *w = &r->word;
    if (!w->has_value || strcmp(w->key, "index") != 0)
        return al_reader_fail(r, w->key_column, "only index=N may follow");
    if (!r->s->board_count)
        return al_reader_fail(r, w->key_column, "there is no GPU");
    int error = al_read_whole(r, w->value, w->value_column, r->s->board_count - 1, &index);
    int named = 0;
    for (uint32_t g = 0; g < AL_GPU_MAX; g++)
        named += al_gpu_mask_has(mask, g) ? (g < r->s->board_count ? 1 : 2) : 0;
    if (!error && named != 1)
        error = al_reader_fail(r, w->key_column, "an index fits one GPU only; write a line for each");
    if (!error)
        error = al_add_event(r, (struct al_change){.kind = AL_CHANGE_GPU_INDEX, .target = target, .a = (double)index});
    return error ? error : al_reader_done(r);
}

static int parse_state(struct al_reader *r, const char *verb) {
    struct al_gpu_mask mask;
    uint32_t target;
    int error = read_mask(r, &mask, &target);
    if (error)
        return error;
    struct al_change e = {.kind = AL_CHANGE_GPU_STATE, .target = target, .status = AL_STATUS_LOST};
    if (strcmp(verb, "back") == 0)
        e.status = AL_STATUS_OK;
    else if (strcmp(verb, "reset_required") == 0)
        e.status = AL_STATUS_RESET;
    else if (strcmp(verb, "gone") == 0)
        e.kind = AL_CHANGE_GPU_GONE;
    error = al_add_event(r, e);
    if (error)
        return error;
    return strcmp(verb, "back") == 0 ? parse_back(r, target, &mask) : al_reader_done(r);
}

static int add_xid(struct al_reader *r, const struct al_gpu_mask *mask, uint32_t code, uint64_t count) {
    struct al_scenario *s = r->s;
    for (uint32_t g = 0; g < s->gpu_count; g++)
        for (uint64_t i = 0; al_gpu_mask_has(mask, g) && i < count; i++) {
            int error = s->xid_count < AL_SCENARIO_EVENTS_MAX ? 0 : AL_E_TOOBIG;
            if (!error)
                error = al_grow(&s->xids, &s->xid_cap, s->xid_count, sizeof *s->xids);
            if (error)
                return error;
            s->xids[s->xid_count++] = (struct al_scenario_xid){r->time_ns, g, code};
        }
    return 0;
}

static int parse_xid(struct al_reader *r) {
    struct al_gpu_mask mask;
    uint32_t target;
    uint64_t code, count = 1;
    int64_t when = -1;
    int got = read_mask(r, &mask, &target);
    if (!got)
        got = al_reader_need(r, "the Xid code");
    if (!got)
        got = al_read_whole(r, r->word.key, r->word.key_column, 100000, &code);
    if (got)
        return got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int error = need_pair(r);
        if (!error && strcmp(w->key, "count") == 0)
            error = al_read_whole(r, w->value, w->value_column, 1000, &count);
        else if (!error && strcmp(w->key, "at") == 0)
            error = al_read_time(r, w->value, w->value_column, &when);
        else if (!error)
            error = al_reader_fail(r, w->key_column, "'%.40s' is no key of an xid line; it takes count at", w->key);
        if (error)
            return error;
    }
    struct al_change e = {
        .kind = AL_CHANGE_XID, .target = target, .a = (double)code, .b = (double)count, .ramp_ns = when};
    if (!got)
        got = al_add_event(r, e);
    return got ? got : add_xid(r, &mask, (uint32_t)code, count);
}

static int add_sample(struct al_reader *r, const struct al_gpu_mask *mask, int64_t at, double ratio) {
    struct al_scenario *s = r->s;
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        if (!al_gpu_mask_has(mask, g))
            continue;
        struct al_sample_list *list = &s->samples[g];
        if (!s->recorded_samples[g])
            return al_reader_fail(r, r->word.key_column, "say samples=recorded in the gpu line of GPU %u first", g);
        if (list->count && list->item[list->count - 1].at_ns >= at)
            return al_reader_fail(r, r->word.key_column, "samples of one GPU must rise in time; sort them");
        int error = list->count < AL_SCENARIO_EVENTS_MAX ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&list->item, &list->cap, list->count, sizeof *list->item);
        if (error)
            return error;
        list->item[list->count++] = (struct al_fresh){at, ratio};
    }
    return 0;
}

static int parse_sample(struct al_reader *r) {
    struct al_gpu_mask mask;
    uint32_t target;
    int got = read_mask(r, &mask, &target);
    if (got)
        return got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int64_t at;
        double ratio;
        int error = w->has_value ? 0 : al_reader_fail(r, w->key_column, "write time=ratio, as in 11.8s=0.93");
        if (!error)
            error = al_read_time(r, w->key, w->key_column, &at);
        if (!error)
            error = al_read_number(r, w->value, w->value_column, AL_UNIT_RATIO, &ratio);
        if (!error)
            error = add_sample(r, &mask, at, ratio);
        if (error)
            return error;
    }
    return got;
}

int al_parse_device_line(struct al_reader *r, const char *verb) {
    static const char *const states[] = {"lost", "back", "gone", "reset_required"};
    int error = 0;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(verb, states[i]) == 0)
            return (error = parse_state(r, verb)) ? error : 1;
    if (strcmp(verb, "gpu") == 0)
        error = parse_gpu(r);
    else if (strcmp(verb, "xid") == 0)
        error = parse_xid(r);
    else if (strcmp(verb, "sample") == 0)
        error = parse_sample(r);
    else if (strcmp(verb, "resume") == 0)
        error = al_reader_done(r), error = error ? error : al_add_event(r, (struct al_change){.kind = AL_CHANGE_RESUME});
    else
        return 0;
    return error ? error : 1;
}

// The keys behind a fault or hang: gpu=0-3 for=10s calls=2, or since=11.9s of a recorded hang.
static int parse_fault_keys(struct al_reader *r, struct al_fault_line *f, int64_t *since) {
    int got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int error = need_pair(r);
        if (error)
            return error;
        if (strcmp(w->key, "gpu") == 0) {
            f->any_gpu = false;
            error = al_read_gpus(r, w->value, w->value_column, &f->gpus);
        } else if (strcmp(w->key, "for") == 0 && !f->hang) {
            int64_t length = 0;
            error = al_read_time(r, w->value, w->value_column, &length);
            f->until_ns = f->at_ns + length;
        } else if (strcmp(w->key, "calls") == 0) {
            uint64_t calls = 0;
            error = al_read_whole(r, w->value, w->value_column, 1000000000, &calls);
            f->calls = (int64_t)calls;
        } else if (strcmp(w->key, "since") == 0 && f->hang && f->until_ns == INT64_MAX) {
            error = al_read_time(r, w->value, w->value_column, since);
        } else {
            error =
                al_reader_fail(r, w->key_column, "'%.40s' is no key here; gpu, calls and, of a fault, for are", w->key);
        }
        if (error)
            return error;
    }
    return got;
}

static int keep_fault(struct al_reader *r, struct al_fault_line *f) {
    struct al_scenario *s = r->s;
    int error = s->fault_count < AL_SCENARIO_FAULTS_MAX ? 0 : AL_E_TOOBIG;
    if (!error)
        error = al_grow(&s->faults, &s->fault_cap, s->fault_count, sizeof *s->faults);
    if (!error)
        s->faults[s->fault_count++] = *f;
    return error;
}

// hang FUNCTION DURATION: everyone who calls it in that time waits for its end. Without a duration it is what a
// recording saw, up to the line "resume".
static int parse_hang(struct al_reader *r, struct al_fault_line *f) {
    struct al_change e = {.kind = AL_CHANGE_HANG};
    int64_t length, since = r->time_ns;
    const char *mark = r->at;
    int got = al_reader_word(r);
    if (got > 0 && !r->word.has_value) {
        got = al_read_time(r, r->word.key, r->word.key_column, &length);
        f->until_ns = f->at_ns + length;
        e.kind = AL_CHANGE_FREEZE;
    } else if (got > 0) {
        r->at = mark;
    }
    if (got >= 0)
        got = parse_fault_keys(r, f, &since);
    if (!got)
        got = al_add_text(r->s, f->function, &e.text);
    e.ramp_ns = since;
    if (!got)
        got = al_add_event(r, e);
    return got || e.kind == AL_CHANGE_HANG ? got : keep_fault(r, f);
}

static int parse_fault(struct al_reader *r, bool hang) {
    struct al_fault_line f = {.at_ns = r->timed ? r->time_ns : -1, .until_ns = INT64_MAX, .any_gpu = true, .calls = -1};
    f.hang = hang;
    int error = al_reader_need(r, "the name of an NVML function");
    if (!error && !al_str_copy(f.function, sizeof f.function, r->word.key))
        error = al_reader_fail(r, r->word.key_column, "no NVML function has so long a name");
    if (error || hang)
        return error ? error : parse_hang(r, &f);
    error = al_reader_need(r, "an NVML result such as NOT_SUPPORTED");
    if (!error && (f.code = al_scenario_result(r->word.key)) < 0)
        error = al_reader_fail(r, r->word.key_column,
                               "'%.40s' is no NVML result; write NOT_SUPPORTED, TIMEOUT or a number", r->word.key);
    if (!error)
        error = parse_fault_keys(r, &f, NULL);
    return error ? error : keep_fault(r, &f);
}

int al_parse_common_line(struct al_reader *r, const char *verb) {
    int error = 0;
    if (strcmp(verb, "attr") == 0)
        error = parse_attr(r);
    else if (strcmp(verb, "fault") == 0 || strcmp(verb, "hang") == 0)
        error = parse_fault(r, verb[0] == 'h');
    else
        return 0;
    return error ? error : 1;
}
