// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect/steps_part.h"
#include "world.h"

static void check(const char *facts, int64_t nodes, const char *expected) {
    char advice[sizeof((struct al_finding *)0)->advice];
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    al_tally_event(t, 1, AL_EVENT_HELLO, 1, -1, 0, 16);
    al_tally_event(t, 2, AL_EVENT_COMMUNICATOR, 5, 22809, 7, 16 | nodes << 24);
    al_tally_text(t, AL_TEXT_TRANSPORT, facts, strlen(facts));
    const struct al_steps_rank rank = {.tally = t};
    const struct al_steps_view view = {.ranks = &rank, .count = 1};
    al_steps_transport_advice(&view, advice, sizeof advice);
    if (!strstr(advice, expected))
        fail_msg("%s: %s", facts, advice);
    assert_true(strlen(advice) < sizeof advice - 1); // not cut
    // never the other way round
    assert_null(strstr(advice, "NCCL_IB_DISABLE=1"));
    free(t);
}

static void test_advice_by_transport(void **unused) {
    (void)unused;
    check("verbs_open=8 verbs_devices=8", 2, "by InfiniBand or RoCE (8 verbs devices open in the process): leave that on");
    check("verbs_open=0 verbs_devices=8", 2, "although InfiniBand devices are here");
    check("verbs_open=0 verbs_devices=8 NCCL_IB_DISABLE=1", 2, "(NCCL_IB_DISABLE is set): have NCCL use them");
    check("verbs_open=0 verbs_devices=0", 2, "NCCL_SOCKET_IFNAME");
    check("verbs_open=8 verbs_devices=8", 1, "one node: NVLink");
    check("", 2, "do not switch InfiniBand off where it works");
}

static void test_nobody(void **unused) {
    (void)unused;
    char advice[320];
    const struct al_steps_view none = {0};
    al_steps_transport_advice(&none, advice, sizeof advice);
    assert_non_null(strstr(advice, "NCCL_DEBUG=INFO"));
}

int steps_transport_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advice_by_transport),
        cmocka_unit_test(test_nobody),
    };
    return cmocka_run_group_tests_name("steps_transport", tests, NULL, NULL);
}
