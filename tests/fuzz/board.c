// SPDX-License-Identifier: Apache-2.0
// A board of another user's alula may say anything: it is refused, or gives figures and texts within their bounds, and what
// was understood reads back the same.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launch/board.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(const struct al_board *b) {
    if (b->rank_count > AL_BOARD_RANKS || b->head.pid < 1)
        abort();
    if (strlen(b->head.command) >= sizeof b->head.command || strlen(b->head.output) >= sizeof b->head.output)
        abort();
    for (uint32_t i = 0; i < b->rank_count; i++) {
        const struct al_rank *r = &b->ranks[i];
        if (r->pid < 1 || r->rank < -1 || !memchr(r->source, '\0', sizeof r->source))
            abort();
        for (int m = 0; m < AL_RANK_METRIC_COUNT; m++)
            if (r->m[m].status >= AL_STATUS_COUNT || !isfinite(r->m[m].num))
                abort();
        (void)al_rank_phase(r);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_board board = {0}, again = {0};
    struct al_buf b = AL_BUF_INIT;
    if (al_board_parse((const char *)data, size, &board) == 0) {
        check(&board);
        al_board_format(&b, &board.head, board.ranks, board.rank_count);
        if (!b.failed && (al_board_parse(b.data, b.len, &again) != 0 || again.rank_count != board.rank_count ||
                          strcmp(again.head.command, board.head.command) != 0))
            abort();
        check(&again);
    }
    al_board_clear(&board);
    al_board_clear(&again);
    al_buf_free(&b);
    return 0;
}
