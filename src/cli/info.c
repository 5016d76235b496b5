// SPDX-License-Identifier: Apache-2.0
// alula info: what a recording holds.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile_stored.h"
#include "export/jsonl.h"
#include "model/gpu.h"
#include "model/process.h"
#include "model/rank.h"
#include "store/store.h"

struct info {
    struct al_store *store;
    struct al_store_info i;
    struct al_buf b;
    bool json, first;
    uint32_t count;
};

static const char help[] =
    "Usage: alula info FILE [--json]\n"
    "Tells what a recording holds: span, gaps, resolution, GPUs, processes, ranks, findings, profiles, size.\n\n"
    "  --json    one JSON document\n"
    "  --help    this text\n\n"
    "Examples:\n"
    "  alula info run.alula\n"
    "  alula info run.alula --json | jq .findings\n"
    "\nExit status: 0; 2 bad option; 5 no such file; 6 not a recording, newer, or damaged.\n";

static const char *const level_words[] = {"every tick", "10 s", "1 min"};

static void put_duration(struct al_buf *b, int64_t ns) {
    char text[40];
    (void)al_fmt_duration(text, sizeof text, (double)ns / 1e9);
    al_buf_str(b, text);
}

static void put_bytes(struct al_buf *b, int64_t bytes) {
    char text[40];
    (void)al_fmt_bytes(text, sizeof text, (double)bytes);
    al_buf_str(b, text);
}

static int64_t realtime(const struct info *x, int64_t t) {
    return x->i.start_realtime_ns ? x->i.start_realtime_ns + t : 0;
}

static void put_when(struct info *x, int64_t t) {
    if (x->json) {
        al_jsonl_time(&x->b, realtime(x, t));
        return;
    }
    struct al_buf time = AL_BUF_INIT;
    al_jsonl_time(&time, realtime(x, t));
    if (time.len > 12) { // "2026-11-29T12:00:00.000Z" in quotes: the second is enough here
        al_buf_add(&x->b, time.data + 1, 10);
        al_buf_char(&x->b, ' ');
        al_buf_add(&x->b, time.data + 12, 8);
    }
    al_buf_free(&time);
}

static void item(struct info *x) {
    if (x->json)
        al_buf_str(&x->b, x->first ? "{" : ",{");
    else
        al_buf_str(&x->b, "  ");
    x->first = false;
    x->count++;
}

static int on_gpu(void *user, int64_t first_ns, const void *what) {
    struct info *x = user;
    const struct al_gpu_info *g = what;
    (void)first_ns;
    item(x);
    if (x->json) {
        al_buf_printf(&x->b, "\"index\":%u,\"uuid\":", g->index);
        al_json_string(&x->b, g->uuid);
        al_buf_str(&x->b, ",\"name\":");
        al_json_string(&x->b, g->name);
        al_buf_char(&x->b, '}');
        return 0;
    }
    al_buf_printf(&x->b, "%u  ", g->index);
    al_term_string(&x->b, g->name);
    al_buf_str(&x->b, "  ");
    al_term_string(&x->b, g->uuid);
    al_buf_char(&x->b, '\n');
    return 0;
}

static void known_int(struct al_buf *b, const char *key, int32_t v) {
    al_buf_printf(b, v < 0 ? ",\"%s\":null" : ",\"%s\":%d", key, (int)v);
}

static int on_rank(void *user, int64_t first_ns, const void *what) {
    struct info *x = user;
    const struct al_rank *r = what;
    item(x);
    if (x->json) {
        al_buf_printf(&x->b, "\"pid\":%d", (int)r->pid);
        known_int(&x->b, "rank", r->rank);
        known_int(&x->b, "local_rank", r->local_rank);
        known_int(&x->b, "world_size", r->world);
        al_buf_str(&x->b, ",\"first_seen\":");
        put_when(x, first_ns);
        al_buf_str(&x->b, ",\"source\":");
        al_json_string(&x->b, r->source);
        al_buf_char(&x->b, '}');
        return 0;
    }
    if (r->rank < 0)
        al_buf_str(&x->b, "rank ?");
    else
        al_buf_printf(&x->b, r->world > 0 ? "rank %d of %d" : "rank %d", (int)r->rank, (int)r->world);
    al_buf_printf(&x->b, "  pid %d  ", (int)r->pid);
    al_term_string(&x->b, r->source);
    al_buf_char(&x->b, '\n');
    return 0;
}

