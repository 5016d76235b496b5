// SPDX-License-Identifier: Apache-2.0
#include "job/tree.h"

#include <string.h>

#include "base/clock.h"
#include "job/book.h"

#define EVERY_NS (2 * AL_NS_PER_S)

static bool trains(const struct al_book *book, pid_t pid) {
    for (uint32_t i = 0; i < book->rank_count; i++)
        if (book->ranks[i]->pid == pid && !book->ranks[i]->ended)
            return al_tally_trains(&book->ranks[i]->tally);
    return false;
}

// multiprocessing's helpers by the code that they were started with; everything else as the tree's roles have it.
static enum al_book_kind kind_of(const struct al_book *book, const struct al_proc *p) {
    static const uint8_t kinds[] = {
        [AL_ROLE_UNKNOWN] = AL_BOOK_KIND_OTHER, [AL_ROLE_LAUNCHER] = AL_BOOK_KIND_LAUNCHER,
        [AL_ROLE_RANK] = AL_BOOK_KIND_RANK,     [AL_ROLE_WORKER] = AL_BOOK_KIND_WORKER,
        [AL_ROLE_ENGINE] = AL_BOOK_KIND_ENGINE, [AL_ROLE_NOTEBOOK] = AL_BOOK_KIND_NOTEBOOK,
        [AL_ROLE_OTHER] = AL_BOOK_KIND_OTHER};
    if (trains(book, p->pid))
        return AL_BOOK_KIND_RANK;
    if (p->role == AL_ROLE_OTHER || p->role == AL_ROLE_UNKNOWN || p->role == AL_ROLE_WORKER) {
        if (strstr(p->command, "multiprocessing.resource_tracker"))
            return AL_BOOK_KIND_RESOURCE_TRACKER;
        // A worker that it forked has its arguments, too.
        if (p->role != AL_ROLE_WORKER && strstr(p->command, "multiprocessing.forkserver"))
            return AL_BOOK_KIND_FORK_SERVER;
    }
    return p->role < sizeof kinds ? (enum al_book_kind)kinds[p->role] : AL_BOOK_KIND_OTHER;
}

void al_book_tree(struct al_book *book, const struct al_snapshot *s) {
    struct al_book_tree *t = &book->tree;
    uint32_t now[AL_BOOK_KIND_COUNT] = {0}, all = 0;
    if (!s->proc_count || book->job.pid <= 0 || (t->looked_ns && s->monotonic_ns - t->looked_ns < EVERY_NS))
        return;
    t->looked_ns = s->monotonic_ns;
    for (uint32_t i = 0; i < s->proc_count; i++) {
        const struct al_proc *p = &s->procs[i];
        if (!p->alive || p->state == 'Z' || !al_book_below(s, p->pid, book->job.pid))
            continue;
        now[kind_of(book, p)]++;
        all++;
    }
    // What is a rank later is nobody yet while it imports and loads.
    if (now[AL_BOOK_KIND_RANK] && !t->training)
        *t = (struct al_book_tree){.looked_ns = t->looked_ns, .training = true};
    for (int i = 0; i < AL_BOOK_KIND_COUNT; i++)
        t->most[i] = now[i] > t->most[i] ? now[i] : t->most[i];
    t->processes = all > t->processes ? all : t->processes;
}

void al_book_say_tree(const struct al_book *book, struct al_buf *b) {
    static const char *const one[] = {
#define X(id, key, one, several) one,
        AL_BOOK_KINDS(X)
#undef X
    };
    static const char *const several[] = {
#define X(id, key, one, several) several,
        AL_BOOK_KINDS(X)
#undef X
    };
    const char *between = "alula: processes, most at once: ";
    if (book->tree.processes < 2)
        return;
    for (int i = 0; i < AL_BOOK_KIND_COUNT; i++) {
        uint32_t count = book->tree.most[i];
        if (!count)
            continue;
        al_buf_printf(b, "%s%u %s", between, count, count == 1 ? one[i] : several[i]);
        between = ", ";
    }
    al_buf_char(b, '\n');
}

void al_book_put_tree(struct al_buf *b, const struct al_book *book) {
    static const char *const keys[] = {
#define X(id, key, one, several) key,
        AL_BOOK_KINDS(X)
#undef X
    };
    if (!book->tree.processes) {
        al_buf_str(b, "null");
        return;
    }
    for (int i = 0; i < AL_BOOK_KIND_COUNT; i++)
        al_buf_printf(b, "%s\"%s\":%u", i ? "," : "{", keys[i], book->tree.most[i]);
    al_buf_char(b, '}');
}
