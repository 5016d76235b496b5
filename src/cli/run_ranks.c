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
#include "host/memory.h"
#include "job/memory.h"
#include "job/say.h"
#include "launch/end.h"

#define WORKERS_EVERY_NS (2 * AL_NS_PER_S)

static bool take_guest(struct al_run *r, const struct al_link_guest *g) {
    struct al_ring_reader *ring;
    if (r->book.rank_count == AL_BOOK_RANKS || al_ring_reader_open(g->ring_fd, &ring))
        return false;
    struct al_run_rank *k = &r->ranks[r->book.rank_count];
    pthread_mutex_lock(&r->lock);
    struct al_book_rank *book = al_book_add(&r->book, g->pid, g->hello.start_ticks);
    pthread_mutex_unlock(&r->lock);
    if (book)
        *k = (struct al_run_rank){
            .book = book, .ring = ring, .connection_fd = g->connection_fd, .end_fd = al_end_fd(g->pid)};
    else
        al_ring_reader_free(ring); // with its descriptor
    return book;
}

void al_run_accept(struct al_run *r, int64_t now_ns) {
    struct al_link_guest g;
    while (r->linked && al_link_take(&r->link, now_ns, &g) == 0) {
        if (take_guest(r, &g))
            continue;
        (void)close(g.ring_fd);
        (void)close(g.connection_fd);
        r->refused++;
    }
}

// Lanes come one after the other: their records are put in time's order before they are counted.
struct batch {
    struct al_run *run;
    struct al_book_rank *rank;
    struct al_run_rank *source;
    struct al_mark *marks;
    size_t count, cap;
    uint64_t dropped;
};

static void take(void *user, const struct al_ring_item *item) {
    struct batch *b = user;
    if (item->text && item->record.code == AL_TEXT_ANSWER) {
        al_run_answer_text(b->source, item->text, item->text_length);
        return;
    }
    if (item->text) {
        al_tally_text(&b->rank->tally, item->record.code, item->text, item->text_length);
        al_run_record_text(b->run, b->rank, item->record.at_ns, item->record.code, item->text, item->text_length);
        return;
    }
    if (b->count == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 256;
        struct al_mark *wider = realloc(b->marks, cap * sizeof *wider);
        if (!wider) {
            b->dropped++;
            return;
        }
        b->marks = wider;
        b->cap = cap;
    }
    const struct al_ring_record *e = &item->record;
    b->marks[b->count++] = (struct al_mark){e->at_ns, e->kind, e->code, e->device, e->a, e->b};
}

static void merge(struct al_mark *to, const struct al_mark *from, size_t low, size_t middle, size_t high) {
    size_t a = low, b = middle;
    for (size_t i = low; i < high; i++)
        to[i] = b >= high || (a < middle && from[a].at_ns <= from[b].at_ns) ? from[a++] : from[b++];
}

// By time, what is equal left in its order. Nearly always there is one lane and nothing to do.
static void sort(struct batch *b) {
    bool sorted = true;
    for (size_t i = 1; i < b->count && sorted; i++)
        sorted = b->marks[i - 1].at_ns <= b->marks[i].at_ns;
    struct al_mark *other = sorted ? NULL : malloc(b->count * sizeof *other), *own = b->marks;
    if (!other)
        return;
    for (size_t width = 1; width < b->count; width *= 2) {
        for (size_t low = 0; low < b->count; low += 2 * width) {
            size_t middle = low + width < b->count ? low + width : b->count;
            size_t high = middle + width < b->count ? middle + width : b->count;
            merge(other, own, low, middle, high);
        }
        struct al_mark *swap = own;
        own = other;
        other = swap;
    }
    if (own != b->marks)
        memcpy(b->marks, own, b->count * sizeof *own);
    free(own != b->marks ? own : other);
}

#define OWN_MOST 4096 // marks between two looks

void al_run_own_mark(struct al_run *r, uint32_t rank, uint16_t kind, uint16_t code, int32_t device, int64_t a, int64_t b) {
    struct al_run_rank *k = &r->ranks[rank];
    if (k->own_count == k->own_cap) {
        uint32_t cap = k->own_cap ? 2 * k->own_cap : 32;
        struct al_ring_record *wider = cap <= OWN_MOST ? realloc(k->own, cap * sizeof *wider) : NULL;
        if (!wider)
            return;
        k->own = wider;
        k->own_cap = cap;
    }
    k->own[k->own_count++] = (struct al_ring_record){
        .at_ns = al_monotonic_ns(), .kind = kind, .code = code, .device = device, .a = a, .b = b};
}

static void take_own(struct al_run_rank *k, struct batch *b) {
    for (uint32_t i = 0; i < k->own_count; i++) {
        const struct al_ring_item item = {.record = k->own[i]};
        take(b, &item);
    }
    k->own_count = 0;
}

