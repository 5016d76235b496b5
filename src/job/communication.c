// SPDX-License-Identifier: Apache-2.0
#include "job/communication.h"

#include <string.h>

#include "base/str.h"
#include "detect/say.h"

#define CALLS_SAID 4 // kinds of calls in the summary

static bool tells(const struct al_tally *t) {
    return t->world > 1 || t->nccl.communicators;
}

// The leader where it tells: its calls are those of every rank in a plain job.
const struct al_book_rank *al_book_communicates(const struct al_book *book) {
    const struct al_book_rank *leader = al_book_leader(book), *found = NULL;
    if (leader && leader->tally.nccl.communicators)
        return leader;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (tells(&k->tally) && (!found || k->tally.nccl.communicators > found->tally.nccl.communicators))
            found = k;
    }
    return leader && tells(&leader->tally) && (!found || !found->tally.nccl.communicators) ? leader : found;
}

// The fewest links up of the job's GPUs; -1 not known.
static int nvlinks(const struct al_book *book) {
    int least = -1;
    for (uint32_t i = 0; i < book->gpu_count; i++) {
        const struct al_book_gpu *g = &book->gpus[i];
        if (g->nvlinks_known && g->used_by_job && (least < 0 || (int)g->nvlinks < least))
            least = (int)g->nvlinks;
    }
    return least;
}

// Most bytes first.
static void put_calls(struct al_report_communication *c, const struct al_tally_nccl *n) {
    for (int i = 0; i < AL_COLLECTIVE_COUNT; i++) {
        if (!n->calls[i])
            continue;
        uint32_t at = c->call_count++;
        for (; at > 0 && c->calls[at - 1].bytes < n->bytes[i]; at--)
            c->calls[at] = c->calls[at - 1];
        c->calls[at] = (struct al_report_calls){al_collective_word(i), n->calls[i], n->bytes[i]};
    }
}

static void put_communicators(struct al_report_communication *c, const struct al_tally_nccl *n) {
    c->communicators_made = n->communicators;
    for (uint32_t i = 0; i < n->kept; i++) {
        const struct al_tally_communicator *from = &n->communicator[i];
        struct al_report_communicator *row = &c->communicators[c->communicator_count++];
        *row = (struct al_report_communicator){.id = from->id, .ranks = from->ranks, .nodes = from->nodes, .rank = from->rank};
        (void)al_str_copy(row->name, sizeof row->name, from->name);
    }
}

void al_book_communication(const struct al_book *book, struct al_report_communication *ret) {
    const struct al_book_rank *k = al_book_communicates(book);
    struct al_tally_transport transport;
    memset(ret, 0, sizeof *ret);
    if (!k)
        return;
    ret->known = true;
    ret->rank = k->tally.rank;
    ret->profiled = k->tally.nccl.interface_ > 0;
    ret->counted = al_tally_nccl_counts(&k->tally);
    bool seen = al_tally_nccl_version(&k->tally, ret->nccl, sizeof ret->nccl) || ret->profiled;
    if (!seen) {
        ret->transport = al_transport_word(AL_TRANSPORT_UNKNOWN);
        ret->confidence = al_confidence_word(AL_CONFIDENCE_LOW);
        (void)al_str_copy(ret->words, sizeof ret->words, "unknown");
        (void)al_str_copy(ret->why, sizeof ret->why, "NCCL was not seen: another backend, or one older than 2.23 without Python");
        return;
    }
    al_tally_transport(&k->tally, nvlinks(book), &transport);
    ret->transport = al_transport_word(transport.kind);
    ret->confidence = al_confidence_word(transport.confidence);
    (void)al_str_copy(ret->words, sizeof ret->words, transport.words);
    (void)al_str_copy(ret->why, sizeof ret->why, transport.why);
    put_communicators(ret, &k->tally.nccl);
    put_calls(ret, &k->tally.nccl);
}

static void say_calls(struct al_buf *b, const struct al_report_communication *c) {
    if (!c->call_count)
        return;
    al_buf_printf(b, "; rank %lld called", (long long)(c->rank < 0 ? 0 : c->rank));
    for (uint32_t i = 0; i < c->call_count && i < CALLS_SAID; i++)
        al_buf_printf(b, "%s %s %llu times (%s)", i ? "," : "", c->calls[i].word, (unsigned long long)c->calls[i].calls,
                      al_say_bytes((double)c->calls[i].bytes).s);
    if (c->call_count > CALLS_SAID)
        al_buf_str(b, ", ...");
}

void al_book_say_communication(const struct al_book *book, struct al_buf *b) {
    struct al_report_communication c;
    al_book_communication(book, &c);
    if (!c.known)
        return;
    al_buf_str(b, "alula: communication: ");
    if (c.nccl[0]) {
        al_buf_str(b, "NCCL ");
        al_term_string(b, c.nccl);
        al_buf_str(b, ", ");
    }
    al_buf_str(b, "transport ");
    al_term_string(b, c.words);
    al_buf_str(b, " (");
    al_term_string(b, c.why);
    al_buf_printf(b, "; confidence %s)", c.confidence);
    say_calls(b, &c);
    al_buf_char(b, '\n');
}
