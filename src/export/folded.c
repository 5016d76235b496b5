// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/profile_parts.h"

// ';' parts frames and a line ends a stack: neither may come from a name.
static void put_text(struct al_buf *b, const char *text) {
    size_t from = b->len;
    al_term_string(b, text);
    for (size_t i = from; i < b->len; i++)
        if (b->data[i] == ';')
            b->data[i] = ':';
}

static void put_frame(struct al_buf *b, const struct al_profile_frame *f) {
    put_text(b, *f->name ? f->name : "?");
    if (!*f->file)
        return;
    al_buf_str(b, " (");
    put_text(b, f->file);
    if (f->line > 0)
        al_buf_printf(b, ":%d", (int)f->line);
    al_buf_char(b, ')');
}

int al_folded(struct al_buf *b, const struct al_profile *p) {
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        deepest = p->nodes[i].depth > deepest ? p->nodes[i].depth : deepest;
    uint32_t *path = malloc((deepest + 1) * sizeof *path);
    if (!path)
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < p->node_count; i++) {
        if (!p->nodes[i].count)
            continue;
        uint32_t depth = p->nodes[i].depth;
        for (uint32_t at = i, d = depth; d > 0; at = p->nodes[at].parent)
            path[--d] = p->nodes[at].frame;
        for (uint32_t d = 0; d < depth; d++) {
            if (d)
                al_buf_char(b, ';');
            put_frame(b, &p->frames[path[d]]);
        }
        al_buf_printf(b, " %llu\n", (unsigned long long)p->nodes[i].count);
    }
    free(path);
    return b->failed ? AL_E_NOMEM : 0;
}
