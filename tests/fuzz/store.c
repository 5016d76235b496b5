// SPDX-License-Identifier: Apache-2.0
// Inputs that begin with an m are a row of marks, those with an r the runs of a profile's thread, other odd ones a chunk's bytes; even ones are patches (offset, length, bytes) on a small sound recording, which is then
// read from end to end. Whatever comes out, nothing is read or written where it must not be.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "store/db.h"
#include "store/marks.h"
#include "store/profiles.h"
#include "store/runs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char path[64];
static char *whole;
static size_t whole_len;
static struct al_layouts layouts;

static void check(bool right)
{
    if (!right)
        abort();
}

static void give_frame(void *user, uint32_t i, struct al_store_frame *ret)
{
    (void)user;
    *ret = (struct al_store_frame){"f", "/w/f.py", "", (int32_t)i, 1, 0};
}

static void give_stack(void *user, uint32_t i, struct al_store_stack *ret)
{
    (void)user;
    *ret = (struct al_store_stack){i ? i - 1 : AL_STORE_NO_STACK, i, i};
}

static int give_track(void *user, uint32_t i, struct al_store_track *ret, struct al_store_run **ret_free)
{
    static const struct al_store_run some[] = {{2, 0, 3, 0}, {1, 5, 1, 1}};
    (void)user, (void)i;
    *ret = (struct al_store_track){"p", "t", 7, 7, -1, some, 2};
    *ret_free = NULL;
    return 0;
}

static void add_profile(void)
{
    const struct al_store_profile p = {.rate = 100, .seconds = 1, .name = "n", .command = "c", .version = "v"};
    const struct al_store_profile_parts parts = {3, 3, 1, give_frame, give_stack, give_track, NULL};
    struct al_store_error e = {{0}};
    int64_t id;
    check(al_store_add_profile(path, &p, &parts, &id, &e) == 0);
}

static void made_tick(struct al_snapshot *s, int i)
{
    al_snapshot_clear(s);
    s->monotonic_ns = 1000000000000 + i * 500000000LL;
    s->realtime_ns = 1795953600000000000 + i * 500000000LL;
    s->interval_ns = 500000000;
    struct al_gpu *g = al_snapshot_add_gpu(s);
    struct al_proc *p = al_snapshot_add_proc(s);
    struct al_proc_gpu *r = al_snapshot_add_row(s);
    check(g && p && r);
    (void)al_str_copy(g->info.uuid, sizeof g->info.uuid, "GPU-1");
    g->info.status = g->process_status = AL_STATUS_OK;
    for (int m = 0; m < 20; m++)
        g->m[m] = al_value_ok(m * 100 + i * 7 % 13, s->monotonic_ns);
    g->m[2].status = AL_STATUS_STALE;
    g->fresh_count = 1;
    g->fresh[0] = (struct al_fresh){s->monotonic_ns - 1000, 0.5};
    p->pid = r->pid = 4300;
    p->alive = true;
    p->m[0] = al_value_ok(1 + i % 3, s->monotonic_ns);
    struct al_rank *rank = al_snapshot_add_rank(s);
    check(rank);
    rank->pid = 4300;
    rank->m[AL_RANK_STEP] = al_value_ok(i / 3, s->monotonic_ns);
    struct al_look *look = al_snapshot_add_look(s);
    check(look);
    look->pid = 4300;
    look->line.line = i / 4;
    look->m[AL_LOOK_SAMPLES] = al_value_ok(30, s->monotonic_ns);
    r->memory_bytes = al_value_ok(1e9 + i, s->monotonic_ns);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    (void)snprintf(path, sizeof path, "/tmp/alula-fuzz-%d.alula", (int)getpid());
    const struct al_store_options o = {.path = path, .force = true, .block_ns = 5000000000, .plain_ns = 1000000000,
                                       .full_ns = 20000000000, .coarse_ns = 40000000000};
    struct al_sink *sink = NULL;
    struct al_store_error e = {{0}};
    struct al_snapshot *s = al_snapshot_new();
    check(s && al_store_writer(&o, &sink, &e) == 0);
    for (int i = 0; i < 160; i++) {
        made_tick(s, i);
        const struct al_store_process who = {.pid = 4300};
        const struct al_mark mark = {s->monotonic_ns, AL_EVENT_STEP, 0, -1, i, 8};
        check(al_store_marks(sink, &who, &mark, 1) == 0 && al_store_mark_text(sink, &who, s->monotonic_ns, 0, "t", 1) == 0);
        struct al_finding f = {.rule = "memory", .key = "memory/GPU-1", .title = "t", .evidence_count = 1};
        check(sink->ops->tick(sink, s) == 0 && (i % 40 || sink->ops->finding(sink, s, &f) == 0));
    }
    check(al_store_close(sink, &e) == 0);
    add_profile();
    check(al_fs_slurp(path, 16U << 20, &whole, &whole_len) == 0);
    al_snapshot_free(s);
    static const uint16_t codes[2][4] = {{1, 17, 2, 1}, {1, 4, 2, 33}};
    check(al_layouts_add(&layouts, 1, AL_STORE_GPU, codes[0], 4) == 0);
    check(al_layouts_add(&layouts, 2, AL_STORE_GPU, codes[1], 4) == 0);
    return 0;
}

