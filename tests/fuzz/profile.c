// SPDX-License-Identifier: Apache-2.0
// Any names, files and stacks in every format: JSON stays JSON, and no name leaves its string in a page or a picture.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "export/flame.h"

#define NAME_MOST 64

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct input {
    const unsigned char *at;
    size_t left;
};

static unsigned take(struct input *in) {
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

// Up to a newline or the most that a name may have; a NUL ends it too.
static void take_text(struct input *in, char out[NAME_MOST + 1]) {
    size_t n = 0;
    for (unsigned c; n < NAME_MOST && in->left && (c = take(in)) != '\n';)
        out[n++] = (char)c;
    out[n] = '\0';
}

static void check(bool right) {
    if (!right)
        abort();
}

static uint32_t count_of(const struct al_buf *b, const char *what) {
    uint32_t count = 0;
    for (const char *at = b->data; (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void check_json(const struct al_buf *b) {
    struct al_json_document d;
    size_t at;
    check(al_json_parse(b->data, b->len, &d, &at) == 0);
    al_json_free(&d);
}

static void fill(struct al_profile *p, struct input *in) {
    char name[NAME_MOST + 1], file[NAME_MOST + 1];
    uint32_t frames[16], tracks[4], ticks[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        take_text(in, name);
        take_text(in, file);
        int32_t number = (int32_t)i;
        tracks[i] = al_profile_track(p, &(struct al_profile_who){number / 2, number, number - 1, file, name});
    }
    for (uint32_t i = 0; i < 16; i++) {
        take_text(in, name);
        take_text(in, file);
        frames[i] = al_profile_frame_of(p, i % 3, name, i % 2 ? file : "", i % 2 ? "" : file, (int32_t)take(in) - 1);
    }
    p->run_most = 1 + take(in);
    while (in->left) {
        uint32_t stack = AL_PROFILE_NONE, where = take(in), depth = 1 + take(in) % 12;
        for (uint32_t d = 0; d < depth; d++)
            stack = al_profile_stack(p, stack, frames[take(in) % 16]);
        ticks[where % 4] += take(in) % 4;
        check(al_profile_add(p, tracks[where % 4], stack, ticks[where % 4]++, where / 4 % AL_PROFILE_STATES) == 0);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct input in = {data, size};
    struct al_profile *p = al_profile_new();
    struct al_buf b = AL_BUF_INIT;
    char name[NAME_MOST + 1];
    take_text(&in, name);
    const struct al_profile_about about = {.name = name, .command = name, .exporter = "fuzz", .rate = 1 + take(&in), .seconds = 1};
    uint32_t most = 1 + take(&in);
    check(p != NULL);
    fill(p, &in);
    for (size_t i = 0; i < al_profile_format_count; i++) {
        const struct al_profile_format *f = &al_profile_formats[i];
        al_buf_clear(&b);
        check(f->write(&b, p, &about) == 0);
        if (f->write == al_speedscope || f->write == al_chrome)
            check_json(&b);
        if (f->write == al_flame_html || f->write == al_flame_svg)
            check(count_of(&b, "<script") == 2 && count_of(&b, "</script") == 2);
        if (f->write == al_flame_svg)
            check(count_of(&b, "]]>") == 2);
    }
    al_buf_clear(&b);
    check(al_flame_data(&b, p, &about, most, most) == 0);
    check_json(&b);
    check(!strpbrk(b.data, "<>&"));
    al_buf_free(&b);
    al_profile_free(p);
    return 0;
}
