// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/run.h"
#include "launch/end.h"

#define WORKERS_EVERY_NS (2 * AL_NS_PER_S)

static struct al_run_rank *rank_new(const struct al_link_guest *g) {
    struct al_run_rank *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->pid = g->pid;
    k->connection_fd = g->connection_fd;
    k->end_fd = al_end_fd(g->pid);
    k->workers = -1;
    al_tally_init(&k->tally);
    if (al_ring_reader_open(g->ring_fd, &k->ring) == 0)
        return k;
    if (k->end_fd >= 0)
        (void)close(k->end_fd);
    free(k);
    return NULL;
}

void al_run_accept(struct al_run *r, int64_t now_ns) {
    struct al_link_guest g;
    while (r->linked && al_link_take(&r->link, now_ns, &g) == 0) {
        struct al_run_rank *k = r->rank_count < AL_RUN_RANKS ? rank_new(&g) : NULL;
        if (k) {
            r->ranks[r->rank_count++] = k;
            continue;
        }
        (void)close(g.ring_fd);
        (void)close(g.connection_fd);
        r->refused++;
    }
}

// Lanes come one after the other: their records are put in time's order before they are counted.
struct batch {
    struct al_tally *tally;
    struct al_ring_record *records;
    size_t count, cap;
    uint64_t dropped;
};

static void take(void *user, const struct al_ring_item *item) {
    struct batch *b = user;
    if (item->text) {
        al_tally_text(b->tally, item->record.code, item->text, item->text_length);
        return;
    }
    if (b->count == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 256;
        struct al_ring_record *wider = realloc(b->records, cap * sizeof *wider);
        if (!wider) {
            b->dropped++;
            return;
        }
        b->records = wider;
        b->cap = cap;
    }
    b->records[b->count++] = item->record;
}

static void merge(struct al_ring_record *to, const struct al_ring_record *from, size_t low, size_t middle, size_t high) {
    size_t a = low, b = middle;
    for (size_t i = low; i < high; i++)
        to[i] = b >= high || (a < middle && from[a].at_ns <= from[b].at_ns) ? from[a++] : from[b++];
}

// By time, what is equal left in its order. Nearly always there is one lane and nothing to do.
static void sort(struct batch *b) {
    bool sorted = true;
    for (size_t i = 1; i < b->count && sorted; i++)
        sorted = b->records[i - 1].at_ns <= b->records[i].at_ns;
    struct al_ring_record *other = sorted ? NULL : malloc(b->count * sizeof *other), *own = b->records;
    if (!other)
        return;
    for (size_t width = 1; width < b->count; width *= 2) {
        for (size_t low = 0; low < b->count; low += 2 * width) {
            size_t middle = low + width < b->count ? low + width : b->count;
            size_t high = middle + width < b->count ? middle + width : b->count;
            merge(other, own, low, middle, high);
        }
        struct al_ring_record *swap = own;
        own = other;
        other = swap;
    }
    if (own != b->records)
        memcpy(b->records, own, b->count * sizeof *own);
    free(own != b->records ? own : other);
}

static void drain(struct al_run *r, struct al_run_rank *k, bool leads, struct batch *b) {
    b->tally = &k->tally;
    b->count = 0;
    (void)al_ring_reader_drain(k->ring, take, b);
    al_tally_lost(&k->tally, al_ring_reader_lost(k->ring) + b->dropped);
    sort(b);
    for (size_t i = 0; i < b->count; i++) {
        const struct al_ring_record *e = &b->records[i];
        al_tally_event(&k->tally, e->at_ns, e->kind, e->code, e->device, e->a, e->b);
        if (e->kind == AL_EVENT_STEP && e->code != AL_STEP_MICRO && r->log_every && leads)
            al_run_say_step(r, k);
    }
}

void al_run_drain(struct al_run *r) {
    struct batch b = {0};
    int64_t begin = 0, end = 0;
    const struct al_run_rank *leader = al_run_leader(r);
    for (uint32_t i = 0; i < r->rank_count; i++) {
        struct al_run_rank *k = r->ranks[i];
        if (!k)
            continue;
        const struct al_tally *t = &k->tally;
        drain(r, k, !leader || leader == k, &b);
        if (t->begin_ns && (!begin || t->begin_ns < begin))
            begin = t->begin_ns;
        if (al_tally_steps(t) && t->step_end_ns > end)
            end = t->step_end_ns;
        if (t->device_count)
            atomic_store(&r->device.cuda_seen, true);
    }
    free(b.records);
    atomic_store(&r->device.begin_ns, begin);
    atomic_store(&r->device.end_ns, end);
}

