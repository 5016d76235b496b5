// SPDX-License-Identifier: Apache-2.0
#include "tally/parts.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"

#define GPU_TIME_MOST 3600000000000LL // of one phase of one step

const char *al_part_word(int part) {
    const char *word = part >= 0 ? al_rank_phase_word((uint32_t)part) : NULL;
    return word ? word : "";
}

void al_tally_init(struct al_tally *t) {
    *t = (struct al_tally){.rank = -1, .world = -1, .epoch = -1, .gpu_last_step = -1};
}

enum al_phase_kind al_tally_phase(const struct al_tally *t) {
    return t->depth ? (enum al_phase_kind)t->open[t->depth - 1] : AL_IN_OTHER;
}

int al_tally_part(const struct al_tally *t) {
    for (uint32_t i = 0; i < t->depth; i++)
        if (t->open[i] == AL_IN_EVALUATION)
            return AL_IN_EVALUATION;
    if (t->depth)
        return t->open[t->depth - 1];
    return t->between ? AL_PART_BETWEEN : AL_IN_OTHER;
}

// The time since the last mark belongs to what was open meanwhile. Marks of several threads may arrive a little out of
// order: time never runs backwards here.
static void advance(struct al_tally *t, int64_t at_ns) {
    if (!t->begin_ns || at_ns <= t->cursor_ns)
        return;
    int64_t passed = at_ns - t->cursor_ns;
    t->current.wall_ns += passed;
    t->current.part_ns[al_tally_part(t)] += passed;
    t->cursor_ns = at_ns;
}

static void begin_training(struct al_tally *t, int64_t at_ns) {
    if (t->begin_ns)
        return;
    t->begin_ns = t->cursor_ns = t->step_end_ns = at_ns;
}

static bool starts_step(uint16_t code) {
    return code == AL_IN_DATA || code == AL_IN_FORWARD || code == AL_IN_BACKWARD || code == AL_IN_OPTIMIZER;
}

// Index of the innermost open `code`, or the depth.
static uint32_t find_open(const struct al_tally *t, uint16_t code) {
    for (uint32_t i = t->depth; i > 0; i--)
        if (t->open[i - 1] == code)
            return i - 1;
    return t->depth;
}

static void phase_begin(struct al_tally *t, int64_t at_ns, uint16_t code) {
    begin_training(t, at_ns);
    advance(t, at_ns);
    // With records lost, a phase that is still open was closed by one of them.
    if (t->lost) {
        uint32_t open = find_open(t, code);
        if (open < t->depth)
            t->depth = open;
    }
    if (starts_step(code) && !t->depth)
        t->between = false;
    if (t->depth < AL_TALLY_DEPTH)
        t->open[t->depth++] = (uint8_t)code;
}

static void phase_end(struct al_tally *t, int64_t at_ns, uint16_t code, int64_t own_loop) {
    advance(t, at_ns);
    uint32_t open = find_open(t, code);
    if (open == t->depth)
        t->unmatched++;
    t->depth = open;
    if (!open && own_loop == 1) // a trainer's bookkeeping and callbacks
        t->between = true;
}

static void add_span(struct al_tally_span *to, const struct al_tally_span *from) {
    to->wall_ns += from->wall_ns;
    for (int i = 0; i < AL_PART_COUNT; i++)
        to->part_ns[i] += from->part_ns[i];
}

static void spread(struct al_tally *t) {
    al_spread_push(&t->spread_wall, (double)t->current.wall_ns / 1e9);
    for (int i = 0; i < AL_PART_COUNT; i++)
        al_spread_push(&t->spread_part[i], (double)t->current.part_ns[i] / 1e9);
}

