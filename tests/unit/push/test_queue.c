// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "push/queue.h"
#include "suites.h"

static char root[64], folder[96];

static int make_root(void **state) {
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/alula-queue-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    (void)snprintf(folder, sizeof folder, "%s/a/b", root);
    return 0;
}

static int remove_root(void **state) {
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static struct al_queue *opened(const char *where, uint64_t max) {
    struct al_queue *q;
    char error[256];
    assert_int_equal(al_queue_new(where, max, &q, error, sizeof error), 0);
    return q;
}

static void add(struct al_queue *q, const char *text, bool keep) {
    assert_int_equal(al_queue_add(q, text, strlen(text), keep), 0);
}

static void head_is(struct al_queue *q, const char *text) {
    const char *body;
    size_t len;
    assert_true(al_queue_head(q, &body, &len));
    assert_int_equal(len, strlen(text));
    assert_memory_equal(body, text, len);
}

static int files(void) {
    DIR *dir = opendir(folder);
    int count = 0;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        count += strstr(e->d_name, ".msg") != NULL;
    closedir(dir);
    return count;
}

static void memory_keeps_the_order(void **state) {
    struct al_queue *q = opened("", 1000);
    const char *body;
    size_t len;
    (void)state;
    assert_false(al_queue_head(q, &body, &len));
    for (int i = 0; i < 40; i++) {
        add(q, i % 2 ? "odd" : "even", true);
        if (i % 4 == 3)
            al_queue_pop(q);
    }
    assert_int_equal(al_queue_count(q), 30);
    head_is(q, "even");
    al_queue_pop(q);
    head_is(q, "odd");
    al_queue_free(q);
}

static void the_oldest_give_way(void **state) {
    struct al_queue *q = opened("", 10);
    (void)state;
    add(q, "aaaa", false);
    add(q, "bbbb", false);
    add(q, "cc", false);
    assert_int_equal(al_queue_dropped(q), 0);
    add(q, "d", false);
    head_is(q, "bbbb");
    assert_int_equal(al_queue_dropped(q), 1);
    assert_int_equal(al_queue_bytes(q), 7);
    assert_int_equal(al_queue_add(q, "more than ten", 13, false), AL_E_TOOBIG);
    assert_int_equal(al_queue_dropped(q), 2);
    assert_int_equal(al_queue_count(q), 3);
    al_queue_free(q);
}

static void a_folder_outlives_the_queue(void **state) {
    struct al_queue *q = opened(folder, 1000);
    struct stat st;
    (void)state;
    assert_true(stat(folder, &st) == 0 && (st.st_mode & 07777) == 0700);
    add(q, "kept at once", true);
    assert_int_equal(files(), 1);
    add(q, "kept later", false);
    assert_int_equal(files(), 1);
    al_queue_keep(q);
    assert_int_equal(files(), 2);
    add(q, "lost", false);
    al_queue_free(q);
    q = opened(folder, 1000);
    assert_int_equal(al_queue_count(q), 2);
    assert_int_equal(al_queue_bytes(q), 22);
    add(q, "new", true); // behind the old ones
    head_is(q, "kept at once");
    al_queue_pop(q);
    head_is(q, "kept later");
    al_queue_pop(q);
    head_is(q, "new");
    al_queue_pop(q);
    assert_int_equal(files(), 0);
    al_queue_free(q);
}

static void one_at_a_time_uses_a_folder(void **state) {
    struct al_queue *q = opened(folder, 1000), *second;
    char error[256];
    (void)state;
    assert_int_equal(al_queue_new(folder, 1000, &second, error, sizeof error), AL_E_AGAIN);
    assert_non_null(strstr(error, "another alula uses it"));
    assert_null(second);
    al_queue_free(q);
    al_queue_free(opened(folder, 1000));
}

static void put_file(const char *name, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void foreign_files_are_left_alone_and_broken_ones_dropped(void **state) {
    char path[256], target[256];
    (void)state;
    al_queue_free(opened(folder, 1000)); // makes it
    put_file("0000000000000002.msg", "two");
    put_file("0000000000000003.msg", ""); // a crash of the machine
    put_file("000000000000000a.msg", "ten");
    put_file("notes.txt", "mine");
    put_file("000000000000000B.msg", "no number of ours");
    (void)snprintf(path, sizeof path, "%s/0000000000000001.msg", folder);
    (void)snprintf(target, sizeof target, "%s/notes.txt", folder);
    assert_int_equal(symlink(target, path), 0);
    struct al_queue *q = opened(folder, 1000);
    assert_int_equal(al_queue_count(q), 3);
    head_is(q, "two");
    al_queue_pop(q);
    head_is(q, "ten");
    assert_int_equal(al_queue_dropped(q), 1);
    al_queue_pop(q);
    assert_int_equal(al_queue_count(q), 0);
    assert_int_equal(access(target, F_OK), 0);
    al_queue_free(q);
}

static void a_message_that_was_cut_or_taken_away_is_passed_over(void **state) {
    char path[256];
    (void)state;
    struct al_queue *q = opened(folder, 1000);
    add(q, "first", true);
    add(q, "second", true);
    add(q, "third", true);
    (void)snprintf(path, sizeof path, "%s/0000000000000001.msg", folder);
    assert_int_equal(unlink(path), 0);
    put_file("0000000000000002.msg", "longer or shorter");
    head_is(q, "third");
    assert_int_equal(al_queue_dropped(q), 2);
    al_queue_free(q);
}

static void a_disk_that_takes_nothing_leaves_it_in_memory(void **state) {
    char path[256];
    (void)state;
    struct al_queue *q = opened(folder, 1000);
    (void)snprintf(path, sizeof path, "%s/new.tmp", folder);
    assert_int_equal(mkdir(path, 0700), 0); // writing fails, also for root
    add(q, "stays", true);
    assert_int_equal(files(), 0);
    head_is(q, "stays");
    assert_int_equal(rmdir(path), 0);
    al_queue_keep(q);
    assert_int_equal(files(), 1);
    head_is(q, "stays");
    al_queue_free(q);
}

static void memory_has_its_own_bound(void **state) {
    size_t len = 1u << 20;
    char *big = calloc(1, len);
    struct al_queue *q = opened("", 1u << 30);
    (void)state;
    assert_non_null(big);
    for (int i = 0; i < 6; i++)
        assert_int_equal(al_queue_add(q, big, len, false), 0);
    assert_int_equal(al_queue_count(q), 4);
    assert_int_equal(al_queue_dropped(q), 2);
    al_queue_free(q);
    q = opened(folder, 1u << 30);
    for (int i = 0; i < 6; i++)
        assert_int_equal(al_queue_add(q, big, len, true), 0);
    assert_int_equal(al_queue_count(q), 6);
    assert_int_equal(al_queue_dropped(q), 0);
    al_queue_free(q);
    free(big);
}

int al_test_queue(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_keeps_the_order),
        cmocka_unit_test(the_oldest_give_way),
        cmocka_unit_test_setup_teardown(a_folder_outlives_the_queue, make_root, remove_root),
        cmocka_unit_test_setup_teardown(one_at_a_time_uses_a_folder, make_root, remove_root),
        cmocka_unit_test_setup_teardown(foreign_files_are_left_alone_and_broken_ones_dropped, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_message_that_was_cut_or_taken_away_is_passed_over, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_disk_that_takes_nothing_leaves_it_in_memory, make_root, remove_root),
        cmocka_unit_test_setup_teardown(memory_has_its_own_bound, make_root, remove_root),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