static int on_process(void *user, int64_t first_ns, const void *what) {
    struct info *x = user;
    const struct al_proc *p = what;
    const char *name = *p->command ? p->command : *p->exe ? p->exe : p->comm;
    item(x);
    if (x->json) {
        al_buf_printf(&x->b, "\"pid\":%d,\"first_seen\":", (int)p->pid);
        put_when(x, first_ns);
        al_buf_str(&x->b, ",\"user\":");
        al_json_string(&x->b, p->user);
        al_buf_printf(&x->b, ",\"role\":\"%s\",\"name\":", al_role_word(p->role));
        al_json_string(&x->b, name);
        al_buf_char(&x->b, '}');
        return 0;
    }
    al_buf_printf(&x->b, "%-8d ", (int)p->pid);
    put_when(x, first_ns);
    al_buf_printf(&x->b, "  %-9s ", al_role_word(p->role));
    al_term_string(&x->b, p->user);
    al_buf_str(&x->b, "  ");
    al_term_string(&x->b, name);
    al_buf_char(&x->b, '\n');
    return 0;
}

static int on_finding(void *user, int64_t at_ns, const struct al_finding *f) {
    struct info *x = user;
    if (f->phase == AL_PHASE_UPDATED)
        return 0;
    item(x);
    if (x->json) {
        al_buf_str(&x->b, "\"time\":");
        put_when(x, at_ns);
        al_buf_printf(&x->b, ",\"phase\":\"%s\",\"level\":\"%s\",\"key\":", al_phase_word(f->phase), al_level_word(f->level));
        al_json_string(&x->b, f->key);
        al_buf_str(&x->b, ",\"title\":");
        al_json_string(&x->b, f->title);
        al_buf_char(&x->b, '}');
        return 0;
    }
    put_when(x, at_ns);
    al_buf_printf(&x->b, "  %-5s  %s: ", al_phase_word(f->phase), al_level_word(f->level));
    al_term_string(&x->b, f->title);
    al_buf_str(&x->b, " (");
    al_term_string(&x->b, f->key);
    al_buf_str(&x->b, ")\n");
    return 0;
}

static int on_gap(void *user, int64_t from_ns, int64_t to_ns, const char *reason) {
    struct info *x = user;
    item(x);
    if (x->json) {
        al_buf_str(&x->b, "\"from\":");
        put_when(x, from_ns);
        al_buf_str(&x->b, ",\"seconds\":");
        al_buf_number(&x->b, (double)(to_ns - from_ns) / 1e9);
        al_buf_str(&x->b, ",\"reason\":");
        al_json_string(&x->b, reason);
        al_buf_char(&x->b, '}');
        return 0;
    }
    put_when(x, from_ns);
    al_buf_str(&x->b, "  ");
    put_duration(&x->b, to_ns - from_ns);
    al_buf_str(&x->b, "  ");
    al_term_string(&x->b, reason);
    al_buf_char(&x->b, '\n');
    return 0;
}

static void part(struct info *x, const char *title, const char *key) {
    if (x->json)
        al_buf_printf(&x->b, ",\n\"%s\":[", key);
    else
        al_buf_printf(&x->b, "%s:\n", title);
    x->first = true;
    x->count = 0;
}

static void end_part(struct info *x) {
    if (x->json)
        al_buf_char(&x->b, ']');
    else if (!x->count)
        al_buf_str(&x->b, "  none\n");
}

struct count_profiles {
    struct info *x;
    bool begun;
};