static void close_step(struct al_tally *t, int64_t at_ns) {
    add_span(&t->total, &t->current);
    if (!t->recent_count)
        t->first = t->current;
    else
        spread(t);
    t->recent[t->recent_next] = t->current;
    t->recent_next = (t->recent_next + 1) % AL_TALLY_RECENT;
    if (t->recent_count < AL_TALLY_RECENT)
        t->recent_count++;
    t->last_step = t->current;
    if (!t->shortest_ns || t->current.wall_ns < t->shortest_ns)
        t->shortest_ns = t->current.wall_ns;
    if (t->current.wall_ns > t->longest_ns)
        t->longest_ns = t->current.wall_ns;
    memset(&t->current, 0, sizeof t->current);
    t->step_end_ns = at_ns > t->cursor_ns ? at_ns : t->cursor_ns;
    t->between = true;
}

static void step(struct al_tally *t, int64_t at_ns, uint16_t code, int64_t number, int64_t samples) {
    begin_training(t, at_ns);
    advance(t, at_ns);
    if (code == AL_STEP_MICRO) {
        t->micro++;
        return;
    }
    // A step tells the samples of all its micro-steps; an aborted one's are told with the next.
    if (samples > 0 && samples < INT64_MAX / 2 - t->samples)
        t->samples += samples;
    else
        t->samples_unknown |= code == AL_STEP_DONE;
    // So are tokens.
    t->tokens += t->step_tokens;
    t->tokens_unknown |= code == AL_STEP_DONE && !t->step_tokens;
    t->step_tokens = 0;
    t->done += code == AL_STEP_DONE;
    t->skipped += code == AL_STEP_SKIPPED;
    t->aborted += code == AL_STEP_ABORTED;
    t->step = number >= 0 && number < INT64_MAX / 4 ? number : t->step + 1;
    close_step(t, at_ns);
}

static void gpu_time(struct al_tally *t, uint16_t code, int64_t number, int64_t ns) {
    if (code >= AL_PHASE_COUNT || ns < 0 || ns > GPU_TIME_MOST)
        return;
    if (number != t->gpu_last_step) {
        t->gpu_last_step = number;
        t->gpu_steps++;
        memset(t->gpu_step, 0, sizeof t->gpu_step);
    }
    t->gpu_ns[code] += ns;
    t->gpu_step[code] += ns;
}

void al_tally_event(struct al_tally *t, int64_t at_ns, uint16_t kind, uint16_t code, int32_t device, int64_t a,
                    int64_t b) {
    t->events++;
    // The writer is another process: times and numbers that no sum can hold are no marks.
    if (at_ns <= 0 || at_ns > INT64_MAX / 4)
        return;
    if (!t->first_ns)
        t->first_ns = at_ns;
    if (at_ns > t->last_ns)
        t->last_ns = at_ns;
    switch (kind) {
    case AL_EVENT_HELLO:
        t->hello = true;
        t->rank = a >= 0 && a < INT32_MAX ? a : -1;
        t->world = b > 0 && b < INT32_MAX ? b : -1;
        break;
    case AL_EVENT_PHASE_BEGIN:
        if (code < AL_PHASE_COUNT)
            phase_begin(t, at_ns, code);
        break;
    case AL_EVENT_PHASE_END:
        if (code < AL_PHASE_COUNT)
            phase_end(t, at_ns, code, b);
        break;
    case AL_EVENT_STEP: step(t, at_ns, code, a, b); break;
    case AL_EVENT_EPOCH: t->epoch = a; break;
    case AL_EVENT_TOKENS:
        if (a > 0 && a < INT64_MAX / 4 - t->tokens - t->step_tokens && al_tally_part(t) != AL_IN_EVALUATION)
            t->step_tokens += a;
        break;
    case AL_EVENT_GPU_TIME: gpu_time(t, code, a, b); break;
    case AL_EVENT_MEMORY: al_tally_memory_event(t, code, device, a, b); break;
    case AL_EVENT_DRIVER: al_tally_driver_event(t, code, device, a); break;
    case AL_EVENT_HOST: al_tally_host_event(t, code, device, a, b); break;
    case AL_EVENT_COMMUNICATOR:
    case AL_EVENT_COLLECTIVE: al_tally_nccl_event(t, kind, code, device, a, b); break;
    case AL_EVENT_ANSWER: al_tally_answer_event(t, code, device, a, b); break;
    case AL_EVENT_COST: al_tally_cost_event(t, code, a); break;
    case AL_EVENT_EXIT:
        advance(t, at_ns);
        t->exited = true;
        t->exit_kind = code;
        t->exit_value = a;
        t->exit_ns = at_ns;
        break;
    default: break;
    }
}