static void chunk(const uint8_t *data, size_t size)
{
    struct al_part *p = NULL, *again = NULL;
    struct al_buf b = AL_BUF_INIT;
    if (al_chunk_decode(data, size, &layouts, &p) != 0)
        return;
    // What was read can be written, and reads back to the same.
    check(al_chunk_encode(p, &layouts, &b) == 0);
    check(al_chunk_decode((const uint8_t *)b.data, b.len, &layouts, &again) == 0);
    check(again->rows == p->rows && memcmp(again->t, p->t, p->rows * sizeof *p->t) == 0);
    check(memcmp(again->num, p->num, (size_t)p->rows * p->metrics * sizeof *p->num) == 0);
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t m = 0; m < p->metrics; m++)
            (void)al_part_value(p, r, al_layouts_find(&layouts, p->layout[r]), m);
    al_part_free(p);
    al_part_free(again);
    al_buf_free(&b);
}

static void marks(const uint8_t *data, size_t size)
{
    struct al_marks m = {0}, again = {0};
    struct al_buf b = AL_BUF_INIT;
    if (al_marks_decode(data, size, &m) != 0)
        return;
    check(al_marks_encode(&m, m.count, 0, &b) == 0);
    check(al_marks_decode((const uint8_t *)b.data, b.len, &again) == 0);
    check(again.count == m.count && again.text.len == m.text.len);
    check(!m.text.len || memcmp(again.text.data, m.text.data, m.text.len) == 0);
    for (uint32_t i = 0; i < m.count; i++)
        check(memcmp(&again.list[i], &m.list[i], sizeof m.list[i]) == 0);
    al_marks_done(&m);
    al_marks_done(&again);
    al_buf_free(&b);
}

static void runs(const uint8_t *data, size_t size)
{
    struct al_store_run *list = NULL, *again = NULL;
    struct al_buf b = AL_BUF_INIT;
    uint32_t count = 0, stacks = size ? data[0] * 256U + 1 : 1;
    if (!size || al_runs_decode(data + 1, size - 1, stacks, &list, &count) != 0)
        return;
    check(al_runs_encode(list, count, &b) == 0);
    check(al_runs_decode((const uint8_t *)b.data, b.len, stacks, &again, &count) == 0);
    for (uint32_t i = 0; i < count; i++)
        check(list[i].stack < stacks && list[i].count && list[i].stack == again[i].stack && list[i].tick == again[i].tick &&
              list[i].count == again[i].count && list[i].state == again[i].state);
    free(list);
    free(again);
    al_buf_free(&b);
}

