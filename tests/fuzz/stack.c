// SPDX-License-Identifier: Apache-2.0
// A corrupted process: layouts, frames, strings, dicts, line tables and mappings are the input's bytes. Every look ends
// soon and stays within its buffers.
#include <stdlib.h>
#include <string.h>

#include "stack/async.h"
#include "stack/code.h"
#include "stack/core/dict.h"
#include "stack/core/lines.h"
#include "stack/core/local.h"
#include "stack/core/text.h"
#include "stack/core/walk.h"
#include "stack/locals.h"
#include "stack/maps.h"
#include "stack/object.h"
#include "stack/parts.h"
#include "stack/value.h"

#define BASE 0x10000u
#define READS_MOST 60000
#define READS_OF_TASKS (200 * READS_MOST) // 400,000 objects, and five times over
#define DEPTH 128u
#define SPANS 32u
#define BUFFER 262144u

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct image {
    const unsigned char *data;
    size_t size, reads, most;
};

static size_t gather(void *user, const struct al_piece *pieces, size_t count, void *buffer) {
    struct image *i = user;
    for (size_t k = 0; k < count; k++) {
        const struct al_piece *p = &pieces[k];
        if (++i->reads > i->most)
            abort();
        if (p->address < BASE || p->address - BASE > i->size || p->size > i->size - (p->address - BASE))
            return k;
        memcpy((char *)buffer + p->at, i->data + (p->address - BASE), p->size);
    }
    return count;
}

static void walk(const struct al_memory *m, const struct al_layout *l) {
    static unsigned char buffer[BUFFER];
    static struct al_raw_frame frames[DEPTH], second[DEPTH];
    static struct al_span spans[SPANS];
    struct al_plan plan = {.spans = spans, .cap = SPANS};
    struct al_walk w = {.layout = l,
                        .memory = m,
                        .buffer = buffer,
                        .buffer_size = sizeof buffer,
                        .frames = frames,
                        .second = second,
                        .depth = DEPTH};
    for (int i = 0; i < 2; i++) {
        (void)al_walk_thread(&w, &plan, BASE);
        if (w.count > DEPTH || plan.count + plan.missed > SPANS)
            abort();
    }
}

// What the process's own walk would make of it, guarded.
static void walk_local(const struct al_memory *m, const struct al_layout *l) {
    static struct al_local_frame frames[DEPTH];
    static unsigned char table[4096];
    struct al_local local = {.layout = *l, .guarded = *m};
    struct al_local_stack s = {.frames = frames, .cap = DEPTH};
    struct al_local_place place;
    if (al_local_walk(&local, AL_LOCAL_GUARDED, BASE, &s) > DEPTH)
        abort();
    for (uint32_t i = 0; i < s.count && i < 8; i++)
        (void)al_local_place(&local, &frames[i], table, sizeof table, &place);
    (void)al_local_place(&local, &(struct al_local_frame){.code = BASE, .instr = BASE + 300}, table, sizeof table, &place);
    if (!memchr(place.file, '\0', sizeof place.file) || !memchr(place.function, '\0', sizeof place.function))
        abort();
}

static bool count_to_16(void *user, uint64_t key, uint64_t value) {
    (void)key;
    (void)value;
    return ++*(int *)user == 16;
}

static bool no_name(const char *name) {
    return *name == 'x';
}

static void cut(char *text, size_t size) {
    if (size > 3)
        text[3] = '\0';
}

// What a variable holds: each place of the first kilobyte taken for an object.
static void read_values(const struct al_memory *m, const struct al_layout *l, uint64_t end) {
    static struct al_values v;
    char text[AL_VALUE_TEXT];
    v = (struct al_values){.memory = m, .layout = l, .secret = no_name, .mask = cut};
    for (uint64_t at = BASE; at < end && at < BASE + 1024; at += 128)
        if (al_value_text(&v, at, text) && !memchr(text, '\0', sizeof text))
            abort();
}