void al_tally_text(struct al_tally *t, uint16_t code, const char *text, size_t len) {
    if (code >= AL_TEXT_COUNT)
        return;
    (void)al_str_copy_n(t->text[code], sizeof t->text[code], text, len);
    (void)al_str_clean(t->text[code]);
    if (code == AL_TEXT_COMMUNICATOR)
        al_tally_nccl_name(t, t->text[code]);
}

void al_tally_lost(struct al_tally *t, uint64_t lost) {
    t->lost = lost;
}

uint64_t al_tally_steps(const struct al_tally *t) {
    return t->done + t->skipped + t->aborted;
}

uint32_t al_tally_recent(const struct al_tally *t, struct al_tally_span *ret) {
    memset(ret, 0, sizeof *ret);
    for (uint32_t i = 0; i < t->recent_count; i++)
        add_span(ret, &t->recent[i]);
    return t->recent_count;
}

bool al_tally_trains(const struct al_tally *t) {
    return t->begin_ns != 0;
}

bool al_tally_gpu_ratio(const struct al_tally *t, double *ret) {
    uint64_t steps = al_tally_steps(t);
    int64_t sum = 0;
    if (!t->gpu_steps || !steps || t->total.wall_ns <= 0)
        return false;
    for (int i = 0; i < AL_PHASE_COUNT; i++)
        sum += t->gpu_ns[i];
    *ret = (double)sum / (double)t->gpu_steps / ((double)t->total.wall_ns / (double)steps);
    return true;
}

bool al_tally_word(const struct al_tally *t, enum al_text text, const char *key, char *out, size_t size) {
    size_t len = strlen(key);
    for (const char *p = t->text[text]; *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strncmp(p, key, len) == 0 && p[len] == '=')
            return al_str_copy_n(out, size, p + len + 1, strcspn(p + len + 1, " "));
    return false;
}

bool al_tally_number(const struct al_tally *t, enum al_text text, const char *key, double *ret) {
    char value[48];
    return al_tally_word(t, text, key, value, sizeof value) && al_str_double(value, ret);
}

bool al_tally_metric(const struct al_tally *t, const char *key, double *ret) {
    size_t len = strlen(key);
    for (const char *p = strstr(t->text[AL_TEXT_METRICS], key); p; p = strstr(p + 1, key)) {
        const char *q = p + len;
        char number[48];
        if (p == t->text[AL_TEXT_METRICS] || p[-1] != '"' || *q != '"')
            continue;
        q += 1 + strspn(q + 1, " ");
        if (*q != ':')
            continue;
        q += 1 + strspn(q + 1, " ");
        size_t digits = strspn(q, "0123456789+-.eE");
        return al_str_copy_n(number, sizeof number, q, digits) && al_str_double(number, ret);
    }
    return false;
}

bool al_tally_peak(const struct al_tally *t, double *ret) {
    bool known = false;
    for (uint32_t i = 0; i < t->device_count; i++) {
        const struct al_tally_memory *m = &t->memory[i];
        int figure = m->known[AL_ALLOCATOR_ALLOCATED_PEAK] ? AL_ALLOCATOR_ALLOCATED_PEAK : AL_ALLOCATOR_ALLOCATED;
        if (!m->known[figure] || (known && (double)m->most[figure] <= *ret))
            continue;
        *ret = (double)m->most[figure];
        known = true;
    }
    return known;
}
