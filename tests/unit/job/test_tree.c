// SPDX-License-Identifier: Apache-2.0
// Who was in a job's tree, and how its ranks communicate, as the summary and the report say it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "job/book.h"
#include "job/communication.h"
#include "suites.h"

static struct al_book *made(void) {
    struct al_settings set;
    struct al_book *book = calloc(1, sizeof *book);
    al_settings_default(&set);
    assert_int_equal(al_book_init(book, &set), 0);
    book->job.pid = 100;
    return book;
}

static void done(struct al_book *book) {
    al_book_free(book);
    free(book);
}

static void process(struct al_snapshot *s, pid_t pid, pid_t ppid, uint32_t role, const char *command) {
    struct al_proc *p = al_snapshot_add_proc(s);
    p->pid = pid;
    p->ppid = ppid;
    p->role = role;
    p->alive = true;
    p->state = 'S';
    (void)al_str_copy(p->command, sizeof p->command, command);
}

static void check_line(const struct al_book *book, void (*say)(const struct al_book *, struct al_buf *), const char *expected) {
    struct al_buf b = AL_BUF_INIT;
    say(book, &b);
    al_buf_char(&b, '\0');
    assert_string_equal(b.data, expected);
    al_buf_free(&b);
}

static void test_kinds(void **unused) {
    (void)unused;
    struct al_book *book = made();
    struct al_snapshot *s = al_snapshot_new();
    s->monotonic_ns = 10 * AL_NS_PER_S;
    check_line(book, al_book_say_tree, "");
    process(s, 100, 1, AL_ROLE_UNKNOWN, "swift sft");
    process(s, 101, 100, AL_ROLE_UNKNOWN, "python sft.py"); // a rank that still loads its model
    process(s, 900, 1, AL_ROLE_RANK, "somebody else's");
    al_book_tree(book, s);
    assert_int_equal(book->tree.most[AL_BOOK_KIND_OTHER], 2);
    s->monotonic_ns += AL_NS_PER_S; // too soon for another look
    s->procs[0].role = AL_ROLE_LAUNCHER;
    al_book_tree(book, s);
    assert_int_equal(book->tree.most[AL_BOOK_KIND_LAUNCHER], 0);
    s->monotonic_ns += 10 * AL_NS_PER_S;
    s->procs[1].role = AL_ROLE_RANK;
    process(s, 910, 101, AL_ROLE_WORKER, "python -c from multiprocessing.forkserver import main");
    process(s, 911, 101, AL_ROLE_OTHER, "python -c from multiprocessing.forkserver import main");
    process(s, 912, 101, AL_ROLE_OTHER, "python -c from multiprocessing.resource_tracker import main");
    process(s, 913, 911, AL_ROLE_WORKER, "python -c from multiprocessing.forkserver import main");
    process(s, 914, 101, AL_ROLE_ENGINE, "VLLM::EngineCore");
    process(s, 915, 101, AL_ROLE_WORKER, "gone");
    s->procs[s->proc_count - 1].state = 'Z';
    al_book_tree(book, s);
    check_line(book, al_book_say_tree,
               "alula: processes, most at once: 1 launcher, 1 rank, 2 workers, 1 engine, 1 fork server, 1 resource tracker\n");
    struct al_buf b = AL_BUF_INIT;
    al_book_put_tree(&b, book);
    al_buf_char(&b, '\0');
    assert_string_equal(b.data, "{\"launcher\":1,\"rank\":1,\"worker\":2,\"engine\":1,\"notebook\":0,\"fork_server\":1,"
                                "\"resource_tracker\":1,\"other\":0}");
    al_buf_free(&b);
    (void)al_snapshot_free(s);
    done(book);
}

static void test_one_process(void **unused) {
    (void)unused;
    struct al_book *book = made();
    struct al_snapshot *s = al_snapshot_new();
    s->monotonic_ns = AL_NS_PER_S;
    process(s, 100, 1, AL_ROLE_RANK, "python train.py");
    al_book_tree(book, s);
    check_line(book, al_book_say_tree, "");
    check_line(book, al_book_say_communication, "");
    (void)al_snapshot_free(s);
    done(book);
}

static void test_communication_by_the_rank_that_tells(void **unused) {
    (void)unused;
    struct al_book *book = made();
    struct al_tally *silent = &al_book_add(book, 101, 1)->tally, *tells = &al_book_add(book, 102, 1)->tally;
    al_tally_event(silent, 1, AL_EVENT_HELLO, 1, -1, 0, 16);
    al_tally_event(silent, 2, AL_EVENT_STEP, AL_STEP_DONE, -1, 1, 1);
    al_tally_event(tells, 1, AL_EVENT_HELLO, 1, -1, 1, 16);
    check_line(book, al_book_say_communication,
               "alula: communication: transport unknown (NCCL was not seen: another backend, or one older than 2.23 without "
               "Python; confidence low)\n");
    al_tally_event(tells, 2, AL_EVENT_COMMUNICATOR, 5, 22809, 7, 16 | 2LL << 24 | 1LL << 40);
    al_tally_event(tells, 3, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_ALL_GATHER, -1, 4, 4096);
    al_tally_event(tells, 3, AL_EVENT_COLLECTIVE, AL_COLLECTIVE_ALL_REDUCE, -1, 2, 1048576);
    al_tally_text(tells, AL_TEXT_TRANSPORT, "verbs_open=0 verbs_devices=4", 28);
    check_line(book, al_book_say_communication,
               "alula: communication: NCCL 2.28.9, transport sockets (InfiniBand devices present but not open) (no verbs device "
               "is open in the process; confidence medium); rank 1 called AllReduce 2 times (1.0 MiB), AllGather 4 times "
               "(4.0 KiB)\n");
    done(book);
}

int test_tree(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_communication_by_the_rank_that_tells),
    };
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
