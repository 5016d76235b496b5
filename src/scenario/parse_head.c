// SPDX-License-Identifier: Apache-2.0
// The head: versions, host, what the GPUs and their MIG devices are, symbols that the library lacks.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/reader.h"

static int bad_key(struct al_reader *r, const char *line, const char *known) {
    return al_reader_fail(r, r->word.key_column, "'%.40s' is no key of a %s line; it takes %s", r->word.key, line,
                          known);
}

static int need_value(struct al_reader *r) {
    if (r->word.has_value)
        return 0;
    return al_reader_fail(r, r->word.key_column, "'%.40s' needs a value: %.40s=…", r->word.key, r->word.key);
}

static int yes_or_no(struct al_reader *r, bool *ret) {
    const char *v = r->word.value;
    if (strcmp(v, "yes") != 0 && strcmp(v, "no") != 0)
        return al_reader_fail(r, r->word.value_column, "'%.40s' must be yes or no", v);
    *ret = v[0] == 'y';
    return 0;
}

static int text_value(struct al_reader *r, const char *value, int column, char *out, size_t size) {
    if (!al_str_copy(out, size, value))
        return al_reader_fail(r, column, "longer than %zu bytes; shorten it", size - 1);
    return 0;
}

static int u32_value(struct al_reader *r, uint32_t *ret) {
    uint64_t value = 0;
    int error = al_read_whole(r, r->word.value, r->word.value_column, UINT32_MAX, &value);
    *ret = (uint32_t)value;
    return error;
}

static int parse_host(struct al_reader *r) {
    struct al_node *n = &r->s->node;
    int got;
    while ((got = al_reader_word(r)) > 0) {
        struct al_word *w = &r->word;
        int error = need_value(r);
        if (error)
            return error;
        if (strcmp(w->key, "hostname") == 0)
            error = text_value(r, w->value, w->value_column, n->hostname, sizeof n->hostname);
        else if (strcmp(w->key, "boot_id") == 0)
            error = text_value(r, w->value, w->value_column, n->boot_id, sizeof n->boot_id);
        else if (strcmp(w->key, "host_pid_ns") == 0)
            error = yes_or_no(r, &n->host_pid_ns);
        else if (strcmp(w->key, "pid_ns") == 0)
            error = al_read_whole(r, w->value, w->value_column, UINT64_MAX, &n->pid_ns);
        else
            error = bad_key(r, "host", "hostname boot_id host_pid_ns pid_ns");
        if (error)
            return error;
    }
    return got;
}

static int allocate_gpus(struct al_scenario *s) {
    if (s->info)
        return 0;
    s->info = calloc(AL_GPU_MAX, sizeof *s->info);
    s->recorded_samples = calloc(AL_GPU_MAX, sizeof *s->recorded_samples);
    s->samples = calloc(AL_GPU_MAX, sizeof *s->samples);
    return s->info && s->recorded_samples && s->samples ? 0 : AL_E_NOMEM;
}