static int on_profile(void *user, const struct al_store_profile *p) {
    struct count_profiles *c = user;
    struct info *x = c->x;
    if (!c->begun)
        part(x, "Profiles", "profiles");
    c->begun = true;
    item(x);
    if (!x->json) {
        al_profile_line(&x->b, x->store, p);
        return 0;
    }
    al_buf_printf(&x->b, "\"id\":%lld,\"start\":", (long long)p->id);
    al_jsonl_time(&x->b, p->start_realtime_ns);
    al_buf_printf(&x->b, ",\"pid\":%d,\"processes\":%u,\"stacks\":%llu,\"seconds\":", (int)p->pid, (unsigned)p->processes,
                  (unsigned long long)p->samples);
    al_buf_number(&x->b, p->seconds);
    al_buf_str(&x->b, ",\"rate_hertz\":");
    al_buf_number(&x->b, p->rate);
    al_buf_str(&x->b, ",\"command\":");
    al_json_string(&x->b, p->command);
    al_buf_char(&x->b, '}');
    return 0;
}

static void head_text(struct info *x, const char *path) {
    const struct al_store_info *i = &x->i;
    struct al_buf *b = &x->b;
    al_term_string(b, path);
    al_buf_printf(b, ": recorded by alula %s, schema %d, on ", *i->version ? i->version : "?", i->schema);
    al_term_string(b, *i->hostname ? i->hostname : "?");
    al_buf_str(b, *i->driver ? ", driver " : ", no driver");
    al_term_string(b, i->driver);
    al_buf_str(b, "\n  ");
    put_when(x, 0);
    al_buf_str(b, " UTC, ");
    put_duration(b, i->duration_ns);
    al_buf_printf(b, ", a reading each %.0f ms, %s\n", (double)i->interval_ns / 1e6,
                  i->closed ? "closed in order" : "not closed: still written, or cut off");
    al_buf_printf(b, "  %lld ticks, %lld GPU samples, %lld processes, %lld findings, %lld gaps\n", (long long)i->ticks,
                  (long long)i->gpu_samples, (long long)i->processes, (long long)i->findings, (long long)i->gaps);
    if (i->ranks)
        al_buf_printf(b, "  %lld ranks, %lld marks in %lld bytes\n", (long long)i->ranks, (long long)i->marks,
                      (long long)i->mark_bytes);
    al_buf_str(b, "  size ");
    put_bytes(b, i->file_bytes);
    al_buf_str(b, ", of which chunks ");
    put_bytes(b, i->chunk_bytes);
    al_buf_printf(b, "; %lld ticks in plain tables\n", (long long)i->plain_ticks);
    for (int level = 0; level < 3; level++) {
        if (!i->level_ns[level])
            continue;
        al_buf_printf(b, "  %-10s ", level_words[level]);
        put_duration(b, i->level_ns[level]);
        if (i->level_rows[level])
            al_buf_printf(b, ", %lld GPU samples in chunks, %.1f bytes each", (long long)i->level_rows[level],
                          (double)i->level_bytes[level] / (double)i->level_rows[level]);
        al_buf_char(b, '\n');
    }
}

static void text_key(struct al_buf *b, const char *key, const char *value) {
    al_buf_printf(b, ",\"%s\":", key);
    al_json_string(b, value);
}

