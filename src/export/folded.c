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
    const char *slash = strrchr(f->object, '/'), *file = *f->file ? f->file : slash ? slash + 1 : f->object;
    put_text(b, *f->name ? f->name : "?");
    if (!*file)
        return;
    al_buf_str(b, " (");
    put_text(b, file);
    if (f->line > 0)
        al_buf_printf(b, ":%d", (int)f->line);
    al_buf_char(b, ')');
}

int al_folded(struct al_buf *b, const struct al_profile *p, const struct al_profile_about *about) {
    uint32_t *path, depth;
    (void)about;
    if (al_profile_path(p, &path, &depth))
        return AL_E_NOMEM;
    for (uint32_t i = 0; i < p->node_count; i++) {
        if (!p->nodes[i].count)
            continue;
        depth = al_profile_walk(p, i, path);
        for (uint32_t d = 0; d < depth; d++) {
            if (d)
                al_buf_char(b, ';');
            put_frame(b, &p->frames[p->nodes[path[d]].frame]);
        }
        al_buf_printf(b, " %llu\n", (unsigned long long)p->nodes[i].count);
    }
    free(path);
    return b->failed ? AL_E_NOMEM : 0;
}
