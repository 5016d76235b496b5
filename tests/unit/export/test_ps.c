// SPDX-License-Identifier: Apache-2.0
// alula ps: order, columns, widths, and that nothing unknown becomes a number.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "export/ps.h"
#include "suites.h"

static struct al_proc *add(struct al_snapshot *s, pid_t pid, pid_t ppid, uint32_t role, const char *command) {
    struct al_proc *p = al_snapshot_add_proc(s);
    assert_non_null(p);
    p->pid = pid;
    p->ppid = ppid;
    p->uid = 1000;
    p->alive = true;
    p->state = 'S';
    p->role = role;
    p->job = 100;
    p->start_ticks = 7;
    p->rank = p->local_rank = p->world_size = p->node_rank = -1;
    p->started_realtime_ns = 1700000000 * AL_NS_PER_S;
    p->m[AL_PROC_CPU] = al_value_ok(1.015, 1);
    p->m[AL_PROC_RSS_ANON] = al_value_ok(12.3 * 1073741824.0, 1);
    (void)snprintf(p->user, sizeof p->user, "alice");
    (void)snprintf(p->command, sizeof p->command, "%s", command);
    return p;
}

static void add_rank(struct al_snapshot *s, pid_t pid, uint64_t start, int32_t number) {
    struct al_rank *r = al_snapshot_add_rank(s);
    assert_non_null(r);
    *r = (struct al_rank){.pid = pid, .start_ticks = start, .job = 100, .rank = number, .world = 2, .local_rank = -1};
    r->m[AL_RANK_TRAINING] = al_value_ok(1, 1);
    r->m[AL_RANK_STEP] = al_value_ok(1200, 1);
    r->m[AL_RANK_STEP_RATE] = al_value_ok(2.406, 1);
    r->m[AL_RANK_SHARE_DATA] = al_value_ok(0.153, 1);
    r->m[AL_RANK_PHASE] = al_value_ok(AL_IN_BACKWARD, 1970 * AL_NS_PER_S);
}

// A launcher, two ranks on a GPU each, a worker of the first.
static struct al_snapshot *job(void) {
    struct al_snapshot *s = al_snapshot_new();
    assert_non_null(s);
    for (int i = 0; i < 2; i++) {
        struct al_gpu *g = al_snapshot_add_gpu(s);
        g->info.index = (uint32_t)i;
        g->info.parent = -1;
        struct al_proc_gpu *row = al_snapshot_add_row(s);
        *row = (struct al_proc_gpu){.pid = 200 + i, .gpu = (uint32_t)i, .type = AL_PROC_COMPUTE};
        row->memory_bytes = i ? al_value_none(AL_STATUS_DENIED) : al_value_ok(70.0 * 1073741824.0, 1);
    }
    add(s, 100, 1, AL_ROLE_LAUNCHER, "torchrun --nproc_per_node 2 train.py");
    for (int i = 0; i < 2; i++) {
        struct al_proc *p = add(s, 200 + i, 100, AL_ROLE_RANK, "python train.py");
        p->rank = p->local_rank = i;
        p->world_size = 2;
    }
    struct al_proc *worker = add(s, 150, 200, AL_ROLE_WORKER, "python train.py");
    worker->rank = 0;
    worker->owner = 200;
    worker->m[AL_PROC_CPU] = al_value_none(AL_STATUS_UNREAD);
    add_rank(s, 200, 7, 0);
    s->monotonic_ns = 2000 * AL_NS_PER_S;
    s->realtime_ns = 1700007200 * AL_NS_PER_S;
    al_snapshot_sort(s);
    return s;
}

static char *table(const struct al_snapshot *s, const struct al_ps_options *o, uint32_t *ret_count) {
    struct al_buf b = AL_BUF_INIT;
    assert_int_equal(al_ps_table(&b, s, o, ret_count), 0);
    return b.data ? b.data : strdup("");
}

static void trees(void **state) {
    (void)state;
    struct al_snapshot *s = job();
    uint32_t count;
    char *text = table(s, &(struct al_ps_options){.ascii = true}, &count);
    assert_int_equal(count, 4);
    assert_string_equal(
        text, "PID  USER   ROLE      RANK  GPU   GPU MEM   CPU%  RSS ANON    AGE  STEP  STEP/S    DATA  PHASE          COMMAND\n"
              "100  alice  launcher     -  -           -  101.5  12.3 GiB  2.0 h     -       -       -  -              "
              "torchrun --nproc_per_node 2 train.py\n"
              "200  alice  rank       0/2  0    70.0 GiB  101.5  12.3 GiB  2.0 h  1200    2.41  15.3 %  backward 30 s  "
              "|-python train.py\n"
              "150  alice  worker       -  -           -      -  12.3 GiB  2.0 h     -       -       -  -              "
              "| `-python train.py\n"
              "201  alice  rank       1/2  1           -  101.5  12.3 GiB  2.0 h     -       -       -  -              "
              "`-python train.py\n");
    free(text);
    al_snapshot_free(s);
}

