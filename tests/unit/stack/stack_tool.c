// SPDX-License-Identifier: Apache-2.0
// stack-tool PID [SAMPLES [INTERVAL_US [WHAT [DEPTH]]]]: for the tests. Each sample is a line of JSON, the last line
// says what the sampler is and counted, and what a sample cost.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "stack/stack.h"

static const char *const STATUS[] = {"ok", "unstable", "unreadable", "left out", "empty"};
static const char *const TRISTATE[] = {"null", "false", "true"};

static void put_frame(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f) {
    const struct al_stack_code *c = al_stack_code(s, f->code);
    al_buf_str(b, "{\"file\":");
    al_json_string(b, c ? c->filename : "");
    al_buf_str(b, ",\"name\":");
    al_json_string(b, c ? c->name : "");
    al_buf_str(b, ",\"qualname\":");
    al_json_string(b, c ? c->qualname : "");
    al_buf_printf(
        b, ",\"first\":%d,\"line\":%d,\"end_line\":%d,\"column\":%d,\"end_column\":%d,\"entry\":%s,\"degraded\":%s}",
        c ? (int)c->first_line : 0, (int)f->line, (int)f->end_line, (int)f->column, (int)f->end_column,
        TRISTATE[f->entry + 1], TRISTATE[f->degraded + 1]);
}

static void put_thread(struct al_buf *b, const struct al_stack *s, const struct al_stack_thread *t) {
    al_buf_printf(b, "{\"id\":%llu,\"tid\":%d,\"interp\":%lld,\"status\":\"%s\",\"name\":", (unsigned long long)t->id,
                  (int)t->tid, (long long)t->interp, STATUS[t->status]);
    al_json_string(b, t->name);
    al_buf_printf(b, ",\"main\":%s,\"holds\":%s,\"waits\":%s,\"idle\":%s,\"truncated\":%s,\"cpu_ns\":%llu,\"frames\":[",
                  TRISTATE[t->main + 1], TRISTATE[t->holds_gil], TRISTATE[t->waits_gil], TRISTATE[t->idle],
                  TRISTATE[t->truncated + 1], (unsigned long long)t->cpu_ns);
    for (uint32_t i = 0; i < t->count; i++) {
        if (i)
            al_buf_char(b, ',');
        put_frame(b, s, &t->frames[i]);
    }
    al_buf_str(b, "]}");
}

static void put_sample(const struct al_stack *s, const struct al_stack_sample *sample) {
    struct al_buf b = AL_BUF_INIT;
    al_buf_str(&b, "{\"threads\":[");
    for (size_t i = 0; i < sample->count; i++) {
        if (i)
            al_buf_char(&b, ',');
        put_thread(&b, s, &sample->threads[i]);
    }
    al_buf_str(&b, "]}");
    puts(b.data ? b.data : "");
    al_buf_free(&b);
}

static void put_end(const struct al_stack *s, double us) {
    struct al_stack_info i;
    struct al_stack_counts c;
    al_stack_get_info(s, &i);
    al_stack_get_counts(s, &c);
    printf("{\"version\":\"%x\",\"free_threaded\":%s,\"table\":%s,\"object\":\"%s\",\"found\":\"%s\",\"samples\":%llu,"
           "\"threads\":%llu,\"ok\":%llu,\"unstable\":%llu,\"unreadable\":%llu,\"unchanged\":%llu,\"degraded\":%llu,"
           "\"truncated\":%llu,\"codes\":%llu,\"names_failed\":%llu,\"reads\":%llu,\"us\":%.3f}\n",
           i.version, TRISTATE[i.free_threaded + 1], TRISTATE[i.table + 1], i.object, i.found,
           (unsigned long long)c.samples, (unsigned long long)c.threads, (unsigned long long)c.ok,
           (unsigned long long)c.unstable, (unsigned long long)c.unreadable, (unsigned long long)c.unchanged,
           (unsigned long long)c.degraded_frames, (unsigned long long)c.truncated, (unsigned long long)c.codes,
           (unsigned long long)c.names_failed, (unsigned long long)c.reads, us);
}

int main(int argc, char **argv) {
    struct al_stack *s;
    struct al_stack_error e;
    const struct al_stack_sample *sample;
    long samples = argc > 2 ? atol(argv[2]) : 1, interval = argc > 3 ? atol(argv[3]) : 10000;
    unsigned what = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : AL_STACK_STATE | AL_STACK_NAMES;
    struct al_stack_settings settings = {.depth = argc > 5 ? (unsigned)atoi(argv[5]) : 0};
    if (argc < 2)
        return 2;
    bool quiet = getenv("STACK_TOOL_QUIET") != NULL;
    int code = al_stack_open(atoi(argv[1]), &settings, &s, &e);
    if (code) {
        fprintf(stderr, "%d %s\n", code, e.text);
        return 1;
    }
    int64_t spent = 0, began = al_thread_cpu_ns();
    for (long i = 0; i < samples; i++) {
        int64_t start = interval ? al_thread_cpu_ns() : 0; // back to back, asking the clock would be a tenth of it
        code = al_stack_sample(s, what, &sample);
        if (interval)
            spent += al_thread_cpu_ns() - start;
        if (code)
            break;
        if (!quiet)
            put_sample(s, sample);
        if (interval)
            usleep((useconds_t)interval);
    }
    if (!interval)
        spent = al_thread_cpu_ns() - began;
    if (code)
        fprintf(stderr, "%d %s\n", code, al_error_text(code));
    put_end(s, samples ? (double)spent / 1000.0 / (double)samples : 0);
    al_stack_free(s);
    return code ? 1 : 0;
}
