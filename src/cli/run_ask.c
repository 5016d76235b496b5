// SPDX-License-Identifier: Apache-2.0
#include "cli/run_ask.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/run.h"
#include "detect/say.h"
#include "launch/end.h"

#define TEXT_MOST (64 << 10)           // of one memory_summary; torch writes 4 KiB
#define EMPTY_EVERY_NS (60 * AL_NS_PER_S) // emptying a cache costs: no oftener
#define EMPTY_MOST_NS (64 * EMPTY_EVERY_NS)
#define WORTH 0.1                      // share of the unused memory that must have come back; else the wait doubles

int al_run_ask_limit(struct al_run *r, const char *text) {
    double value;
    if (al_unit_parse(text, AL_UNIT_RATIO, &value) == 0 && value > 0 && value <= 1)
        r->ask.above = value;
    else if (al_unit_parse(text, AL_UNIT_BYTES, &value) == 0 && value > 1)
        r->ask.above = value;
    else
        return AL_E_FORMAT;
    return 0;
}

void al_run_ask_start(struct al_run *r) {
    r->ask.open = r->linked && al_ask_open(&r->ask.socket, r->link.dir) == 0;
}

void al_run_ask_stop(struct al_run *r) {
    if (r->ask.open)
        al_ask_close(&r->ask.socket);
    r->ask.open = false;
}

uint32_t al_run_ask_poll(const struct al_run *r, struct pollfd *ret) {
    return r->ask.open ? al_ask_poll(&r->ask.socket, ret) : 0;
}

// ---- who asks ----

static void reply(struct al_run *r, uint32_t client, const char *word, const struct al_book_rank *k) {
    char line[96];
    int len = snprintf(line, sizeof line, "%s %lld %d\n", word, (long long)k->tally.rank, (int)k->pid);
    (void)al_ask_reply(&r->ask.socket, client, line, (size_t)len);
}

static bool waits(const struct al_run *r, uint32_t client) {
    for (uint32_t i = 0; i < AL_RUN_ASKED; i++)
        if (r->ask.asked[i].waits && r->ask.asked[i].client == client)
            return true;
    return false;
}

static void end_if_done(struct al_run *r, uint32_t client) {
    if (waits(r, client))
        return;
    (void)al_ask_reply(&r->ask.socket, client, AL_ASK_END, sizeof AL_ASK_END - 1);
    al_ask_done(&r->ask.socket, client);
}

static bool is_meant(const struct al_run *r, const struct al_book_rank *k, pid_t pid) {
    if (k->ended || !(k->tally.hello || al_tally_trains(&k->tally)))
        return false;
    return pid == 0 || pid == k->pid || pid == getpid() || pid == r->job.pid || al_end_descends(k->pid, pid);
}

static bool ask_rank(struct al_run *r, uint32_t client, uint32_t rank, uint32_t bit) {
    for (uint32_t i = 0; i < AL_RUN_ASKED; i++) {
        if (r->ask.asked[i].waits)
            continue;
        if (!al_ring_reader_ask(r->ranks[rank].ring, bit))
            return false;
        r->ask.asked[i].waits = true;
        r->ask.asked[i].client = client;
        r->ask.asked[i].rank = rank;
        r->ask.asked[i].bit = bit;
        return true;
    }
    return false;
}

static void take_request(struct al_run *r, const struct al_ask_request *q) {
    struct al_ask *a = &r->ask.socket;
    uint32_t count = 0;
    char line[32];
    for (uint32_t i = 0; i < r->book.rank_count; i++)
        if (is_meant(r, r->ranks[i].book, q->pid))
            count += ask_rank(r, q->client, i, q->bits);
    if (!count && q->pid && q->pid != r->job.pid && q->pid != getpid()) {
        (void)al_ask_reply(a, q->client, AL_ASK_NOT_MINE, sizeof AL_ASK_NOT_MINE - 1);
        al_ask_done(a, q->client);
        return;
    }
    int len = snprintf(line, sizeof line, AL_ASK_TAKEN "%u\n", count);
    (void)al_ask_reply(a, q->client, line, (size_t)len);
    end_if_done(r, q->client);
}

static void forget(struct al_run *r, uint32_t i, const char *word) {
    uint32_t client = r->ask.asked[i].client;
    r->ask.asked[i].waits = false;
    if (word)
        reply(r, client, word, r->ranks[r->ask.asked[i].rank].book);
    end_if_done(r, client);
}

// ---- what is answered ----

void al_run_answer_text(struct al_run_rank *k, const char *text, size_t len) {
    if (k->ask.answer.len + len <= TEXT_MOST)
        al_buf_add(&k->ask.answer, text, len);
}