// splitmix64's finaliser: spreads small numbers over all bits, so that made-up UUIDs differ from their first digits on.
static uint64_t spread(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void make_uuid(char *out, size_t size, const char *kind, uint64_t seed) {
    uint64_t a = spread(seed), b = spread(seed + 1000);
    snprintf(out, size, "%s-%08x-%04x-%04x-%04x-%012llx", kind, (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffff,
             (unsigned)a & 0xffff, (unsigned)(b >> 48), (unsigned long long)(b & 0xffffffffffffULL));
}

static void describe_board(struct al_scenario *s, uint32_t gpu) {
    struct al_gpu_info *i = &s->info[gpu];
    if (i->uuid[0])
        return;
    *i = (struct al_gpu_info){.index = gpu, .minor = gpu, .architecture = 9, .parent = -1, .status = AL_STATUS_OK};
    make_uuid(i->uuid, sizeof i->uuid, "GPU", gpu);
    snprintf(i->name, sizeof i->name, "NVIDIA H200");
    snprintf(i->pci_bus_id, sizeof i->pci_bus_id, "00000000:%02X:00.0", 1 + gpu);
    snprintf(i->serial, sizeof i->serial, "16500%08u", gpu + 1);
    if (gpu >= s->board_count)
        s->board_count = s->gpu_count = gpu + 1;
}

static const char info_keys[] = "name uuid pci_bus_id serial minor architecture unified_memory mig_enabled samples";

static int set_info(struct al_reader *r, uint32_t gpu) {
    struct al_gpu_info *i = &r->s->info[gpu];
    const struct { const char *key; char *out; size_t size; } texts[] = {
        {"name", i->name, sizeof i->name},
        {"uuid", i->uuid, sizeof i->uuid},
        {"pci_bus_id", i->pci_bus_id, sizeof i->pci_bus_id},
        {"serial", i->serial, sizeof i->serial},
        {"profile", i->mig_profile, sizeof i->mig_profile},
    };
    struct al_word *w = &r->word;
    if (strcmp(w->key, "uuid") == 0 && !w->value[0])
        return al_reader_fail(r, w->value_column, "a UUID cannot be empty; leave the key out to have one made up");
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        if (strcmp(w->key, texts[t].key) == 0)
            return text_value(r, w->value, w->value_column, texts[t].out, texts[t].size);
    if (strcmp(w->key, "minor") == 0)
        return u32_value(r, &i->minor);
    if (strcmp(w->key, "architecture") == 0)
        return u32_value(r, &i->architecture);
    if (strcmp(w->key, "gpu_instance") == 0)
        return u32_value(r, &i->gpu_instance);
    if (strcmp(w->key, "compute_instance") == 0)
        return u32_value(r, &i->compute_instance);
    if (strcmp(w->key, "unified_memory") == 0)
        return yes_or_no(r, &i->unified_memory);
    if (strcmp(w->key, "mig_enabled") == 0)
        return yes_or_no(r, &i->mig_enabled);
    if (strcmp(w->key, "samples") == 0 && strcmp(w->value, "recorded") == 0) {
        r->s->recorded_samples[gpu] = true;
        return 0;
    }
    if (strcmp(w->key, "samples") == 0)
        return al_reader_fail(r, w->value_column, "'%.40s' must be recorded; leave the key out otherwise", w->value);
    return bad_key(r, i->is_mig ? "mig" : "gpu",
                   i->is_mig ? "name uuid gpu_instance compute_instance profile" : info_keys);
}

static bool one_board_key(const char *key) {
    return strcmp(key, "uuid") == 0 || strcmp(key, "pci_bus_id") == 0 || strcmp(key, "serial") == 0 ||
           strcmp(key, "minor") == 0;
}

static int parse_gpu(struct al_reader *r) {
    struct al_scenario *s = r->s;
    struct al_gpu_mask mask;
    int got = al_reader_need(r, "a GPU number or range such as 0-7");
    if (!got) {
        r->describing = true;
        got = al_read_gpus(r, r->word.key, r->word.key_column, &mask);
        r->describing = false;
    }
    if (got)
        return got;
    uint32_t named = 0;
    for (uint32_t g = 0; g < AL_GPU_MAX; g++) {
        if (!al_gpu_mask_has(&mask, g))
            continue;
        if (s->gpu_count > s->board_count)
            return al_reader_fail(r, r->word.key_column, "describe all GPUs above the first mig line");
        describe_board(s, g);
        named++;
    }
    while ((got = al_reader_word(r)) > 0) {
        int error = need_value(r);
        if (!error && named > 1 && one_board_key(r->word.key))
            error = al_reader_fail(r, r->word.key_column, "%s must differ from GPU to GPU; give each its own line",
                                   r->word.key);
        for (uint32_t g = 0; g < s->board_count && !error; g++)
            if (al_gpu_mask_has(&mask, g))
                error = set_info(r, g);
        if (error)
            return error;
    }
    return got;
}

static int parse_mig(struct al_reader *r) {
    struct al_scenario *s = r->s;
    uint64_t parent = 0;
    int got = al_reader_need(r, "the number of the GPU that is cut up");
    if (!got)
        got = al_read_whole(r, r->word.key, r->word.key_column, AL_GPU_MAX - 1, &parent);
    if (got)
        return got;
    if (parent >= s->board_count)
        return al_reader_fail(r, r->word.key_column, "GPU %llu is described nowhere; add a gpu line for it above",
                              (unsigned long long)parent);
    if (s->gpu_count >= AL_GPU_MAX)
        return al_reader_fail(r, r->word.key_column, "more than %d GPUs and MIG devices", AL_GPU_MAX);
    uint32_t gpu = s->gpu_count++, nth = 0;
    for (uint32_t g = s->board_count; g < gpu; g++)
        nth += s->info[g].parent == (int32_t)parent;
    struct al_gpu_info *i = &s->info[gpu], *p = &s->info[parent];
    p->mig_enabled = true;
    *i = *p;
    i->is_mig = true;
    i->mig_enabled = false;
    i->parent = (int32_t)parent;
    i->index = nth;
    i->gpu_instance = nth + 1;
    make_uuid(i->uuid, sizeof i->uuid, "MIG", 1000 * (parent + 1) + nth);
    s->recorded_samples[gpu] = true; // utilisation is N/A on MIG
    while ((got = al_reader_word(r)) > 0) {
        int error = need_value(r);
        if (!error)
            error = set_info(r, gpu);
        if (error)
            return error;
    }
    if (!got && i->mig_profile[0] && strcmp(i->name, p->name) == 0) {
        size_t len = strlen(i->name);
        snprintf(i->name + len, sizeof i->name - len, " MIG %s", i->mig_profile);
    }
    return got;
}

static int parse_missing(struct al_reader *r) {
    struct al_scenario *s = r->s;
    int got = al_reader_need(r, "the name of an NVML function");
    for (got = got ? got : 1; got > 0; got = al_reader_word(r)) {
        int error = s->missing_count < 4096 ? 0 : AL_E_TOOBIG;
        if (!error)
            error = al_grow(&s->missing, &s->missing_cap, s->missing_count, sizeof *s->missing);
        if (!error)
            error = text_value(r, r->word.key, r->word.key_column, s->missing[s->missing_count], sizeof *s->missing);
        if (error)
            return error;
        s->missing_count++;
    }
    return got;
}

static int parse_start(struct al_reader *r) {
    if (!al_scenario_date(r->word.key, &r->s->start_realtime_ns))
        return al_reader_fail(r, r->word.key_column, "'%.40s' is no time; write 2026-11-29T12:00:00Z", r->word.key);
    return 0;
}

// A line of one plain value.
static int parse_single(struct al_reader *r, const char *verb) {
    struct al_scenario *s = r->s;
    const struct { const char *verb; char *out; size_t size; } texts[] = {
        {"driver", s->node.driver_version, sizeof s->node.driver_version},
        {"nvml", s->node.nvml_version, sizeof s->node.nvml_version},
        {"cuda", s->node.cuda_version, sizeof s->node.cuda_version},
    };
    int error = al_reader_need(r, "a value");
    struct al_word *w = &r->word;
    for (size_t t = 0; !error && t < sizeof texts / sizeof *texts; t++)
        if (strcmp(verb, texts[t].verb) == 0)
            error = text_value(r, w->key, w->key_column, texts[t].out, texts[t].size);
    if (!error && strcmp(verb, "start") == 0)
        error = parse_start(r);
    if (!error && strcmp(verb, "interval") == 0)
        error = al_read_time(r, w->key, w->key_column, &s->interval_ns);
    if (!error && strcmp(verb, "duration") == 0)
        error = al_read_time(r, w->key, w->key_column, &s->duration_ns);
    return error ? error : al_reader_done(r);
}

int al_parse_head_line(struct al_reader *r, const char *verb) {
    static const char *const single[] = {"start", "interval", "duration", "driver", "nvml", "cuda"};
    int error = allocate_gpus(r->s);
    if (error)
        return error;
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (strcmp(verb, single[i]) == 0)
            return (error = parse_single(r, verb)) ? error : 1;
    if (strcmp(verb, "host") == 0)
        error = parse_host(r);
    else if (strcmp(verb, "gpu") == 0)
        error = parse_gpu(r);
    else if (strcmp(verb, "mig") == 0)
        error = parse_mig(r);
    else if (strcmp(verb, "missing") == 0)
        error = parse_missing(r);
    else
        return 0;
    return error ? error : 1;
}

int al_parse_head_end(struct al_reader *r) {
    struct al_scenario *s = r->s;
    int error = allocate_gpus(s);
    for (uint32_t g = 0; !error && g < s->board_count; g++)
        if (!s->info[g].uuid[0])
            error = al_reader_fail(r, 1, "GPU %u is described nowhere, GPU %u is; GPUs count from 0 without gaps", g,
                                   s->board_count - 1);
    return error;
}
