// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/end.h"
#include "launch/output_dir.h"
#include "suites.h"

static void test_how_a_process_ended(void **unused) {
    (void)unused;
    int status = -1, fd;
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    fd = al_end_fd(child);
    assert_true(al_end_descends(child, getpid()));
    assert_false(al_end_descends(getpid(), child));
    assert_false(al_end_status(fd, child, &status)); // it lives
    assert_int_equal(kill(child, SIGKILL), 0);
    if (fd >= 0) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 5000), 1);
    } else {
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    }
    assert_true(al_end_status(fd, child, &status)); // a zombie still tells
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (fd >= 0)
        (void)close(fd);
}

static void test_cpus(void **unused) {
    (void)unused;
    double cpus = al_end_cpus();
    assert_true(cpus > 0 && cpus <= (double)sysconf(_SC_NPROCESSORS_CONF));
}

static void test_output_dir_of_a_command(void **unused) {
    (void)unused;
    char *const swift[] = {(char *)"swift", (char *)"sft", (char *)"--output_dir", (char *)"output", (char *)"--x", NULL};
    char *const equal[] = {(char *)"python", (char *)"--output-dir=a b", NULL};
    char *const last[] = {(char *)"x", (char *)"--save", (char *)"one", (char *)"--save=two", NULL};
    char *const none[] = {(char *)"x", (char *)"--output_directory", (char *)"y", (char *)"--output_dir", (char *)"--x",
                          (char *)"--save_steps", (char *)"5", (char *)"--output_dir", NULL};
    assert_string_equal(al_output_dir(swift), "output");
    assert_string_equal(al_output_dir(equal), "a b");
    assert_string_equal(al_output_dir(last), "two");
    assert_null(al_output_dir(none));
}

int end_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_how_a_process_ended),
                                       cmocka_unit_test(test_cpus), cmocka_unit_test(test_output_dir_of_a_command)};
    return cmocka_run_group_tests_name("end", tests, NULL, NULL);
}
