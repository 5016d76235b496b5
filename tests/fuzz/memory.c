// SPDX-License-Identifier: Apache-2.0
// Texts of another process on its memory: an out-of-memory message, allocator settings, a memory summary.
#include <stdlib.h>
#include <string.h>

#include "detect/allocator.h"
#include "detect/oom.h"
#include "export/summary.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static struct al_tally t;
    struct al_allocator a;
    struct al_summary s;
    struct al_oom o;
    char message[320], advice[320];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    al_tally_init(&t);
    al_tally_text(&t, AL_TEXT_FRAMEWORK, text, strlen(text));
    al_tally_text(&t, AL_TEXT_ALLOCATOR, text, strlen(text));
    al_allocator_of(&t, &a);
    al_allocator_advise(&a, advice, sizeof advice);
    if (al_oom_parse(text, &o))
        al_oom_say(&o, &a, message, sizeof message, advice, sizeof advice);
    if (al_summary_parse(text, &s) > AL_SUMMARY_COUNT)
        abort();
    struct al_buf b = AL_BUF_INIT;
    al_summary_json(&b, &s);
    al_buf_free(&b);
    free(text);
    return 0;
}