// asyncio's tasks by a table out of the input, and the variables of a frame: the first code object that is read is number 0.
static void read_process(const struct al_memory *m, const struct al_layout *l, const struct image *i) {
    static struct al_tstate thread;
    static struct al_interp interp;
    struct al_stack s = {.memory = *m, .found = {.layout = *l}, .tstates = &thread, .tstates_count = 1,
                         .interps = &interp, .interps_count = 1};
    struct al_stack_frame frame = {.address = BASE + 1536};
    struct al_stack_thread t = {.count = 1, .frames = &frame};
    const struct al_stack_locals_options options = {no_name, cut};
    struct al_stack_locals *locals;
    struct al_async tasks = {0};
    uint64_t words[AL_ASYNC_WORDS];
    if (i->size < sizeof words || al_codes_init(&s.codes, &s.found.layout, &s.memory, 0))
        return;
    thread.address = interp.address = BASE + 1024;
    memcpy(words, i->data + i->size - sizeof words, sizeof words); // its begin may be the interpreter's own table
    if (!al_async_by_table(&s, l->version < 0x030e ? NULL : words, &tasks))
        al_async_free(&tasks);
    tasks = (struct al_async){0};
    if (!al_async_by_table(&s, words, &tasks))
        al_async_free(&tasks);
    if (!al_stack_locals(&s, &t, &options, &locals))
        al_stack_locals_free(locals, t.count);
    al_codes_free(&s.codes);
}

static void read_objects(const struct al_memory *m, const struct al_layout *l, uint64_t at) {
    char text[300];
    uint64_t number, length;
    int entries = 0;
    if (al_text_read(m, l, at, text, sizeof text) && memchr(text, '\0', sizeof text) == NULL)
        abort();
    (void)al_cstring_read(m, at, text, sizeof text);
    (void)al_bytes_head(m, l, at, 4096, &number, &length);
    (void)al_int_read(m, l, at, &number);
    (void)al_dict_walk(m, l, at, count_to_16, &entries);
    (void)al_dict_get(m, l, at, "_active");
    (void)al_attribute(m, l, at, "_name");
}

// Code objects at each 64 bytes, and the same addresses once more as if they had become others.
static void read_codes(const struct al_memory *m, const struct al_layout *l, uint64_t end) {
    struct al_codes c;
    struct al_position p;
    struct al_raw_frame f = {0};
    if (al_codes_init(&c, l, m, 0) == 0) {
        for (int64_t now = 1; now < 3; now++) {
            for (uint64_t at = BASE; at < end && at < BASE + 1024; at += 64) {
                struct al_code *code = al_codes_get(&c, at, now * 10000000000);
                if (code && code->lines)
                    (void)al_codes_position(&c, code, at + 200, (uint32_t)(at / 64 % 3), &p);
                f.code = at;
                al_codes_check(&c, &f, 1, now * 10000000000 + 5000000000, now > 1);
            }
        }
    }
    al_codes_free(&c);
}

static void read_maps(const unsigned char *data, size_t size) {
    char *text = calloc(1, size + 1);
    struct al_areas a;
    if (text && (size == 0 || memcpy(text, data, size)) && al_areas_parse(&a, text) == 0) {
        for (size_t i = 0; i < a.count; i++)
            if (a.list[i].start >= a.list[i].end || strlen(al_area_path(&a, &a.list[i])) > size)
                abort();
        al_areas_free(&a);
    }
    free(text);
}

// The first byte picks what the rest is.
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    if (size < 2)
        return 0;
    struct image i = {data + 2, size - 2, 0, (data[0] & 15) == 7 ? READS_OF_TASKS : READS_MOST};
    struct al_memory m = {gather, &i};
    struct al_layout l;
    struct al_object o;
    struct al_position p;
    uint32_t version;
    unsigned kind = data[0] & 15, which = data[1] % 12;
    if (kind == 0) {
        read_maps(i.data, i.size);
    } else if (kind == 1) {
        for (int64_t offset = -2; offset < 512; offset += 2)
            (void)al_lines_find((enum al_lines_format)(which % 3), i.data, i.size, 1, offset, &p);
    } else if (kind == 2) {
        if (al_object_open(&o, &m, BASE)) {
            (void)al_object_symbol(&o, "_PyRuntime");
            (void)al_object_symbol(&o, "Py_Version");
        }
    } else if (which < al_layout_tables_count ? (l = al_layout_tables[which], true)
                                              : al_layout_debug(i.data, i.size, 62, &l, &version) == AL_LAYOUT_FINE) {
        if (kind == 5)
            read_codes(&m, &l, BASE + i.size);
        else if (kind == 7)
            read_process(&m, &l, &i);
        else if (kind == 8)
            read_values(&m, &l, BASE + i.size);
        else if (kind == 3)
            read_objects(&m, &l, BASE + (which * 8u));
        else if (kind == 6)
            walk_local(&m, &l);
        else
            walk(&m, &l);
    }
    return 0;
}
