// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "launch/board.h"
#include "launch/link.h"
#include "model/metric.h"
#include "suites.h"

static struct al_rank a_rank(pid_t pid, int32_t number) {
    struct al_rank r = {.pid = pid, .start_ticks = 77, .job = 5, .rank = number, .local_rank = number, .world = 2, .device = 0,
                        .source = "torch.optim hook"};
    r.m[AL_RANK_STEP] = al_value_ok(120, 5 * AL_NS_PER_S);
    r.m[AL_RANK_STEP_RATE] = al_value_ok(0.1 + 0.2, 5 * AL_NS_PER_S);
    r.m[AL_RANK_ALLOCATED] = al_value_none(AL_STATUS_UNSUPPORTED);
    r.m[AL_RANK_SHARE_DATA] = (struct al_value){0.25, 3, AL_STATUS_STALE};
    return r;
}

static void text_and_back(void **state) {
    (void)state;
    struct al_board_head head = {.pid = 4, .start_ticks = 9, .pid_ns = 4026531836, .job = 5, .began_realtime_ns = 11,
                                 .written_ns = 12, .command = "swift sft\nx", .output = "/out put", .record = ""};
    struct al_rank ranks[2] = {a_rank(100, 0), a_rank(101, 1)};
    struct al_buf b = AL_BUF_INIT;
    struct al_board board = {0};
    al_board_format(&b, &head, ranks, 2);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(al_board_parse(b.data, b.len, &board), 0);
        assert_int_equal(board.head.pid, 4);
        assert_int_equal(board.head.start_ticks, 9);
        assert_int_equal(board.head.pid_ns, 4026531836);
        assert_int_equal(board.head.job, 5);
        assert_int_equal(board.head.began_realtime_ns, 11);
        assert_int_equal(board.head.written_ns, 12);
        assert_string_equal(board.head.command, "swift sft?x"); // one line, whatever it held
        assert_string_equal(board.head.output, "/out put");
        assert_string_equal(board.head.record, "");
        assert_int_equal(board.rank_count, 2);
        const struct al_rank *r = &board.ranks[1];
        assert_int_equal(r->pid, 101);
        assert_int_equal(r->start_ticks, 77);
        assert_int_equal(r->job, 5);
        assert_int_equal(r->rank, 1);
        assert_int_equal(r->local_rank, 1);
        assert_int_equal(r->world, 2);
        assert_int_equal(r->device, 0);
        assert_string_equal(r->source, "torch.optim hook");
        assert_memory_equal(r->m, ranks[1].m, sizeof r->m);
    }
    al_board_clear(&board);
    al_buf_free(&b);
}

static int parse(const char *text, struct al_board *board) {
    return al_board_parse(text, strlen(text), board);
}

static void untrusted_text(void **state) {
    (void)state;
    struct al_board board = {0};
    assert_int_equal(parse("", &board), AL_E_FORMAT);
    assert_int_equal(parse("alula board 2\npid 3\n", &board), AL_E_UNSUPPORTED);
    assert_int_equal(parse("alula board 1\n", &board), AL_E_FORMAT); // whose?
    assert_int_equal(parse("something else\npid 3\n", &board), AL_E_FORMAT);
    assert_int_equal(parse("alula board 1\npid 3\nwritten_ns -5\n\nrank\nrank pid=0\nrank pid=-4 step=1@1\nrank pid=99999999999\n"
                           "rank pid=7 rank=-9 world=x step=nan@1 epoch=1e300@2 phase=3 training=1@-1 step_seconds=!stale "
                           "data_ratio=!ok lost_records=!unsupported unknown=5@5 nothing source=a\x1b[31m b\n",
                           &board),
                     0);
    assert_int_equal(board.head.written_ns, 0);
    assert_int_equal(board.rank_count, 1);
    const struct al_rank *r = &board.ranks[0];
    assert_int_equal(r->pid, 7);
    assert_int_equal(r->rank, -1);
    assert_int_equal(r->world, -1);
    assert_int_equal(r->m[AL_RANK_STEP].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_EPOCH].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_PHASE].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_TRAINING].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_STEP_SECONDS].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_SHARE_DATA].status, AL_STATUS_ERROR);
    assert_int_equal(r->m[AL_RANK_LOST].status, AL_STATUS_UNSUPPORTED);
    assert_int_equal(r->m[AL_RANK_SAMPLE_RATE].status, AL_STATUS_UNREAD);
    assert_string_equal(r->source, ""); // an item without a value ends the line
    al_board_clear(&board);
}

// ---- files ----

struct seen {
    unsigned boards;
    struct al_board_head head;
    uint32_t ranks;
};

static pid_t wanted;