static int on_mark(void *user, const struct al_store_process *who, const struct al_mark *mark, const char *text, size_t len)
{
    (void)user, (void)who;
    return mark->kind != AL_EVENT_TEXT || (text && text[len] == '\0') ? 0 : -1;
}

static int on_finding(void *user, int64_t at_ns, const struct al_finding *f)
{
    (void)user, (void)at_ns;
    return f->evidence_count <= AL_EVIDENCE_MAX ? 0 : -1;
}

static int on_entity(void *user, int64_t first_ns, const void *what)
{
    (void)user, (void)first_ns;
    return what ? 0 : -1;
}

struct told {
    uint32_t frames, stacks;
};

static int on_frame(void *user, const struct al_store_frame *f)
{
    ((struct told *)user)->frames++;
    return strlen(f->name) + strlen(f->file) + strlen(f->object) < 1U << 20 ? 0 : -1;
}

static int on_stack(void *user, const struct al_store_stack *s)
{
    struct told *t = user;
    check(s->frame < t->frames && (s->parent == AL_STORE_NO_STACK || s->parent < t->stacks));
    t->stacks++;
    return 0;
}

static int on_track(void *user, const struct al_store_track *t)
{
    for (uint32_t i = 0; i < t->run_count; i++)
        check(t->runs[i].stack < ((struct told *)user)->stacks && t->runs[i].count);
    return 0;
}

static int on_profile(void *user, const struct al_store_profile *p)
{
    struct told t = {0};
    struct al_store_error e = {{0}};
    const struct al_store_profile_reader r = {on_frame, on_stack, on_track, &t};
    check(p->rate > 0 && strlen(p->name) < 1U << 20);
    (void)al_store_read_profile(user, p->id, &r, &e);
    return 0;
}

static void read_all(void)
{
    struct al_store *s = NULL;
    struct al_store_error e;
    struct al_store_info info;
    struct al_snapshot *snapshot = al_snapshot_new();
    int64_t t = -1, before;
    if (snapshot && al_store_open(path, &s, &e) == 0) {
        al_store_info(s, &info);
        for (int ticks = 0; ticks < 1000 && (before = t, al_store_next(s, t, &t)) == 0; ticks++) {
            al_snapshot_clear(snapshot);
            (void)al_store_at(s, before, t, snapshot);
            for (uint32_t i = 0; i < snapshot->row_count; i++)
                check(snapshot->rows[i].gpu < snapshot->gpu_count);
        }
        (void)al_store_findings(s, -1, INT64_MAX, on_finding, NULL);
        (void)al_store_gpus(s, on_entity, NULL);
        (void)al_store_processes(s, on_entity, NULL);
        (void)al_store_ranks(s, on_entity, NULL);
        (void)al_store_read_marks(s, on_mark, NULL);
        (void)al_store_profiles(s, on_profile, s);
    }
    al_store_free(s);
    al_snapshot_free(snapshot);
}

static void patched(const uint8_t *data, size_t size)
{
    char *copy = malloc(whole_len);
    check(copy != NULL);
    memcpy(copy, whole, whole_len);
    while (size >= 4) {
        size_t offset = ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % whole_len, len = data[3] % 32 + 1U;
        data += 4;
        size -= 4;
        for (size_t i = 0; i < len && i < size && offset + i < whole_len; i++)
            copy[offset + i] = (char)data[i];
        size_t used = len < size ? len : size;
        data += used;
        size -= used;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && write(fd, copy, whole_len) == (ssize_t)whole_len)
        read_all();
    if (fd >= 0)
        (void)close(fd);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == 'm')
        marks(data + 1, size - 1);
    else if (size && data[0] == 'r')
        runs(data + 1, size - 1);
    else if (size && data[0] & 1)
        chunk(data + 1, size - 1);
    else if (size)
        patched(data + 1, size - 1);
    return 0;
}
