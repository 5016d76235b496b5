// SPDX-License-Identifier: Apache-2.0
// The socket of alula ask: whole requests of friends, and nothing else.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/ask.h"
#include "model/event.h"
#include "suites.h"

#define S 1000000000LL

static char dir[64];

static void begin(struct al_ask *a) {
    (void)snprintf(dir, sizeof dir, "/tmp/alula-run-XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(al_ask_open(a, dir), 0);
}

static void end(struct al_ask *a) {
    al_ask_close(a);
    assert_int_equal(rmdir(dir), 0); // nothing is left in it
}

static int dial(const struct al_ask *a, const char *text) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", a->path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static void test_request_and_reply(void **unused) {
    (void)unused;
    struct al_ask a;
    struct al_ask_request q;
    char text[64] = "";
    begin(&a);
    int fd = dial(&a, "alula ask 1 4242 empty-");
    assert_int_equal(al_ask_take(&a, S, &q), AL_E_AGAIN);
    assert_int_equal(send(fd, "cache\n", 6, 0), 6);
    assert_int_equal(al_ask_take(&a, S, &q), 0);
    assert_true(q.pid == 4242 && q.bits == AL_REQUEST_EMPTY_CACHE);
    assert_int_equal(al_ask_take(&a, S, &q), AL_E_AGAIN);
    assert_true(al_ask_reply(&a, q.client, "taken 1\n", 8));
    al_ask_done(&a, q.client);
    assert_int_equal(recv(fd, text, sizeof text, 0), 8);
    assert_string_equal(text, "taken 1\n");
    assert_int_equal(recv(fd, text, sizeof text, 0), 0);
    (void)close(fd);
    assert_false(al_ask_reply(&a, q.client, "x", 1)); // it is gone
    end(&a);
}

static void test_what_is_no_request_is_dropped(void **unused) {
    (void)unused;
    struct al_ask a;
    struct al_ask_request q;
    static const char *const texts[] = {
        "\n", "alula ask 2 1 empty-cache\n", "alula ask 1 -1 empty-cache\n", "alula ask 1 1\n", "alula ask 1 1 \n",
        "alula ask 1 1 rm\n", "alula ask 1 99999999999 empty-cache\n",
        "alula ask 1 1 empty-cacheeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"};
    begin(&a);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int fd = dial(&a, texts[i]);
        char byte;
        assert_int_equal(al_ask_take(&a, S, &q), AL_E_AGAIN);
        assert_true(recv(fd, &byte, 1, 0) <= 0); // closed, or reset with what it had not read
        (void)close(fd);
    }
    end(&a);
}

static void test_silent_clients_make_room(void **unused) {
    (void)unused;
    struct al_ask a;
    struct al_ask_request q;
    int fds[AL_ASK_CLIENTS];
    begin(&a);
    for (int i = 0; i < AL_ASK_CLIENTS; i++)
        fds[i] = dial(&a, "");
    assert_int_equal(al_ask_take(&a, S, &q), AL_E_AGAIN);
    int late = dial(&a, "alula ask 1 0 memory-summary\n");
    assert_int_equal(al_ask_take(&a, 2 * S, &q), AL_E_AGAIN);
    assert_int_equal(al_ask_take(&a, 8 * S, &q), AL_E_AGAIN); // the silent ones are dropped
    assert_int_equal(al_ask_take(&a, 8 * S, &q), 0);
    assert_true(q.pid == 0 && q.bits == AL_REQUEST_MEMORY_SUMMARY);
    for (int i = 0; i < AL_ASK_CLIENTS; i++)
        (void)close(fds[i]);
    (void)close(late);
    end(&a);
}

static void test_words(void **unused) {
    (void)unused;
    assert_int_equal(al_ask_from_word("empty-cache"), AL_REQUEST_EMPTY_CACHE);
    assert_string_equal(al_ask_word(AL_REQUEST_MEMORY_SUMMARY), "memory-summary");
    assert_int_equal(al_ask_from_word("x"), 0);
    assert_string_equal(al_ask_word(64), "");
}

int ask_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_request_and_reply), cmocka_unit_test(test_what_is_no_request_is_dropped),
                                       cmocka_unit_test(test_silent_clients_make_room), cmocka_unit_test(test_words)};
    return cmocka_run_group_tests_name("ask", tests, NULL, NULL);
}
