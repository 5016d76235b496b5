// SPDX-License-Identifier: Apache-2.0
// Any text: parsed, played forwards and backwards, and printed. What is printed must read back to the same.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right) {
    if (!right)
        abort();
}

static bool same_value(struct al_value a, struct al_value b) {
    bool counts = a.status == AL_STATUS_OK || a.status == AL_STATUS_STALE;
    return a.status == b.status && (!counts || a.num == b.num);
}

static void same(const struct al_snapshot *a, const struct al_snapshot *b) {
    check(a->gpu_count == b->gpu_count && a->proc_count == b->proc_count && a->row_count == b->row_count);
    for (uint32_t g = 0; g < a->gpu_count; g++) {
        check(a->gpus[g].info.status == b->gpus[g].info.status);
        for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
            check(same_value(a->gpus[g].m[m], b->gpus[g].m[m]));
    }
    for (uint32_t p = 0; p < a->proc_count; p++) {
        check(a->procs[p].pid == b->procs[p].pid && strcmp(a->procs[p].command, b->procs[p].command) == 0);
        for (int m = 0; m < AL_PROC_METRIC_COUNT; m++)
            check(same_value(a->procs[p].m[m], b->procs[p].m[m]));
    }
    for (uint32_t r = 0; r < a->row_count; r++)
        check(a->rows[r].pid == b->rows[r].pid && same_value(a->rows[r].memory_bytes, b->rows[r].memory_bytes));
}

// One tick, as the only one of a recording.
static void round_trip(struct al_snapshot *s) {
    struct al_buf b = AL_BUF_INIT;
    struct al_scenario *again;
    struct al_scenario_error error;
    struct al_snapshot *back = al_snapshot_new();
    for (uint32_t g = 0; g < s->gpu_count; g++) // two boards of one UUID, or places swapped by a return, are not recorded
        for (uint32_t h = 0; h < s->gpu_count; h++)
            if ((g != h && strcmp(s->gpus[g].info.uuid, s->gpus[h].info.uuid) == 0) || !back)
                goto out;
    s->monotonic_ns = 1000;
    al_scenario_print_head(&b, s, NULL, NULL);
    al_scenario_print_tick(&b, NULL, s, 0);
    if (!b.failed && b.data) {
        check(al_scenario_parse(b.data, b.len, &again, &error) == 0);
        check(al_scenario_at(again, 0, 1000, back) == 0);
        same(s, back);
        al_scenario_free(again);
    }
out:
    al_buf_free(&b);
    al_snapshot_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct al_scenario *s;
    struct al_scenario_error error;
    int result = al_scenario_parse((const char *)data, size, &s, &error);
    if (result) {
        check(s == NULL && (result != -6 || (error.line >= 1 && error.column >= 1 && error.message[0])));
        return 0;
    }
    static const int64_t times[] = {0, 1, 500000000, 1000000000, 700000000, 90000000000, 3, 31622400000000000};
    struct al_snapshot *snapshot = al_snapshot_new();
    for (size_t i = 0; snapshot && i < sizeof times / sizeof *times; i++) {
        struct al_attr_value v;
        struct al_scenario_xid xids[4];
        int code;
        int64_t hang;
        al_scenario_at(s, times[i] - 200000000, times[i], snapshot);
        al_scenario_attr(s, (uint32_t)i, AL_ATTR_NAME, times[i], &v);
        al_scenario_fault(s, "nvmlInit_v2", (int)i - 1, times[i], &code, &hang);
        al_scenario_xids(s, times[i] - 1000, times[i], xids, 4);
    }
    if (snapshot)
        round_trip(snapshot);
    al_snapshot_free(snapshot);
    al_scenario_free(s);
    return 0;
}
