// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "suites.h"
#include "tally/tally.h"

static struct al_tally *fresh(int64_t world) {
    struct al_tally *t = malloc(sizeof *t);
    al_tally_init(t);
    al_tally_event(t, 1, AL_EVENT_HELLO, 1, -1, 0, world);
    return t;
}

static void communicator(struct al_tally *t, int64_t id, int64_t ranks, int64_t nodes, int64_t rank) {
    al_tally_event(t, 2, AL_EVENT_COMMUNICATOR, 5, 22809, id, ranks | nodes << 24 | rank << 40);
}

static void text(struct al_tally *t, enum al_text code, const char *words) {
    al_tally_text(t, (uint16_t)code, words, strlen(words));
}

static void test_communicators(void **unused) {
    (void)unused;
    struct al_tally *t = fresh(16);
    char version[24];
    assert_false(al_tally_nccl_version(t, version, sizeof version));
    text(t, AL_TEXT_FRAMEWORK, "torch=2.11.0 nccl=2.27.5");
    assert_true(al_tally_nccl_version(t, version, sizeof version));
    assert_string_equal(version, "2.27.5");
    text(t, AL_TEXT_COMMUNICATOR, "00000000000004d2 default_pg"); // before its record
    communicator(t, 1234, 16, 2, 9);
    communicator(t, -1, 8, 1, 7);
    text(t, AL_TEXT_COMMUNICATOR, "ffffffffffffffff tp");
    text(t, AL_TEXT_COMMUNICATOR, "nonsense");
    text(t, AL_TEXT_COMMUNICATOR, "");
    assert_int_equal(t->nccl.communicators, 2);
    assert_int_equal(t->nccl.kept, 2);
    assert_int_equal(t->nccl.communicator[0].ranks, 16);
    assert_int_equal(t->nccl.communicator[0].nodes, 2);
    assert_int_equal(t->nccl.communicator[0].rank, 9);
    assert_string_equal(t->nccl.communicator[0].name, "default_pg");
    assert_string_equal(t->nccl.communicator[1].name, "tp");
    assert_true(al_tally_nccl_version(t, version, sizeof version));
    assert_string_equal(version, "2.28.9"); // NCCL's own word counts
    for (int i = 0; i < 100; i++)
        communicator(t, 5000 + i, 2, 1, 5); // no rank 5 of 2
    assert_int_equal(t->nccl.communicators, 102);
    assert_int_equal(t->nccl.kept, AL_TALLY_COMMUNICATORS);
    assert_int_equal(t->nccl.communicator[2].ranks, -1);
    free(t);
}

static void test_collectives(void **unused) {
    (void)unused;
    struct al_tally *t = fresh(2);
    al_tally_event(t, 3, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_ALL_REDUCE, -1, 10, 4000);
    al_tally_event(t, 4, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_ALL_REDUCE, -1, 20, 8000);
    al_tally_event(t, 5, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_COUNT, -1, 1, 1);
    al_tally_event(t, 6, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_SEND, -1, -1, 1);
    assert_int_equal(t->nccl.calls[AL_COLLECTIVE_ALL_REDUCE], 20);
    assert_int_equal(t->nccl.bytes[AL_COLLECTIVE_ALL_REDUCE], 8000);
    assert_int_equal(t->nccl.calls[AL_COLLECTIVE_SEND], 0);
    assert_string_equal(al_collective_word(AL_COLLECTIVE_ALL_REDUCE), "AllReduce");
    assert_string_equal(al_collective_word(77), "other");
    free(t);
}

static void check(int64_t world, int64_t nodes, const char *facts, int nvlinks, enum al_transport kind, bool missed,
                  enum al_confidence confidence, const char *words) {
    struct al_tally *t = fresh(world);
    struct al_tally_transport r;
    if (nodes)
        communicator(t, 7, world, nodes, 0);
    text(t, AL_TEXT_TRANSPORT, facts);
    al_tally_transport(t, nvlinks, &r);
    if (r.kind != kind || r.missed != missed || r.confidence != confidence || strcmp(r.words, words) != 0)
        fail_msg("%s: %d %d %d %s (%s)", facts, r.kind, r.missed, r.confidence, r.words, r.why);
    assert_true(r.why[0]);
    free(t);
}

