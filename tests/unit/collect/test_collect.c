// SPDX-License-Identifier: Apache-2.0
// The loop on a made device: halves are joined, hangs cost freshness alone, driver samples are handed out once.
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "collect/collect.h"
#include "collect/looks.h"
#include "collect/merge.h"

struct fake {
    struct al_device base;
    _Atomic int fast_calls, slow_calls;
    _Atomic int hang_ms; // of the next sample call
    int fail;
};

static int fake_sample(struct al_device *d, struct al_snapshot *s, uint32_t groups, int64_t now) {
    struct fake *f = (struct fake *)d;
    int hang = atomic_exchange(&f->hang_ms, 0);
    if (hang) {
        atomic_store(&d->watch.since_ns, al_monotonic_ns());
        atomic_store(&d->watch.name, "nvmlDeviceGetSlowly");
        usleep((useconds_t)hang * 1000);
        atomic_store(&d->watch.name, NULL);
    }
    if (f->fail)
        return f->fail;
    struct al_gpu *g = al_snapshot_add_gpu(s);
    (void)snprintf(g->info.uuid, sizeof g->info.uuid, "GPU-1");
    g->info.status = AL_STATUS_OK;
    struct al_proc_gpu *r = al_snapshot_add_row(s);
    r->pid = 42;
    if (groups & AL_GROUP_FAST) {
        int n = atomic_fetch_add(&f->fast_calls, 1) + 1;
        g->m[AL_GPU_UTIL] = al_value_ok(n, now);
        g->fresh_count = 1;
        g->fresh[0] = (struct al_fresh){now, n};
    }
    if (groups & AL_GROUP_SLOW) {
        g->m[AL_GPU_ENERGY] = al_value_ok(atomic_fetch_add(&f->slow_calls, 1) + 1, now);
    }
    if (groups & AL_GROUP_PROCUTIL)
        r->sm_ratio = al_value_ok(0.5, now);
    return 0;
}

static int fake_attr(struct al_device *d, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    (void)d;
    ret->status = AL_STATUS_OK;
    ret->num = gpu * 100 + attr;
    return 0;
}

static const struct al_device_ops fake_ops = {.name = "fake", .sample = fake_sample, .attr = fake_attr};

struct spy {
    struct al_sink sink;
    int ticks, stale, hung, fresh;
    double last_util, last_energy;
    int stop_after;
};
static _Atomic int stop;

static int spy_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct spy *spy = (struct spy *)sink;
    spy->ticks++;
    if (s->gpu_count) {
        spy->stale += s->gpus[0].m[AL_GPU_UTIL].status == AL_STATUS_STALE;
        spy->fresh += (int)s->gpus[0].fresh_count;
        spy->last_util = s->gpus[0].m[AL_GPU_UTIL].num;
        spy->last_energy = s->gpus[0].m[AL_GPU_ENERGY].num;
    }
    if (strcmp(s->hung_call, "nvmlDeviceGetSlowly") == 0)
        spy->hung++;
    if (spy->ticks >= spy->stop_after)
        atomic_store(&stop, 1);
    return 0;
}
static const struct al_sink_ops spy_ops = {.name = "spy", .groups = AL_GROUP_FAST | AL_GROUP_SLOW, .tick = spy_tick};

static struct al_collect *start(struct fake *f, struct al_clock *clock, bool inline_device) {
    struct al_collect *c = NULL;
    const struct al_collect_options o = {.device = &f->base,
                                         .clock = clock,
                                         .interval_ns = 100 * AL_NS_PER_MS,
                                         .groups = AL_GROUP_FAST | AL_GROUP_SLOW | AL_GROUP_PROCUTIL,
                                         .inline_device = inline_device};
    f->base.ops = &fake_ops;
    assert_int_equal(al_collect_new(&o, &c), 0);
    atomic_store(&stop, 0);
    return c;
}

