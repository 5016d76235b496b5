// SPDX-License-Identifier: Apache-2.0
// Which processes alula ps lists, and in which order.
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "export/ps.h"

#define DEPTH_MAX 31

struct node {
    const struct al_proc *p;
    int32_t parent, child, next; // index; -1 none
    bool placed;
};

struct forest {
    const struct al_snapshot *s;
    struct node *nodes; // sorted by pid
    uint32_t count;
    struct al_ps_row *rows;
    uint32_t row_count;
};

static bool only_draws(const struct al_snapshot *s, const struct al_proc *p) {
    bool draws = false;
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].pid == p->pid) {
            if (s->rows[i].type != AL_PROC_GRAPHICS)
                return false;
            draws = true;
        }
    return draws && p->role == AL_ROLE_UNKNOWN;
}

static bool is_user(const struct al_proc *p, const char *user) {
    uint64_t uid;
    return !user || strcmp(p->user, user) == 0 || (al_str_u64(user, &uid) && p->uid == (uid_t)uid && p->uid != (uid_t)-1);
}

static int32_t find(const struct forest *f, pid_t pid) {
    uint32_t low = 0, high = f->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (f->nodes[mid].p->pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < f->count && f->nodes[low].p->pid == pid ? (int32_t)low : -1;
}

// A worker hangs below its rank also where a fork server stands between them.
static void link_all(struct forest *f) {
    for (uint32_t i = f->count; i-- > 0;) {
        struct node *n = &f->nodes[i];
        n->parent = find(f, n->p->ppid);
        if (n->parent < 0 && n->p->role == AL_ROLE_WORKER)
            n->parent = find(f, n->p->owner);
        if (n->parent == (int32_t)i)
            n->parent = -1;
        if (n->parent < 0)
            continue;
        n->next = f->nodes[n->parent].child;
        f->nodes[n->parent].child = (int32_t)i;
    }
}

// Not that of a process which had the pid before.
static const struct al_rank *rank_of(const struct al_snapshot *s, const struct al_proc *p) {
    const struct al_rank *r = al_snapshot_rank(s, p->pid);
    return r && (!r->start_ticks || !p->start_ticks || r->start_ticks == p->start_ticks) ? r : NULL;
}

static void place(struct forest *f, int32_t at, int depth, uint32_t guides, bool last) {
    struct node *n = &f->nodes[at];
    n->placed = true;
    f->rows[f->row_count++] = (struct al_ps_row){n->p, rank_of(f->s, n->p), depth, last, guides};
    if (depth == DEPTH_MAX)
        return; // what is below becomes a root of its own
    uint32_t below = depth && !last ? guides | UINT32_C(1) << depth : guides;
    for (int32_t c = n->child; c >= 0; c = f->nodes[c].next)
        if (!f->nodes[c].placed)
            place(f, c, depth + 1, below, f->nodes[c].next < 0);
}

int al_ps_rows(const struct al_snapshot *s, const char *user, struct al_ps_row **ret_rows, uint32_t *ret_count) {
    struct forest f = {.s = s, .nodes = calloc(s->proc_count + 1, sizeof *f.nodes),
                       .rows = calloc(s->proc_count + 1, sizeof *f.rows)};
    if (!f.nodes || !f.rows) {
        free(f.nodes);
        free(f.rows);
        return AL_E_NOMEM;
    }
    for (uint32_t i = 0; i < s->proc_count; i++)
        if (is_user(&s->procs[i], user) && !only_draws(s, &s->procs[i]))
            f.nodes[f.count++] = (struct node){&s->procs[i], -1, -1, -1, false};
    link_all(&f);
    for (uint32_t i = 0; i < f.count; i++)
        if (f.nodes[i].parent < 0)
            place(&f, (int32_t)i, 0, 0, true);
    for (uint32_t i = 0; i < f.count; i++) // rings of parents, which only a broken recording can hold
        if (!f.nodes[i].placed)
            place(&f, (int32_t)i, 0, 0, true);
    free(f.nodes);
    *ret_rows = f.rows;
    *ret_count = f.row_count;
    return 0;
}