static void test_transport_on_one_node(void **unused) {
    (void)unused;
    check(1, 0, "", -1, AL_TRANSPORT_NONE, false, AL_CONFIDENCE_HIGH, "none");
    // InfiniBand that is open proves nothing as long as all ranks are on one node
    check(8, 1, "verbs_open=4 verbs_devices=4", 18, AL_TRANSPORT_ONE_NODE, false, AL_CONFIDENCE_MEDIUM,
          "one node: NVLink (peer to peer) or shared memory");
    check(2, 0, "local_world=2", 0, AL_TRANSPORT_ONE_NODE, false, AL_CONFIDENCE_MEDIUM,
          "one node: PCIe (peer to peer) or shared memory");
    check(2, 0, "local_world=2", -1, AL_TRANSPORT_ONE_NODE, false, AL_CONFIDENCE_MEDIUM,
          "one node: NVLink or PCIe (peer to peer), or shared memory");
    check(2, 1, "NCCL_P2P_DISABLE=1", 18, AL_TRANSPORT_ONE_NODE, false, AL_CONFIDENCE_MEDIUM, "one node: shared memory");
    check(2, 1, "NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1", 18, AL_TRANSPORT_UNKNOWN, false, AL_CONFIDENCE_LOW,
          "one node, by the network");
    check(2, 0, "verbs_open=1 verbs_devices=1", 18, AL_TRANSPORT_UNKNOWN, false, AL_CONFIDENCE_LOW, "unknown");
}

static void test_transport_between_nodes(void **unused) {
    (void)unused;
    check(16, 2, "verbs_open=8 verbs_devices=8", 18, AL_TRANSPORT_INFINIBAND, false, AL_CONFIDENCE_HIGH, "InfiniBand or RoCE");
    check(16, 0, "verbs_open=8 verbs_devices=8 local_world=8", 18, AL_TRANSPORT_INFINIBAND, false, AL_CONFIDENCE_HIGH,
          "InfiniBand or RoCE");
    check(16, 2, "verbs_open=0 verbs_devices=8", 18, AL_TRANSPORT_SOCKETS, true, AL_CONFIDENCE_MEDIUM,
          "sockets (InfiniBand devices present but not open)");
    check(16, 2, "verbs_open=0 verbs_devices=8 NCCL_IB_DISABLE=1", 18, AL_TRANSPORT_SOCKETS, true, AL_CONFIDENCE_HIGH,
          "sockets (InfiniBand devices present but switched off)");
    check(16, 2, "verbs_open=8 verbs_devices=8 NCCL_IB_DISABLE=0", 18, AL_TRANSPORT_INFINIBAND, false, AL_CONFIDENCE_HIGH,
          "InfiniBand or RoCE");
    check(16, 2, "verbs_open=0 verbs_devices=0 NCCL_NET=Socket", 18, AL_TRANSPORT_SOCKETS, false, AL_CONFIDENCE_HIGH,
          "sockets");
    check(16, 2, "verbs_open=0 verbs_devices=0", 18, AL_TRANSPORT_SOCKETS, false, AL_CONFIDENCE_MEDIUM, "sockets");
    check(16, 2, "verbs_open=2 NCCL_NET=OFI", 18, AL_TRANSPORT_PLUGIN, false, AL_CONFIDENCE_MEDIUM, "network plugin OFI");
    check(16, 2, "verbs_devices=4", 18, AL_TRANSPORT_UNKNOWN, false, AL_CONFIDENCE_LOW, "unknown");
    check(16, 2, "", 18, AL_TRANSPORT_UNKNOWN, false, AL_CONFIDENCE_LOW, "unknown");
}

int nccl_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_transport_on_one_node),
        cmocka_unit_test(test_transport_between_nodes),
    };
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