static void once_has_both_halves(void **state) {
    (void)state;
    struct fake f = {0};
    struct al_clock clock;
    const struct al_snapshot *s;
    al_clock_real(&clock);
    struct al_collect *c = start(&f, &clock, false);
    assert_int_equal(al_collect_once(c, 1, AL_NS_PER_S, &s), 0);
    assert_int_equal(s->tick, 2);
    assert_true(al_ok(s->gpus[0].m[AL_GPU_UTIL]) && s->gpus[0].m[AL_GPU_UTIL].num == 2);
    assert_true(al_ok(s->gpus[0].m[AL_GPU_ENERGY]) && s->gpus[0].m[AL_GPU_ENERGY].num == 2);
    assert_true(al_ok(s->rows[0].sm_ratio));
    struct al_attr_value v;
    assert_int_equal(al_collect_attr(c, 3, AL_ATTR_UUID, AL_NS_PER_S, &v), 0);
    assert_true(v.num == 300 + AL_ATTR_UUID);
    al_collect_free(c);
}

static void a_failing_device_fails_the_call(void **state) {
    (void)state;
    struct fake f = {.fail = AL_E_LOST};
    struct al_clock clock;
    const struct al_snapshot *s;
    al_clock_real(&clock);
    struct al_collect *c = start(&f, &clock, false);
    assert_int_equal(al_collect_once(c, 0, AL_NS_PER_S, &s), AL_E_LOST);
    al_collect_free(c);
}

static void a_hang_costs_freshness_alone(void **state) {
    (void)state;
    struct fake f = {0};
    struct spy spy = {.sink = {&spy_ops}, .stop_after = 7};
    struct al_clock clock;
    al_clock_real(&clock);
    struct al_collect *c = start(&f, &clock, false);
    const struct al_snapshot *s;
    assert_int_equal(al_collect_once(c, 0, AL_NS_PER_S, &s), 0);
    assert_int_equal(al_collect_add_sink(c, &spy.sink), 0);
    atomic_store(&f.hang_ms, 350);
    int64_t before = al_monotonic_ns();
    assert_int_equal(al_collect_run(c, 0, &stop), 0);
    assert_int_equal(spy.ticks, 7);
    assert_true(spy.hung >= 2);
    assert_true(spy.stale >= 2 && spy.stale < 7); // stale while it hung, fresh again afterwards
    assert_true(al_monotonic_ns() - before < 3 * AL_NS_PER_S);
    struct al_collect_cost cost;
    al_collect_cost(c, &cost);
    assert_true(cost.late >= 2);
    al_collect_free(c);
}

static void stopping_does_not_wait_for_a_hang(void **state) {
    (void)state;
    static struct fake f; // outlives the test: the thread is left to itself
    struct al_clock clock;
    const struct al_snapshot *s;
    al_clock_real(&clock);
    struct al_collect *c = start(&f, &clock, false);
    atomic_store(&f.hang_ms, 2500);
    assert_int_equal(al_collect_once(c, 0, 50 * AL_NS_PER_MS, &s), AL_E_TIMEOUT);
    assert_string_equal(s->hung_call, "nvmlDeviceGetSlowly");
    int64_t before = al_monotonic_ns();
    assert_int_equal(al_collect_stop(c), AL_E_TIMEOUT);
    assert_true(al_monotonic_ns() - before < 2 * AL_NS_PER_S);
    al_collect_free(c);
}

static void virtual_time_ticks_exactly(void **state) {
    (void)state;
    struct fake f = {0};
    struct spy spy = {.sink = {&spy_ops}, .stop_after = 1 << 30};
    struct al_clock clock;
    al_clock_virtual(&clock, AL_NS_PER_S, AL_NS_PER_S, 0);
    struct al_collect *c = start(&f, &clock, true);
    assert_int_equal(al_collect_add_sink(c, &spy.sink), 0);
    assert_int_equal(al_collect_run(c, 60 * AL_NS_PER_S, &stop), 0);
    assert_int_equal(spy.ticks, 601);
    assert_int_equal(spy.fresh, 601); // each driver sample once
    assert_int_equal(spy.stale, 0);
    al_collect_free(c);
}

