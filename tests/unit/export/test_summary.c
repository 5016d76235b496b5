// SPDX-License-Identifier: Apache-2.0
// torch.cuda.memory_summary()'s text: rows in the form of torch 2.13's cuda/memory.py.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "export/summary.h"
#include "suites.h"

#define RULE "|---------------------------------------------------------------------------|\n"
static const char text[] =
    "|===========================================================================|\n"
    "|                  PyTorch CUDA memory summary, device ID 0                 |\n" RULE
    "|            CUDA OOMs: 2            |        cudaMalloc retries: 5         |\n"
    "|===========================================================================|\n"
    "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n" RULE
    "| Allocated memory      |   1530 MiB |   3060 MiB |      7 GiB | 786432 KiB |\n"
    "|       from large pool |   1530 MiB |   3060 MiB |      7 GiB |      6 GiB |\n"
    "|       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |\n" RULE
    "| GPU reserved memory   |   1536 MiB |   3072 MiB |   3072 MiB |   1536 MiB |\n" RULE
    "| Non-releasable memory |      0 B   |   1024 B   |      0 B   |      0 B   |\n" RULE
    "| Allocations           |      12    |      15    |    1200 K  |    1199 K  |\n" RULE
    "| GPU reserved segments |       1    |       2    |       2    |       1    |\n" RULE
    "| Oversize GPU segments |       0    |       0    |       0    |       0    |\n"
    "|===========================================================================|\n";

static void rows(void **unused) {
    (void)unused;
    struct al_summary s;
    assert_int_equal(al_summary_parse(text, &s), 6);
    assert_true(s.ooms_known && s.ooms == 2 && s.retries_known && s.retries == 5);
    assert_true(s.row[AL_SUMMARY_allocated_bytes].current == 1530.0 * (1 << 20));
    assert_true(s.row[AL_SUMMARY_allocated_bytes].allocated == 7516192768.0);
    assert_true(s.row[AL_SUMMARY_allocated_bytes].freed == 805306368.0);
    assert_true(s.row[AL_SUMMARY_inactive_split_bytes].peak == 1024);
    assert_true(s.row[AL_SUMMARY_allocations].current == 12 && s.row[AL_SUMMARY_allocations].allocated == 1.2e6);
    assert_true(s.row[AL_SUMMARY_segments].freed == 1);
    assert_false(s.row[AL_SUMMARY_requested_bytes].known);
    struct al_buf b = AL_BUF_INIT;
    al_summary_json(&b, &s);
    assert_non_null(strstr(b.data, "{\"ooms\":2,\"retries\":5,\"allocated_bytes\":{\"current\":1604321280,\"peak\":3208642560,"));
    assert_non_null(strstr(b.data, "\"requested_bytes\":null"));
    al_buf_free(&b);
}

static void nonsense(void **unused) {
    (void)unused;
    struct al_summary s;
    static const char *const texts[] = {"", "\n\n\n", "| Allocated memory |", "| Allocated memory | x | 1 | 1 | 1 |",
                                        "| Allocated memory | 1 MiB | 1 MiB | 1 MiB", "CUDA OOMs: \n 7 |", "| Allocations | 1 | 2 | 3 |"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(al_summary_parse(texts[i], &s), 0);
        assert_false(s.ooms_known || s.row[0].known);
    }
}

int al_test_summary(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(nonsense)};
    return cmocka_run_group_tests_name("summary", tests, NULL, NULL);
}
