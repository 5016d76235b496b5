// SPDX-License-Identifier: Apache-2.0
// Marks of one process as bytes of one row (docs/recording.md), both ways. Pure.
#ifndef AL_STORE_MARKS_H
#define AL_STORE_MARKS_H

#include <stddef.h>

#include "base/buf.h"
#include "model/event.h"

#define AL_MARKS_ROW 2048u        // marks of one row: some 60 steps, 5 KiB; it is written anew until it is full
#define AL_MARKS_ROW_TEXT 65536u  // bytes of its texts
#define AL_MARKS_ROW_NS 600000000000LL

struct al_marks {
    struct al_mark *list; // a TEXT: `a` its length, `b` where it begins in `text`; a NUL follows it there
    uint32_t count, cap;
    struct al_buf text;
};

void al_marks_done(struct al_marks *m);
int al_marks_add(struct al_marks *m, const struct al_mark *mark, const char *text, size_t len);
// Drops the first `count` with their texts.
void al_marks_drop(struct al_marks *m, uint32_t count);
// How many of the first marks make one row.
uint32_t al_marks_row(const struct al_marks *m);
// The first `count` marks, times from start_ns on and to 1 us.
int al_marks_encode(const struct al_marks *m, uint32_t count, int64_t start_ns, struct al_buf *b);
// Into an empty list. Trusts nothing: AL_E_FORMAT, AL_E_TOOBIG, AL_E_NOMEM.
int al_marks_decode(const uint8_t *bytes, size_t len, struct al_marks *ret);

#endif