static void tell_device(struct al_run *r, uint32_t client, const struct al_run_rank *k, const struct al_mark *m) {
    struct al_buf b = AL_BUF_INIT;
    long long rank = (long long)k->book->tally.rank;
    if (m->code == AL_REQUEST_EMPTY_CACHE) {
        al_buf_printf(&b, "freed %lld %d %d %lld %lld\n", rank, (int)k->book->pid, (int)m->device, (long long)m->a, (long long)m->b);
    } else {
        al_buf_printf(&b, "summary %lld %d %d %zu\n", rank, (int)k->book->pid, (int)m->device, k->ask.answer.len);
        al_buf_add(&b, k->ask.answer.data ? k->ask.answer.data : "", k->ask.answer.len);
        al_buf_char(&b, '\n');
    }
    if (!b.failed)
        (void)al_ask_reply(&r->ask.socket, client, b.data, b.len);
    al_buf_free(&b);
}

// What --empty-cache-above did: always told, because it costs the job time.
static void tell_emptied(struct al_run_rank *k, const struct al_mark *m, struct al_buf *lines) {
    const struct al_tally *t = &k->book->tally;
    double unused = k->ask.unused;
    if (m->device >= 0) {
        char took[32];
        (void)al_fmt_duration(took, sizeof took, (double)m->b / 1e9);
        k->ask.back += (double)m->a;
        al_buf_printf(lines, "alula: rank %lld cuda:%d: emptied torch's cache after step %lld: %s were unused, %s given back in "
                             "%s\n",
                      (long long)(t->rank < 0 ? 0 : t->rank), (int)m->device, (long long)t->step, al_say_bytes(unused).s,
                      al_say_bytes((double)m->a).s, took);
        return;
    }
    k->ask.emptying = false;
    // What does not come back (remains between blocks in use) would not the next time either.
    bool worth = m->device == AL_ANSWER_DONE && k->ask.back > WORTH * unused;
    k->ask.wait_ns = worth ? EMPTY_EVERY_NS : 2 * k->ask.wait_ns < EMPTY_MOST_NS ? 2 * k->ask.wait_ns : EMPTY_MOST_NS;
}

void al_run_answer(struct al_run *r, struct al_run_rank *k, const struct al_mark *m, struct al_buf *lines) {
    if (m->code == AL_REQUEST_EMPTY_CACHE && k->ask.emptying)
        tell_emptied(k, m, lines);
    for (uint32_t i = 0; i < AL_RUN_ASKED; i++) {
        if (!r->ask.asked[i].waits || &r->ranks[r->ask.asked[i].rank] != k || r->ask.asked[i].bit != m->code)
            continue;
        if (m->device >= 0)
            tell_device(r, r->ask.asked[i].client, k, m);
        else
            forget(r, i, m->device == AL_ANSWER_DONE ? NULL : m->b ? "fault" : "none");
    }
    if (m->code == AL_REQUEST_MEMORY_SUMMARY)
        al_buf_clear(&k->ask.answer);
}

// ---- --empty-cache-above ----

static bool is_above(double above, const struct al_tally_memory *m, double *ret_unused) {
    if (!m->known[AL_ALLOCATOR_RESERVED] || !m->known[AL_ALLOCATOR_ALLOCATED])
        return false;
    double unused = (double)(m->last[AL_ALLOCATOR_RESERVED] - m->last[AL_ALLOCATOR_ALLOCATED]);
    *ret_unused = unused;
    if (above > 1)
        return unused > above;
    return m->driver_known[AL_DRIVER_DEVICE_TOTAL] && unused > above * (double)m->driver_last[AL_DRIVER_DEVICE_TOTAL];
}

static void look_at_limit(struct al_run *r, struct al_run_rank *k, int64_t now_ns) {
    const struct al_tally *t = &k->book->tally;
    double unused;
    if (k->book->ended || k->ask.emptying || (k->ask.emptied_ns && now_ns - k->ask.emptied_ns < k->ask.wait_ns))
        return;
    for (uint32_t i = 0; i < t->device_count; i++) {
        if (!is_above(r->ask.above, &t->memory[i], &unused) || !al_ring_reader_ask(k->ring, AL_REQUEST_EMPTY_CACHE))
            continue;
        k->ask.emptying = true;
        k->ask.unused = unused;
        k->ask.back = 0;
        k->ask.emptied_ns = now_ns;
        if (!k->ask.wait_ns)
            k->ask.wait_ns = EMPTY_EVERY_NS;
        return;
    }
}

void al_run_ask_tick(struct al_run *r, int64_t now_ns) {
    struct al_ask_request q;
    pthread_mutex_lock(&r->lock);
    while (r->ask.open && al_ask_take(&r->ask.socket, now_ns, &q) == 0)
        take_request(r, &q);
    for (uint32_t i = 0; i < AL_RUN_ASKED; i++)
        if (r->ask.asked[i].waits && r->ranks[r->ask.asked[i].rank].book->ended)
            forget(r, i, "gone");
    for (uint32_t i = 0; r->ask.above > 0 && i < r->book.rank_count; i++)
        look_at_limit(r, &r->ranks[i], now_ns);
    pthread_mutex_unlock(&r->lock);
}