static void slow_values_join_by_uuid(void **state) {
    (void)state;
    struct al_snapshot *fast = al_snapshot_new(), *slow = al_snapshot_new();
    (void)snprintf(al_snapshot_add_gpu(fast)->info.uuid, AL_UUID_MAX, "GPU-a");
    (void)snprintf(al_snapshot_add_gpu(fast)->info.uuid, AL_UUID_MAX, "GPU-b");
    struct al_gpu *g = al_snapshot_add_gpu(slow);
    (void)snprintf(g->info.uuid, AL_UUID_MAX, "GPU-b");
    g->m[AL_GPU_ENERGY] = al_value_ok(7, 1);
    g->m[AL_GPU_UTIL] = al_value_ok(9, 1); // not of a slow group: must not come over
    slow->groups = AL_GROUP_SLOW;
    al_merge_slow(fast, slow);
    assert_int_equal(fast->gpus[0].m[AL_GPU_ENERGY].status, AL_STATUS_UNREAD);
    assert_true(fast->gpus[1].m[AL_GPU_ENERGY].num == 7);
    assert_int_equal(fast->gpus[1].m[AL_GPU_UTIL].status, AL_STATUS_UNREAD);
    al_merge_mark_stale(fast, AL_GROUP_SLOW);
    assert_int_equal(fast->gpus[1].m[AL_GPU_ENERGY].status, AL_STATUS_STALE);
    al_snapshot_free(fast);
    al_snapshot_free(slow);
}

struct fake_ranks {
    struct al_ranks base;
    int calls;
};

static int fake_fill(struct al_ranks *r, struct al_snapshot *s, int64_t now_ns) {
    struct al_rank *rank = al_snapshot_add_rank(s);
    rank->pid = 42;
    rank->m[AL_RANK_STEP] = al_value_ok(++((struct fake_ranks *)r)->calls, now_ns);
    return 0;
}
static const struct al_ranks_ops fake_ranks_ops = {.name = "fake", .fill = fake_fill};

struct fake_host {
    struct al_host base;
    int processes;
    uint32_t ranks; // that the last reading was shown
};

static int fake_node(struct al_host *h, struct al_snapshot *s, int64_t now_ns) {
    (void)h;
    s->node.m[AL_NODE_CPU] = al_value_ok(0.5, now_ns);
    return 0;
}

static int fake_processes(struct al_host *h, struct al_snapshot *s, uint32_t groups, int64_t now_ns) {
    (void)groups, (void)now_ns;
    struct fake_host *f = (struct fake_host *)h;
    f->processes++;
    f->ranks = s->rank_count;
    s->proc_count = 0;
    al_snapshot_add_proc(s)->pid = 41; // not the rank's: that one has ended already
    return 0;
}
static const struct al_host_ops fake_host_ops = {.name = "fake", .node = fake_node, .processes = fake_processes};

static void ranks_and_host_go_without_a_device(void **state) {
    (void)state;
    struct fake_ranks ranks = {{&fake_ranks_ops}, 0};
    struct fake_host host = {{&fake_host_ops}, 0, 0};
    struct al_clock clock;
    struct al_collect *c = NULL;
    struct spy spy = {.sink = {&spy_ops}, .stop_after = 20};
    struct al_attr_value v;
    al_clock_virtual(&clock, 1000 * AL_NS_PER_S, 0, 0);
    const struct al_collect_options o = {.host = &host.base, .ranks = &ranks.base, .clock = &clock,
                                         .interval_ns = 500 * AL_NS_PER_MS, .groups = AL_GROUP_ALL};
    assert_int_equal(al_collect_new(&o, &c), 0);
    (void)al_collect_add_sink(c, &spy.sink);
    atomic_store(&stop, 0);
    assert_int_equal(al_collect_run(c, 0, &stop), 0);
    const struct al_snapshot *s = al_collect_snapshot(c);
    assert_int_equal(s->gpu_count, 0);
    assert_int_equal(s->rank_count, 1); // filled anew at every tick
    assert_true(s->ranks[0].m[AL_RANK_STEP].num == 20);
    assert_int_equal(host.ranks, 1);      // the host sees them: it follows their trees
    assert_int_equal(host.processes, 5);  // and is not asked more often for one that has no process any more
    assert_true(al_ok(s->node.m[AL_NODE_CPU]));
    assert_int_equal(al_collect_attr(c, 0, AL_ATTR_UUID, AL_NS_PER_S, &v), AL_E_NOENT);
    al_collect_free(c);
}

