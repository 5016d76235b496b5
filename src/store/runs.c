// SPDX-License-Identifier: Apache-2.0
// "ALP", 1, the number of runs; then of each: how far its stack is from the one before (zigzag) times 8 plus its state, ticks
// between the end of the run before and its begin, and its samples less one; all LEB128.
#include "store/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/column.h"

#define MAGIC "ALP\1"
#define RUN_BYTES 3 // at least

int al_runs_encode(const struct al_store_run *runs, uint32_t count, struct al_buf *b) {
    int64_t stack = 0, tick = 0;
    al_buf_add(b, MAGIC, 4);
    al_put_varint(b, count);
    for (uint32_t i = 0; i < count; i++) {
        al_put_varint(b, al_zigzag((int64_t)runs[i].stack - stack) << 3 | (runs[i].state & 7u));
        al_put_varint(b, al_zigzag((int64_t)runs[i].tick - tick)); // below 0 where order was given up
        al_put_varint(b, runs[i].count - 1u);
        stack = runs[i].stack;
        tick = (int64_t)runs[i].tick + runs[i].count;
    }
    return b->failed ? AL_E_NOMEM : 0;
}

static int decode_run(struct al_bytes *in, uint32_t stacks, int64_t *stack, int64_t *tick, struct al_store_run *ret) {
    uint64_t where, gap, count;
    if (al_get_varint(in, &where) || al_get_varint(in, &gap) || al_get_varint(in, &count))
        return AL_E_FORMAT;
    int64_t step = al_unzigzag(where >> 3), later = al_unzigzag(gap);
    if (step < -(int64_t)UINT32_MAX || step > UINT32_MAX || later < -2 * (int64_t)UINT32_MAX || later > UINT32_MAX || count >= UINT32_MAX)
        return AL_E_FORMAT;
    *stack += step;
    *tick += later;
    if (*stack < 0 || *stack >= stacks || *tick < 0 || *tick > UINT32_MAX)
        return AL_E_FORMAT;
    *ret = (struct al_store_run){(uint32_t)*stack, (uint32_t)*tick, (uint32_t)count + 1, where & 7u};
    *tick += ret->count;
    return 0;
}

int al_runs_decode(const uint8_t *bytes, size_t len, uint32_t stacks, struct al_store_run **ret, uint32_t *ret_count) {
    struct al_bytes in = {bytes, bytes + len};
    uint64_t count;
    int64_t stack = 0, tick = 0;
    if (len < 4 || memcmp(bytes, MAGIC, 4) != 0)
        return AL_E_FORMAT;
    in.p += 4;
    if (al_get_varint(&in, &count) || count > (uint64_t)(in.end - in.p) / RUN_BYTES)
        return AL_E_FORMAT;
    struct al_store_run *runs = malloc((count ? count : 1) * sizeof *runs);
    if (!runs)
        return AL_E_NOMEM;
    int result = 0;
    for (uint64_t i = 0; i < count && !result; i++)
        result = decode_run(&in, stacks, &stack, &tick, &runs[i]);
    if (!result && in.p != in.end)
        result = AL_E_FORMAT;
    if (result) {
        free(runs);
        return result;
    }
    *ret = runs;
    *ret_count = (uint32_t)count;
    return 0;
}
