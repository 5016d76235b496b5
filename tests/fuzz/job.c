// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a recording keeps of a job: the book can be reported, and what is written of it is read again.
#include <stdlib.h>
#include <string.h>

#include "job/fill.h"
#include "job/keep.h"
#include "job/say.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool right) {
    if (!right)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_settings set;
    struct al_book book, again;
    struct al_book_kept kept, kept_again;
    struct al_buf b = AL_BUF_INIT, other = AL_BUF_INIT, words = AL_BUF_INIT;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    al_settings_default(&set);
    check(al_book_init(&book, &set) == 0 && al_book_init(&again, &set) == 0);
    if (al_book_read(text, &book, &kept) == 0) {
        const struct al_book_report r = {.version = "", .finished = kept.finished};
        check(al_book_report_json(&book, &r, &words) == 0);
        al_book_say_summary(&book, true, &words);
        al_book_keep(&b, &book, &kept);
        check(al_book_read(b.data, &again, &kept_again) == 0);
        al_book_keep(&other, &again, &kept_again);
        check(again.rank_count == book.rank_count);
        check(!b.failed && !other.failed && strcmp(b.data, other.data) == 0);
    }
    al_buf_free(&b);
    al_buf_free(&other);
    al_buf_free(&words);
    al_book_free(&book);
    al_book_free(&again);
    free(text);
    return 0;
}