// Every line fits, whatever the width; what matters most is the last to go.
static void widths(void **state) {
    (void)state;
    struct al_snapshot *s = job();
    for (unsigned width = 20; width < 200; width++) {
        char *text = table(s, &(struct al_ps_options){.width = width, .ascii = true}, NULL);
        for (char *line = text; *line; line += strcspn(line, "\n") + 1) {
            size_t len = strcspn(line, "\n");
            assert_true(len <= width);
            assert_true(len == 0 || line[len - 1] != ' ');
        }
        assert_non_null(strstr(text, "200"));
        if (width >= 40)
            assert_non_null(strstr(text, "COMMAND"));
        free(text);
    }
    al_snapshot_free(s);
}

static void users_and_colours(void **state) {
    (void)state;
    struct al_snapshot *s = job();
    uint32_t count;
    free(table(s, &(struct al_ps_options){.user = "alice"}, &count));
    assert_int_equal(count, 4);
    free(table(s, &(struct al_ps_options){.user = "1000"}, &count));
    assert_int_equal(count, 4);
    char *text = table(s, &(struct al_ps_options){.user = "bob"}, &count);
    assert_int_equal(count, 0);
    assert_string_equal(text, "");
    free(text);
    text = table(s, &(struct al_ps_options){.color = true}, NULL);
    assert_non_null(strstr(text, "\033[36mrank"));
    free(text);
    text = table(s, &(struct al_ps_options){.color = false}, NULL);
    assert_null(strchr(text, '\033'));
    free(text);
    al_snapshot_free(s);
}

// Old figures, a pid that another process has now, parents in a ring, a name that would steer the screen.
static void odd_ones(void **state) {
    (void)state;
    struct al_snapshot *s = job();
    s->ranks[0].m[AL_RANK_STEP].status = AL_STATUS_STALE;
    al_snapshot_proc(s, 100)->ppid = 201;
    (void)snprintf(al_snapshot_proc(s, 201)->command, AL_CMD_MAX, "\033[2Jx\ny");
    add_rank(s, 201, 99, 1);
    al_snapshot_sort(s);
    uint32_t count;
    char *text = table(s, &(struct al_ps_options){.ascii = true}, &count);
    assert_int_equal(count, 4);
    assert_non_null(strstr(text, "1200~"));
    assert_null(strchr(text, '\033'));
    char *again = strstr(text, "1200~");
    assert_null(strstr(again + 1, "1200")); // rank 1's figures are of another process
    free(text);
    al_snapshot_free(s);
}

static void json(void **state) {
    (void)state;
    struct al_snapshot *s = job();
    struct al_buf b = AL_BUF_INIT;
    const struct al_ps_run run = {.job = 100, .alula = 99, .command = "torchrun", .output = "/out", .record = ""};
    const struct al_ps_options o = {.runs = &run, .run_count = 1, .device_missing = ""};
    assert_int_equal(al_ps_json(&b, s, &o, NULL), 0);
    assert_non_null(strstr(b.data, "\"pid\": 200, \"ppid\": 100, \"job\": 100, \"role\": \"rank\", \"rank\": 0, \"local_rank\": 0, "
                                   "\"world_size\": 2, \"owner\": null"));
    assert_non_null(strstr(b.data, "\"step\": 1200, \"epoch\": null, \"phase\": \"backward\", \"training\": true"));
    assert_non_null(strstr(b.data, "\"gpus\": [{\"index\": 1, \"uuid\": null, \"memory_bytes\": null, \"sm_ratio\": null}]"));
    assert_non_null(strstr(b.data, "\"training\": null"));
    assert_non_null(strstr(b.data, "\"runs\": [{\"pid\": 99, \"command_pid\": 100, \"command\": \"torchrun\", "
                                   "\"output_dir\": \"/out\", \"recording\": null, \"started\": null}]"));
    al_buf_free(&b);
    al_snapshot_free(s);
}

int al_test_ps(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees), cmocka_unit_test(widths), cmocka_unit_test(users_and_colours), cmocka_unit_test(odd_ones),
        cmocka_unit_test(json),
    };
    return cmocka_run_group_tests_name("ps", tests, NULL, NULL);
}