static bool has_ended(const struct al_run_rank *k) {
    struct pollfd p = {.fd = k->end_fd, .events = POLLIN};
    if (k->end_fd >= 0)
        return poll(&p, 1, 0) > 0;
    return kill(k->pid, 0) < 0 && errno == ESRCH;
}

void al_run_note_ends(struct al_run *r, int64_t now_ns) {
    for (uint32_t i = 0; i < r->rank_count; i++) {
        struct al_run_rank *k = r->ranks[i];
        if (k->ended || !has_ended(k))
            continue;
        k->ended = true;
        k->ended_ns = now_ns;
        if (!k->status_known)
            k->status_known = al_end_status(k->end_fd, k->pid, &k->status);
        if (k->connection_fd >= 0)
            (void)close(k->connection_fd);
        k->connection_fd = -1;
    }
}

void al_run_note_orphan(void *user, pid_t pid, int status) {
    struct al_run *r = user;
    for (uint32_t i = r->rank_count; i > 0; i--) {
        struct al_run_rank *k = r->ranks[i - 1];
        if (k->pid != pid || k->status_known)
            continue;
        k->status_known = true;
        k->status = status;
        return;
    }
}

// A worker is a child with the rank's own command line (forked), or one that torch has named.
static bool is_worker(int root, pid_t child, const char *command, ssize_t len) {
    char text[4096];
    ssize_t got = al_fs_readf(root, text, sizeof text, "proc/%d/comm", (int)child);
    if (got > 0 && (al_str_starts(text, "pt_data_worker") || al_str_starts(text, "pt_multiprocess")))
        return true;
    got = al_fs_readf(root, text, sizeof text, "proc/%d/cmdline", (int)child);
    return len > 0 && got == len && memcmp(text, command, (size_t)len) == 0;
}

static int32_t count_workers(int root, pid_t pid) {
    char command[4096], children[4096];
    ssize_t len = al_fs_readf(root, command, sizeof command, "proc/%d/cmdline", (int)pid);
    if (al_fs_readf(root, children, sizeof children, "proc/%d/task/%d/children", (int)pid, (int)pid) < 0)
        return -1; // a kernel without this list, or the process is gone
    int32_t count = 0;
    for (char *p = children; *p; p += strcspn(p, " ")) {
        char word[24];
        uint64_t child;
        p += strspn(p, " \n");
        if (al_str_copy_n(word, sizeof word, p, strcspn(p, " \n")) && al_str_u64(word, &child))
            count += is_worker(root, (pid_t)child, command, len);
    }
    return count;
}

void al_run_look_for_workers(struct al_run *r, int64_t now_ns) {
    int root;
    if (now_ns - r->workers_looked_ns < WORKERS_EVERY_NS || al_fs_root("/", &root))
        return;
    r->workers_looked_ns = now_ns;
    for (uint32_t i = 0; i < r->rank_count; i++) {
        struct al_run_rank *k = r->ranks[i];
        if (k->ended || !al_tally_trains(&k->tally))
            continue;
        int32_t workers = count_workers(root, k->pid);
        if (workers > k->workers)
            k->workers = workers;
    }
    (void)close(root);
}

uint32_t al_run_view(const struct al_run *r, bool live, struct al_steps_rank *ranks, struct al_steps_view *ret) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->rank_count; i++) {
        const struct al_run_rank *k = r->ranks[i];
        if (al_tally_trains(&k->tally))
            ranks[count++] = (struct al_steps_rank){&k->tally, k->tally.rank, k->pid, k->workers};
    }
    *ret = (struct al_steps_view){.ranks = ranks, .count = count, .live = live, .cpus = r->cpus};
    return count;
}

const struct al_run_rank *al_run_leader(const struct al_run *r) {
    const struct al_run_rank *found = NULL;
    for (uint32_t i = 0; i < r->rank_count; i++) {
        const struct al_run_rank *k = r->ranks[i];
        if (!al_tally_trains(&k->tally))
            continue;
        if (!found || (k->tally.rank >= 0 && (found->tally.rank < 0 || k->tally.rank < found->tally.rank)))
            found = k;
    }
    return found;
}

void al_run_ranks_free(struct al_run *r) {
    for (uint32_t i = 0; i < r->rank_count; i++) {
        struct al_run_rank *k = r->ranks[i];
        al_ring_reader_free(k->ring);
        if (k->connection_fd >= 0)
            (void)close(k->connection_fd);
        if (k->end_fd >= 0)
            (void)close(k->end_fd);
        free(k);
    }
    free(r->ranks);
    r->ranks = NULL;
    r->rank_count = 0;
}
