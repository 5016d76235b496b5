// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "cli/run.h"
#include "host/transport.h"

#define EVERY_NS (10 * AL_NS_PER_S) // devices are opened with the first communicator, some time into the job

static bool due(const struct al_run_rank *k, int64_t now_ns) {
    const struct al_tally *t = &k->book->tally;
    if (k->book->ended || (t->world <= 1 && !t->nccl.communicators))
        return false;
    return !k->transport_ns || now_ns - k->transport_ns >= EVERY_NS;
}

static void look(struct al_run *r, struct al_run_rank *k, int root, int64_t now_ns) {
    char text[AL_TALLY_TEXT];
    k->transport_ns = now_ns;
    if (al_transport_text(root, k->book->pid, text, sizeof text) || !text[0])
        return;
    pthread_mutex_lock(&r->lock);
    bool news = strcmp(text, k->book->tally.text[AL_TEXT_TRANSPORT]) != 0;
    if (news)
        al_tally_text(&k->book->tally, AL_TEXT_TRANSPORT, text, strlen(text));
    pthread_mutex_unlock(&r->lock);
    if (news)
        al_run_record_text(r, k->book, now_ns, AL_TEXT_TRANSPORT, text, strlen(text));
}

void al_run_look_at_transport(struct al_run *r, int64_t now_ns) {
    int root = -1;
    for (uint32_t i = 0; i < r->book.rank_count; i++) {
        if (!due(&r->ranks[i], now_ns))
            continue;
        if (root < 0 && al_fs_root("/", &root))
            return;
        look(r, &r->ranks[i], root, now_ns);
    }
    if (root >= 0)
        (void)close(root);
}
