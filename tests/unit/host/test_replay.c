// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

#include "base/err.h"

struct source {
    struct al_source source;
    int calls;
    int64_t after_ns, at_ns;
};

static int at(struct al_source *source, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    struct source *s = (struct source *)source;
    s->calls++;
    s->after_ns = after_ns;
    s->at_ns = at_ns;
    if (at_ns > 10 * S)
        return AL_E_END;
    strcpy(ret->node.hostname, "node1");
    strcpy(ret->node.driver_version, "580.1");
    ret->node.m[AL_NODE_CPU] = al_value_ok(0.5, at_ns);
    struct al_proc *p = al_snapshot_add_proc(ret);
    p->pid = 7;
    p->role = AL_ROLE_RANK;
    strcpy(p->command, "python t.py");
    p->m[AL_PROC_RSS] = al_value_ok(1e9, at_ns - S);
    struct al_rank *r = al_snapshot_add_rank(ret);
    r->pid = 7;
    r->m[AL_RANK_STEP] = al_value_ok(12, at_ns - S);
    p->m[AL_PROC_PSS] = al_value_none(AL_STATUS_DENIED);
    return 0;
}

static void halves(void **state) {
    (void)state;
    static const struct al_source_ops ops = {.name = "test", .at = at};
    struct source source = {.source = {.ops = &ops}};
    struct al_host *h;
    struct al_snapshot *s = al_snapshot_new();
    assert_int_equal(al_replay_host(&source.source, false, 100 * S, &h), 0);
    strcpy(s->node.driver_version, "575.9");
    assert_int_equal(h->ops->node(h, s, 103 * S), 0);
    assert_int_equal(h->ops->processes(h, s, AL_GROUP_HOST, 103 * S), 0);
    assert_int_equal(source.calls, 1);
    assert_true(source.at_ns == 3 * S);
    assert_string_equal(s->node.hostname, "node1");
    assert_string_equal(s->node.driver_version, "575.9"); // the device half's
    assert_number(s->node.m[AL_NODE_CPU], 0.5);
    assert_true(s->node.m[AL_NODE_CPU].at_ns == 103 * S);
    assert_status(s->node.m[AL_NODE_LOAD1], AL_STATUS_UNREAD);
    assert_int_equal(s->node.m[AL_NODE_LOAD1].at_ns, 0);
    assert_int_equal(s->proc_count, 1);
    assert_true(s->procs[0].m[AL_PROC_RSS].at_ns == 102 * S);
    assert_status(s->procs[0].m[AL_PROC_PSS], AL_STATUS_DENIED);
    assert_string_equal(s->procs[0].command, "python t.py");
    assert_int_equal(h->ops->processes(h, s, AL_GROUP_HOST, 105 * S), 0);
    assert_int_equal(s->proc_count, 1);
    assert_true(source.after_ns == 3 * S);
    assert_int_equal(h->ops->node(h, s, 111 * S), AL_E_END);
    al_host_free(h);

    assert_int_equal(al_replay_host(&source.source, true, 0, &h), 0);
    assert_int_equal(h->ops->processes(h, s, AL_GROUP_HOST, 0), 0);
    assert_string_equal(s->procs[0].command, "");
    al_host_free(h);
    al_snapshot_free(s);
}

static void ranks(void **state) {
    (void)state;
    static const struct al_source_ops ops = {.name = "test", .at = at};
    struct source source = {.source = {.ops = &ops}};
    struct al_ranks *r;
    struct al_snapshot *s = al_snapshot_new();
    assert_int_equal(al_replay_ranks(&source.source, 100 * S, &r), 0);
    assert_int_equal(r->ops->fill(r, s, 103 * S), 0);
    assert_int_equal(s->rank_count, 1);
    assert_int_equal(s->ranks[0].pid, 7);
    assert_number(s->ranks[0].m[AL_RANK_STEP], 12);
    assert_true(s->ranks[0].m[AL_RANK_STEP].at_ns == 102 * S);
    assert_int_equal(s->ranks[0].m[AL_RANK_EPOCH].at_ns, 0);
    assert_int_equal(s->proc_count, 0);
    assert_int_equal(r->ops->fill(r, s, 111 * S), AL_E_END);
    r->ops->free(r);
    al_snapshot_free(s);
}

int replay_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves), cmocka_unit_test(ranks)};
    return cmocka_run_group_tests_name("host replay", tests, NULL, NULL);
}
