// SPDX-License-Identifier: Apache-2.0
// The view of another process: refused, or a snapshot within its bounds. The input is laid over a view that would be taken.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "device/shared.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void check(const struct al_snapshot *s) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu *g = &s->gpus[i];
        if (!memchr(g->info.uuid, '\0', sizeof g->info.uuid) || !memchr(g->info.name, '\0', sizeof g->info.name) ||
            g->fresh_count > AL_FRESH_MAX || g->xid_count > AL_XID_CODES || g->info.parent >= (int32_t)s->gpu_count)
            abort();
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            if (g->m[m].status >= AL_STATUS_COUNT || !isfinite(g->m[m].num))
                abort();
        if (g->info.mig_enabled || g->info.is_mig || g->info.unified_memory)
            continue; // UBSan looks at them
    }
    for (uint32_t i = 0; i < s->row_count; i++)
        if (s->rows[i].gpu >= s->gpu_count || s->rows[i].pid <= 0)
            abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_snapshot *s = al_snapshot_new(), *back = al_snapshot_new();
    struct al_shared_head head = {5, AL_GROUP_FAST};
    struct al_buf b = AL_BUF_INIT;
    if (s && back && al_snapshot_add_gpu(s) && al_snapshot_add_row(s)) {
        s->rows[0].pid = 4;
        al_shared_format(&b, &head, s);
        // Pieces of {offset: 3 bytes, length: 1, bytes}.
        while (!b.failed && size > 4) {
            size_t at = (size_t)(data[0] | data[1] << 8 | data[2] << 16) % b.len, length = data[3];
            data += 4;
            size -= 4;
            length = length > size ? size : length;
            length = length > b.len - at ? b.len - at : length;
            memcpy(b.data + at, data, length);
            data += length;
            size -= length;
        }
        if (!b.failed && al_shared_parse(b.data, b.len, &head, back) == 0)
            check(back);
    }
    al_buf_free(&b);
    al_snapshot_free(s);
    al_snapshot_free(back);
    return 0;
}