static void drain(struct al_run *r, struct al_run_rank *k, bool leads, struct batch *b, struct al_buf *lines) {
    struct al_tally *t = &k->book->tally;
    b->rank = k->book;
    b->source = k;
    b->count = 0;
    (void)al_ring_reader_drain(k->ring, take, b);
    take_own(k, b);
    al_tally_lost(t, al_ring_reader_lost(k->ring) + b->dropped);
    sort(b);
    bool epoch_read = false;
    for (size_t i = 0; i < b->count; i++) {
        const struct al_mark *e = &b->marks[i];
        al_tally_event(t, e->at_ns, e->kind, e->code, e->device, e->a, e->b);
        k->epoch_due |= e->kind == AL_EVENT_EPOCH;
        epoch_read |= e->kind == AL_EVENT_HOST && e->device == AL_HOST_AT_EPOCH;
        if (e->kind == AL_EVENT_ANSWER)
            al_run_answer(r, k, e, lines);
        if (e->kind == AL_EVENT_STEP && e->code != AL_STEP_MICRO && r->log_every && leads &&
            al_tally_steps(t) % r->log_every == 0)
            al_book_say_step(&r->book, k->book, lines);
    }
    if (epoch_read && leads && !r->quiet)
        al_book_say_epoch(k->book, lines);
    al_run_record_marks(r, k->book, b->marks, b->count);
}

void al_run_drain(struct al_run *r) {
    struct batch b = {.run = r};
    struct al_buf lines = AL_BUF_INIT;
    pthread_mutex_lock(&r->lock);
    const struct al_book_rank *leader = al_book_leader(&r->book);
    for (uint32_t i = 0; i < r->book.rank_count; i++)
        drain(r, &r->ranks[i], !leader || leader == r->ranks[i].book, &b, &lines);
    al_book_counted(&r->book);
    pthread_mutex_unlock(&r->lock);
    free(b.marks);
    al_run_print(&lines);
}

static bool has_ended(const struct al_run_rank *k) {
    struct pollfd p = {.fd = k->end_fd, .events = POLLIN};
    if (k->end_fd >= 0)
        return poll(&p, 1, 0) > 0;
    return kill(k->book->pid, 0) < 0 && errno == ESRCH;
}

void al_run_note_ends(struct al_run *r, int64_t now_ns) {
    for (uint32_t i = 0; i < r->book.rank_count; i++) {
        struct al_run_rank *k = &r->ranks[i];
        int status = 0;
        if (k->book->ended || !has_ended(k))
            continue;
        bool known = !k->book->status_known && al_end_status(k->end_fd, k->book->pid, &status);
        pthread_mutex_lock(&r->lock);
        al_book_rank_ended(k->book, now_ns, known, status);
        pthread_mutex_unlock(&r->lock);
        if (k->connection_fd >= 0)
            (void)close(k->connection_fd);
        k->connection_fd = -1;
    }
}

void al_run_note_orphan(void *user, pid_t pid, int status) {
    struct al_run *r = user;
    for (uint32_t i = r->book.rank_count; i > 0; i--) {
        struct al_book_rank *k = r->ranks[i - 1].book;
        if (k->pid != pid || k->status_known)
            continue;
        pthread_mutex_lock(&r->lock);
        k->status_known = true;
        k->status = status;
        pthread_mutex_unlock(&r->lock);
        return;
    }
}

void al_run_note_job_end(struct al_run *r, int64_t now_ns) {
    uint64_t kills;
    pthread_mutex_lock(&r->lock);
    r->book.job.ended = true;
    r->book.job.status = r->job.status;
    if (r->oom_known && al_end_oom_kills(0, &kills) == 0 && kills > r->oom_start)
        r->book.job.oom_kills = kills - r->oom_start;
    for (uint32_t i = 0; i < r->book.rank_count; i++)
        if (r->ranks[i].book->pid == r->job.pid)
            al_book_rank_ended(r->ranks[i].book, now_ns, true, r->job.status);
    pthread_mutex_unlock(&r->lock);
}

void al_run_look_for_workers(struct al_run *r, int64_t now_ns) {
    int root;
    if (now_ns - r->workers_looked_ns < WORKERS_EVERY_NS || al_fs_root("/", &root))
        return;
    r->workers_looked_ns = now_ns;
    for (uint32_t i = 0; i < r->book.rank_count; i++) {
        struct al_book_rank *k = r->ranks[i].book;
        if (k->ended || !al_tally_trains(&k->tally))
            continue;
        int32_t workers = al_host_workers(root, k->pid, NULL, 0);
        if (workers > k->workers)
            k->workers = workers; // only this thread reads it
    }
    (void)close(root);
}
