// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "serve/notify.h"
#include "suites.h"

static int bound(struct sockaddr_un *a, size_t len) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
    return fd;
}

static void heard(int fd, const char *expected) {
    char text[64];
    ssize_t len = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    assert_true(len >= 0);
    text[len] = '\0';
    assert_string_equal(text, expected);
}

static void a_manager_hears_of_it(void **state) {
    (void)state;
    char folder[] = "/tmp/alula-notify-XXXXXX";
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s/s", folder);
    int fd = bound(&a, strlen(a.sun_path) + 1);
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    assert_int_equal(al_notify("READY=1"), 0);
    heard(fd, "READY=1");
    close(fd);
    assert_int_equal(al_notify("READY=1"), AL_E_IO); // nobody there any more
    unlink(a.sun_path);
    rmdir(folder);
    memset(a.sun_path, 0, sizeof a.sun_path);
    int len = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "alula-test-%d", (int)getpid());
    fd = bound(&a, (size_t)len + 1); // the abstract namespace
    a.sun_path[0] = '@';
    setenv("NOTIFY_SOCKET", a.sun_path, 1);
    assert_int_equal(al_notify("WATCHDOG=1"), 0);
    heard(fd, "WATCHDOG=1");
    close(fd);
}

static void nobody_listens(void **state) {
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(al_notify("READY=1"), 0);
    setenv("NOTIFY_SOCKET", "", 1);
    assert_int_equal(al_notify("READY=1"), 0);
    setenv("NOTIFY_SOCKET", "relative", 1);
    assert_int_equal(al_notify("READY=1"), AL_E_IO);
    char text[300];
    memset(text, '/', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    setenv("NOTIFY_SOCKET", text, 1);
    assert_int_equal(al_notify("READY=1"), AL_E_IO);
    unsetenv("NOTIFY_SOCKET");
}

static void the_watchdog_is_fed_twice_as_often(void **state) {
    (void)state;
    char pid[16];
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    assert_int_equal(al_notify_watchdog_ns(), 0);
    setenv("WATCHDOG_USEC", "30000000", 1);
    assert_int_equal(al_notify_watchdog_ns(), 15000000000);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(al_notify_watchdog_ns(), 15000000000);
    setenv("WATCHDOG_PID", "1", 1); // another process is meant
    assert_int_equal(al_notify_watchdog_ns(), 0);
    unsetenv("WATCHDOG_PID");
    static const char *const wrong[] = {"", "0", "-1", "x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("WATCHDOG_USEC", wrong[i], 1);
        assert_int_equal(al_notify_watchdog_ns(), 0);
    }
    unsetenv("WATCHDOG_USEC");
}

int al_test_notify(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manager_hears_of_it),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(the_watchdog_is_fed_twice_as_often),
    };
    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
