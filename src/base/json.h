// SPDX-License-Identifier: Apache-2.0
// Reading a JSON document (RFC 8259) of a foreign file into one block of nodes. Nothing of it is trusted: depth, nodes and
// bytes are bounded, strings must be UTF-8, numbers finite.
#ifndef AL_BASE_JSON_H
#define AL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_JSON_DEPTH 64
#define AL_JSON_NODES (1u << 20)

enum al_json_kind { AL_JSON_NULL, AL_JSON_FALSE, AL_JSON_TRUE, AL_JSON_NUMBER, AL_JSON_STRING, AL_JSON_ARRAY, AL_JSON_OBJECT };

struct al_json {
    enum al_json_kind kind;
    uint32_t next;  // the sibling behind it, 0 none: positions in the document
    uint32_t first; // child; 0 none
    const char *key;  // of an object's member, else NULL
    const char *text; // of a string
    double number;
};

struct al_json_document {
    struct al_json *nodes; // [1] is the root
    uint32_t count, cap;
    char *text; // keys and strings
};

// AL_E_FORMAT with the byte where it ceases to be JSON, AL_E_TOOBIG, AL_E_NOMEM.
int al_json_parse(const char *bytes, size_t len, struct al_json_document *ret, size_t *ret_at);
void al_json_free(struct al_json_document *d);

// All take and give NULL for what is not there.
const struct al_json *al_json_root(const struct al_json_document *d);
const struct al_json *al_json_first(const struct al_json_document *d, const struct al_json *n);
const struct al_json *al_json_next(const struct al_json_document *d, const struct al_json *n);
// Member of an object; the first of several.
const struct al_json *al_json_get(const struct al_json_document *d, const struct al_json *n, const char *key);
bool al_json_number(const struct al_json *n, double *ret);
const char *al_json_text(const struct al_json *n); // "" when it is no string

#endif