static void note(void *user, const struct al_board *board) {
    struct seen *seen = user;
    if (board->head.pid != wanted)
        return;
    seen->boards++;
    seen->head = board->head;
    seen->ranks = board->rank_count;
}

static struct seen look(void) {
    struct seen seen = {0};
    al_boards_each(note, &seen);
    return seen;
}

static struct seen wait_for(unsigned boards, uint32_t ranks) {
    struct seen seen = {0};
    for (int i = 0; i < 300; i++) {
        seen = look();
        if (seen.boards == boards && seen.ranks == ranks)
            break;
        (void)usleep(20000);
    }
    return seen;
}

static void running(void **state) {
    (void)state;
    char place[] = "/tmp/test-board-XXXXXX";
    assert_non_null(mkdtemp(place));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", place, 1), 0);
    struct al_link l;
    assert_int_equal(al_link_open(&l), 0);
    wanted = getpid();
    struct al_board_head head = {.pid = getpid(), .job = 5, .command = "x"};
    struct al_board_writer *w = NULL;
    assert_int_equal(al_board_writer_new(l.dir_fd, &head, &w), 0);
    assert_int_equal(wait_for(1, 0).boards, 1);
    struct al_rank rank = a_rank(getpid(), 0);
    al_board_writer_put(w, &rank, 1);
    al_board_writer_output(w, "/out");
    struct seen seen = wait_for(1, 1);
    assert_int_equal(seen.ranks, 1);
    assert_string_equal(seen.head.output, "/out");
    assert_true(al_monotonic_ns() - seen.head.written_ns < 5 * AL_NS_PER_S);

    struct al_ranks *ranks;
    struct al_snapshot *s = al_snapshot_new();
    assert_int_equal(al_boards_open(&ranks), 0);
    assert_int_equal(ranks->ops->fill(ranks, s, seen.head.written_ns), 0);
    const struct al_rank *mine = NULL;
    for (uint32_t i = 0; i < s->rank_count; i++)
        mine = s->ranks[i].pid == getpid() ? &s->ranks[i] : mine;
    assert_non_null(mine);
    assert_int_equal(mine->m[AL_RANK_STEP].status, AL_STATUS_OK);
    al_snapshot_clear(s);
    assert_int_equal(ranks->ops->fill(ranks, s, seen.head.written_ns + 60 * AL_NS_PER_S), 0);
    for (uint32_t i = 0; i < s->rank_count; i++)
        if (s->ranks[i].pid == getpid())
            assert_int_equal(s->ranks[i].m[AL_RANK_STEP].status, AL_STATUS_STALE); // nobody keeps it up
    ranks->ops->free(ranks);
    al_snapshot_free(s);

    // What others may enter, and what nobody holds, is not looked at.
    assert_int_equal(chmod(l.dir, 0755), 0);
    assert_int_equal(look().boards, 0);
    assert_int_equal(chmod(l.dir, 0700), 0);
    assert_int_equal(look().boards, 1);
    assert_int_equal(flock(l.dir_fd, LOCK_UN), 0);
    assert_int_equal(look().boards, 0);
    assert_int_equal(flock(l.dir_fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(look().boards, 1);
    w = al_board_writer_free(w);
    assert_int_equal(look().boards, 0);
    char dir[sizeof l.dir];
    memcpy(dir, l.dir, sizeof dir);
    al_link_close(&l);
    assert_int_not_equal(access(dir, F_OK), 0); // nothing is left
    assert_int_equal(rmdir(place), 0);
}

static void traps(void **state) {
    (void)state;
    char place[] = "/tmp/test-board-XXXXXX", path[200];
    assert_non_null(mkdtemp(place));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", place, 1), 0);
    wanted = 4;
    struct al_link l;
    assert_int_equal(al_link_open(&l), 0);
    (void)snprintf(path, sizeof path, "%s/%s", l.dir, AL_BOARD_NAME);
    assert_int_equal(mkfifo(path, 0600), 0); // neither waited for nor read
    assert_int_equal(look().boards, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_int_equal(look().boards, 0);
    assert_int_equal(unlink(path), 0);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    static const char fine[] = "alula board 1\npid 4\n";
    assert_int_equal(write(fd, fine, sizeof fine - 1), sizeof fine - 1);
    assert_int_equal(look().boards, 1);
    assert_int_equal(ftruncate(fd, (off_t)AL_BOARD_BYTES + 1), 0);
    assert_int_equal(look().boards, 0);
    assert_int_equal(ftruncate(fd, 5), 0);
    assert_int_equal(look().boards, 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    al_link_close(&l);
    assert_int_equal(rmdir(place), 0);
}

int board_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_back),
        cmocka_unit_test(untrusted_text),
        cmocka_unit_test(running),
        cmocka_unit_test(traps),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