static void head_json(struct info *x, const char *path) {
    const struct al_store_info *i = &x->i;
    struct al_buf *b = &x->b;
    al_buf_str(b, "{\"file\":");
    al_json_string(b, path);
    text_key(b, "alula_version", i->version);
    text_key(b, "host", i->hostname);
    text_key(b, "driver_version", i->driver);
    text_key(b, "boot_id", i->boot_id);
    al_buf_printf(b, ",\"schema\":%d,\"closed\":%s,\"start\":", i->schema, i->closed ? "true" : "false");
    put_when(x, 0);
    al_buf_str(b, ",\"duration_seconds\":");
    al_buf_number(b, (double)i->duration_ns / 1e9);
    al_buf_str(b, ",\"interval_seconds\":");
    al_buf_number(b, (double)i->interval_ns / 1e9);
    al_buf_printf(b, ",\"ticks\":%lld,\"gpu_samples\":%lld,\"plain_ticks\":%lld,\"file_bytes\":%lld,\"chunk_bytes\":%lld",
                  (long long)i->ticks, (long long)i->gpu_samples, (long long)i->plain_ticks, (long long)i->file_bytes,
                  (long long)i->chunk_bytes);
    al_buf_printf(b, ",\"marks\":%lld,\"mark_bytes\":%lld", (long long)i->marks, (long long)i->mark_bytes);
    al_buf_str(b, ",\n\"resolutions\":[");
    for (int level = 0; level < 3; level++) {
        static const double widths[] = {0, 10, 60};
        al_buf_printf(b, "%s{\"step_seconds\":", level ? "," : "");
        al_buf_number(b, level ? widths[level] : (double)i->interval_ns / 1e9);
        al_buf_str(b, ",\"seconds\":");
        al_buf_number(b, (double)i->level_ns[level] / 1e9);
        al_buf_printf(b, ",\"chunk_gpu_samples\":%lld,\"chunk_bytes\":%lld}", (long long)i->level_rows[level],
                      (long long)i->level_bytes[level]);
    }
    al_buf_char(b, ']');
}

static int print(struct info *x, const char *path) {
    if (x->json)
        head_json(x, path);
    else
        head_text(x, path);
    part(x, "GPUs", "gpus");
    int result = al_store_gpus(x->store, on_gpu, x);
    end_part(x);
    part(x, "Processes", "processes");
    if (!result)
        result = al_store_processes(x->store, on_process, x);
    end_part(x);
    if (x->json || x->i.ranks) {
        part(x, "Ranks", "ranks");
        if (!result)
            result = al_store_ranks(x->store, on_rank, x);
        end_part(x);
    }
    part(x, "Findings", "findings");
    if (!result)
        result = al_store_findings(x->store, -1, INT64_MAX, on_finding, x);
    end_part(x);
    struct count_profiles profiles = {.x = x};
    if (!result)
        result = al_store_profiles(x->store, on_profile, &profiles);
    if (profiles.begun)
        end_part(x);
    part(x, "Gaps", "gaps");
    if (!result)
        result = al_store_gaps(x->store, on_gap, x);
    end_part(x);
    if (x->json)
        al_buf_str(&x->b, "}\n");
    return result ? result : x->b.failed ? AL_E_NOMEM : 0;
}

static int run(struct info *x, const char *path) {
    struct al_store_error e = {{0}};
    int result = al_store_open(path, &x->store, &e);
    if (result) {
        al_cli_error("%s", *e.text ? e.text : al_error_text(result));
        return al_error_exit_status(result);
    }
    al_store_info(x->store, &x->i);
    result = print(x, path);
    if (x->b.data)
        (void)fwrite(x->b.data, 1, x->b.len, stdout);
    int status = al_cli_flush();
    if (!result && al_store_damage(x->store, &e))
        result = AL_E_FORMAT;
    if (result && !status) {
        al_cli_error("%s: damaged in places: %s", path, *e.text ? e.text : al_error_text(result));
        status = al_error_exit_status(AL_E_FORMAT);
    }
    return status;
}

int al_cmd_info(int argc, char **argv) {
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct info x = {0};
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return al_cli_flush();
        }
        if (option != 'j')
            return al_error_exit_status(AL_E_INVALID);
        x.json = true;
    }
    if (argc - optind != 1) {
        al_cli_error("info: name one recording, as in alula info run.alula");
        return al_error_exit_status(AL_E_INVALID);
    }
    int status = run(&x, argv[optind]);
    al_store_free(x.store);
    al_buf_free(&x.b);
    return status;
}