static void process(struct al_snapshot *s, pid_t pid, enum al_role role, pid_t owner) {
    struct al_proc *p = al_snapshot_add_proc(s);
    p->pid = pid;
    p->role = role;
    p->owner = owner;
    p->alive = true;
    p->rank = role == AL_ROLE_RANK ? (int32_t)(pid % 10) : -1;
}

// The ranks first, then a worker of each in turn, so that a limit takes from all alike.
static void whose_stacks_are_looked_at(void **state) {
    (void)state;
    struct al_snapshot *s = al_snapshot_new();
    struct al_look_target t[16];
    const pid_t pids[] = {100, 101, 999};
    process(s, 100, AL_ROLE_RANK, 0);
    process(s, 101, AL_ROLE_RANK, 0);
    for (pid_t w = 200; w < 203; w++)
        process(s, w, AL_ROLE_WORKER, 100);
    for (pid_t w = 300; w < 303; w++)
        process(s, w, AL_ROLE_WORKER, 101);
    process(s, 400, AL_ROLE_WORKER, 150); // another's
    s->procs[3].alive = false;
    assert_int_equal(al_looks_targets(s, pids, 3, t, 16), 7);
    static const pid_t order[] = {100, 101, 200, 300, 202, 301, 302};
    for (int i = 0; i < 7; i++)
        assert_int_equal(t[i].pid, order[i]);
    assert_int_equal(t[0].owner, 0);
    assert_int_equal(t[3].owner, 101);
    assert_int_equal(t[3].rank, 1);
    assert_int_equal(al_looks_targets(s, pids, 3, t, 4), 4);
    assert_int_equal(t[3].pid, 300);
    assert_int_equal(al_looks_targets(s, pids + 2, 1, t, 4), 0);
    al_snapshot_free(s);
}

// No thread before the first wish; this process, which is no Python, tells nothing and harms nothing.
static void looks_begin_with_the_first_wish(void **state) {
    (void)state;
    const struct al_looks_options o = {.rate = 100, .seconds = 0.05, .every = 5, .processes = 4};
    const struct al_look_target self[] = {{getpid(), 0, 0, -1}, {0x7ffffff0, 0, 0, -1}};
    struct al_snapshot *s = al_snapshot_new();
    struct al_looks *l = NULL;
    assert_int_equal(al_looks_new(&o, &l), 0);
    al_looks_ask(l, NULL, 0);
    assert_false(al_looks_running(l));
    al_looks_ask(l, self, 2);
    assert_true(al_looks_running(l));
    usleep(150000);
    assert_int_equal(al_looks_take(l, s), 0);
    assert_int_equal(s->look_count, 0);
    al_looks_ask(l, NULL, 0);
    al_looks_free(l);
    al_snapshot_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once_has_both_halves),           cmocka_unit_test(a_failing_device_fails_the_call),
        cmocka_unit_test(a_hang_costs_freshness_alone),   cmocka_unit_test(stopping_does_not_wait_for_a_hang),
        cmocka_unit_test(virtual_time_ticks_exactly),     cmocka_unit_test(slow_values_join_by_uuid),
        cmocka_unit_test(ranks_and_host_go_without_a_device), cmocka_unit_test(whose_stacks_are_looked_at),
        cmocka_unit_test(looks_begin_with_the_first_wish),
    };
    return cmocka_run_group_tests_name("collect", tests, NULL, NULL);
}
