// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON: every node is reached once, and no string is longer than the text.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(bool right) {
    if (!right)
        abort();
}

static uint32_t walk(const struct al_json_document *d, const struct al_json *n, size_t size) {
    uint32_t count = 1;
    check(strlen(al_json_text(n)) <= size && (!n->key || strlen(n->key) <= size) && isfinite(n->number));
    for (const struct al_json *c = al_json_first(d, n); c; c = al_json_next(d, c)) {
        if (n->kind == AL_JSON_OBJECT)
            check(al_json_get(d, n, c->key) != NULL);
        count += walk(d, c, size);
        if (count > 2000)
            break;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_json_document d;
    size_t at = 0;
    if (al_json_parse((const char *)data, size, &d, &at) == 0) {
        uint32_t count = walk(&d, al_json_root(&d), size);
        check(count == d.count - 1 || count > 2000);
        al_json_free(&d);
    }
    check(at <= size);
    return 0;
}
