// SPDX-License-Identifier: Apache-2.0
// The parts of a flame graph's file. Names of functions and files are the target's: each goes through al_flame_text.
#ifndef AL_EXPORT_FLAME_H
#define AL_EXPORT_FLAME_H

#include "export/profile_parts.h"

#define AL_FLAME_TEXT 1024

// Embedded by tools/embed; the digests are for the page's content security policy.
extern const char al_flame_js[], al_flame_js_sha256[], al_flame_css[], al_flame_css_sha256[];

// One line of valid UTF-8, cut at `size`: no control characters, none that change the direction of text, none that XML forbids.
void al_flame_text(char *out, size_t size, const char *text);
// The same with <, >, &, " and ' as XML's and HTML's entities.
void al_flame_escaped(struct al_buf *b, const char *text);

// Samples in a node and what it called, of every node; to be freed. NULL: no memory.
uint64_t *al_flame_totals(const struct al_profile *p);

// All that the page's script draws from, as JSON without <, > and &: safe within a script element of HTML and of XML.
// Nodes beyond `nodes_most` and runs beyond `runs_most` are put together; the page says so. AL_E_NOMEM.
#define AL_FLAME_NODES 800000u
#define AL_FLAME_RUNS 300000u
int al_flame_data(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about, uint32_t nodes_most,
                  uint32_t runs_most);

// The picture that needs no script: an svg element with the widest boxes, which the caller closes. AL_E_NOMEM.
int al_flame_picture(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about);

#endif
