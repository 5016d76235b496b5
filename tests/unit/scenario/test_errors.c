// SPDX-License-Identifier: Apache-2.0
// Every kind of wrong line, with the place it is reported at and the word that helps.
#include <string.h>

#include "base/err.h"
#include "suite.h"

#define HEAD "alula scenario 1\ngpu 0-1\n"
#define TIMED HEAD "@0s\n"

static const struct wrong {
    const char *text;
    int line, column;
    const char *says;
} wrongs[] = {
    {"", 1, 1, "alula scenario 1"},
    {"# only a comment\n", 2, 1, "alula scenario 1"},
    {"alula scenario 2\n", 1, 16, "alula scenario 1"},
    {"alula scenario 1 x\n", 1, 18, "nothing may follow"},
    {"alula scenario 1\nstart yesterday\n", 2, 7, "2026-11-29T12:00:00Z"},
    {"alula scenario 1\nstart 2026-13-29T12:00:00Z\n", 2, 7, "2026-11-29T12:00:00Z"},
    {"alula scenario 1\ninterval 500\n", 2, 10, "500ms"},
    {"alula scenario 1\nduration -1s\n", 2, 10, "between 0s"},
    {"alula scenario 1\ndriver\n", 2, 7, "a value is missing"},
    {"alula scenario 1\nhost color=blue\n", 2, 6, "hostname boot_id"},
    {"alula scenario 1\nhost hostname\n", 2, 6, "needs a value"},
    {"alula scenario 1\nhost host_pid_ns=maybe\n", 2, 18, "yes or no"},
    {"alula scenario 1\ngpu 0 colour=red\n", 2, 7, "no key of a gpu line"},
    {"alula scenario 1\ngpu 0-1 serial=5\n", 2, 9, "must differ"},
    {"alula scenario 1\ngpu 0 uuid=\n", 2, 12, "cannot be empty"},
    {"alula scenario 1\ngpu 128\n", 2, 5, "from 0 to 127"},
    {"alula scenario 1\ngpu 3-1\n", 2, 5, "backwards"},
    {"alula scenario 1\ngpu 0,2\n@0s\n", 3, 1, "GPU 1 is described nowhere"},
    {"alula scenario 1\ngpu 0\nmig 1 profile=1g.18gb\n", 3, 5, "described nowhere"},
    {"alula scenario 1\ngpu 0\nmig 0\ngpu 1\n", 4, 5, "above the first mig"},
    {"alula scenario 1\ngpu 0 name=\"NVIDIA\n", 2, 12, "never closed"},
    {"alula scenario 1\ngpu 0 name=\"a\\q\"\n", 2, 15, "unknown escape"},
    {"alula scenario 1\ngpu 0 name=\"a\\x00\"\n", 2, 17, "unknown escape"},
    {"alula scenario 1\ngpu 0 name=\"a\"b\n", 2, 15, "a blank is missing"},
    {"alula scenario 1\ngpu 0 utilization_ratio=1\n", 2, 7, "no key of a gpu line"},
    {"alula scenario 1\nproc 5\n", 2, 1, "timed lines need an @ line"},
    {HEAD "attr 0 shoe_size=3\n", 3, 8, "no attribute"},
    {HEAD "attr 2 brand=3\n", 3, 6, "GPU 2 is described nowhere"},
    {TIMED "@1s\n@500ms\n", 5, 1, "backwards"},
    {TIMED "@soon\n", 4, 2, "no time"},
    {TIMED "driver 5\n", 4, 1, "no line behind an @ line"},
    {TIMED "gpu\n", 4, 4, "GPU number"},
    {TIMED "gpu 0-2 utilization_ratio=1\n", 4, 5, "GPU 2 is described nowhere"},
    {TIMED "gpu 0/0 utilization_ratio=1\n", 4, 5, "no MIG device 0"},
    {TIMED "gpu 0 warp_factor=9\n", 4, 7, "no metric of a GPU"},
    {TIMED "gpu 0 utilization_ratio\n", 4, 7, "needs a value"},
    {TIMED "gpu 0 power_watts=10GiB\n", 4, 19, "base unit: watts"},
    {TIMED "gpu 0 power_watts=much\n", 4, 19, "no number"},
    {TIMED "gpu 0 power_watts=nan\n", 4, 19, "no number"},
    {TIMED "gpu 0 power_watts=!nope\n", 4, 19, "names no status"},
    {TIMED "gpu 0 power_watts=5!denied\n", 4, 20, "only !stale"},
    {TIMED "gpu 0 power_watts=1..2\n", 4, 19, "duration"},
    {TIMED "gpu 0 power_watts=1..x/2s\n", 4, 22, "no number"},
    {TIMED "gpu 0 power_watts=1..2/0s\n", 4, 24, "longer than 0s"},
    {TIMED "rank\n", 4, 5, "a process id"},
    {TIMED "rank 0\n", 4, 6, "begins at 1"},
    {TIMED "rank 7 shoe_size=3\n", 4, 8, "no key or metric of a rank"},
    {TIMED "rank 7 phase=lunch\n", 4, 14, "is no phase"},
    {TIMED "rank 7 phase=3\n", 4, 14, "is no phase"},
    {TIMED "rank 7 step\n", 4, 8, "needs a value"},
    {TIMED "unrank 7 x\n", 4, 10, "may follow"},
    {TIMED "gpu 0 processes=3\n", 4, 17, "takes a status"},
    {TIMED "node cpu=3\n", 4, 6, "no metric of the node"},
    {TIMED "proc 0\n", 4, 6, "begins at 1"},
    {TIMED "proc x\n", 4, 6, "no whole number"},
    {TIMED "proc 5 role=boss\n", 4, 13, "no role"},
    {TIMED "proc 5 alive=1\n", 4, 14, "yes or no"},
    {TIMED "proc 5 height=1\n", 4, 8, "no key or metric of a process"},
    {TIMED "row 5 type=C\n", 4, 7, "gpu=N"},
    {TIMED "row 5 gpu=0-1\n", 4, 11, "one GPU"},
    {TIMED "row 5 gpu=0 type=X\n", 4, 18, "no type"},
    {TIMED "row 5 gpu=0 weight=3\n", 4, 13, "no key of a row"},
    {TIMED "lost 0 now\n", 4, 8, "nothing may follow"},
    {TIMED "back 0-1 index=1\n", 4, 10, "one GPU only"},
    {TIMED "xid 0\n", 4, 6, "Xid code"},
    {TIMED "sample 0 1s=0.5\n", 4, 10, "samples=recorded"},
    {"alula scenario 1\ngpu 0 samples=recorded\n@1s\nsample 0 1s=1 500ms=1\n", 4, 15, "must rise"},
    {TIMED "fault nvmlInit_v2 BROKEN\n", 4, 19, "no NVML result"},
    {TIMED "fault nvmlInit_v2 TIMEOUT often=yes\n", 4, 27, "no key here"},
    {TIMED "hang nvmlInit_v2 5\n", 4, 18, "no time"},
    {TIMED "gpu 0 utilization_ratio=1\x01\n", 4, 26, "quotes"},
};

static void test_places(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const struct wrong *w = &wrongs[i];
        struct al_scenario *s = (void *)1;
        struct al_scenario_error e;
        int got = al_scenario_parse(w->text, strlen(w->text), &s, &e);
        if (got != AL_E_FORMAT || s || e.line != w->line || e.column != w->column || !strstr(e.message, w->says))
            fail_msg("case %zu: got %d, %d:%d \"%s\" for \"%s\"", i, got, e.line, e.column, e.message, w->text);
    }
}

static void test_sizes(void **state) {
    (void)state;
    struct al_scenario *s;
    struct al_scenario_error e;
    assert_int_equal(al_scenario_parse("", (64u << 20) + 1, &s, &e), AL_E_TOOBIG);
    static char text[3000] = TIMED "proc 5 command=";
    memset(text + strlen(text), 'x', 1500);
    assert_int_equal(al_scenario_parse(text, strlen(text), &s, &e), AL_E_FORMAT);
    assert_int_equal(e.line, 4);
    assert_non_null(strstr(e.message, "longer than 1023 bytes"));
}

int errors_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
