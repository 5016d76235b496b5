// SPDX-License-Identifier: Apache-2.0
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

#include "base/clock.h"
#include "base/err.h"
#include "serve/auth.h"
#include "suites.h"

static char path[64];
static char error[256];

static void put(const char *text) {
    (void)snprintf(path, sizeof path, "/tmp/alula-auth-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static int load(const char *text, bool users, struct al_auth **ret) {
    put(text);
    int result = al_auth_load(users ? NULL : path, users ? path : NULL, ret, error, sizeof error);
    unlink(path);
    return result;
}

static void tokens_open(void **state) {
    (void)state;
    struct al_auth *a;
    // sha256 of "another-long-token-0"
    assert_int_equal(load("# who may\n\n0123456789abcdef\r\n"
                          "sha256:234c1d0ed38a0e75f4dd40ea20d6d64acd72cf89d57b88720a4697112a3e3cb5\n", false, &a), 0);
    assert_true(al_auth_any(a));
    assert_int_equal(al_auth_check(a, NULL, 0), AL_AUTH_ABSENT);
    assert_int_equal(al_auth_check(a, "Bearer 0123456789abcdef", 0), AL_AUTH_RIGHT);
    assert_int_equal(al_auth_check(a, "Bearer another-long-token-0", 0), AL_AUTH_RIGHT);
    assert_int_equal(al_auth_check(a, "Bearer 0123456789abcdeF", 0), AL_AUTH_WRONG);
    assert_int_equal(al_auth_check(a, "Bearer 0123456789abcde", 0), AL_AUTH_WRONG);
    assert_int_equal(al_auth_check(a, "Bearer ", 0), AL_AUTH_WRONG);
    assert_int_equal(al_auth_check(a, "", 0), AL_AUTH_WRONG);
    assert_int_equal(al_auth_check(a, "Basic OjAxMjM0NTY3ODlhYmNkZWY=", 0), AL_AUTH_WRONG); // ":0123456789abcdef"
    a = al_auth_free(a);
    assert_int_equal(load("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n", false, &a), 0);
    assert_int_equal(al_auth_check(a, "Bearer abc", 0), AL_AUTH_RIGHT);
    assert_int_equal(al_auth_check(a, "Bearer abd", 0), AL_AUTH_WRONG);
    al_auth_free(a);
}

static void passwords_open(void **state) {
    (void)state;
    struct al_auth *a;
    assert_int_equal(load("Aladdin:open sesame\nu:sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n",
                          true, &a), 0);
    assert_int_equal(al_auth_check(a, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", 0), AL_AUTH_RIGHT);
    assert_int_equal(al_auth_check(a, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZX==", 0), AL_AUTH_WRONG);
    assert_int_equal(al_auth_check(a, "Basic dTphYmM=", 0), AL_AUTH_RIGHT);        // u:abc
    assert_int_equal(al_auth_check(a, "Basic QWxhZGRpbjphYmM=", 0), AL_AUTH_WRONG); // Aladdin with u's password
    assert_int_equal(al_auth_check(a, "Bearer open sesame", 0), AL_AUTH_WRONG);     // a password is no token
    al_auth_free(a);
}

static void crypt_hashes_open_and_are_not_computed_without_end(void **state) {
    (void)state;
    struct al_auth *a;
    int64_t now = 1000 * AL_NS_PER_S;
    // openssl passwd -6 -salt alulasalt abc
    const char *hash = "u:$6$alulasalt$Kl9ZIU9S0zlitTX2oqFkS32B5cp51DOfDAppTLU85kIbtiE"
                       "M1r8AZhyiaaoDoUcWOFiRqHbnInAw3IGitLQ9Y.\n";
    assert_int_equal(load(hash, true, &a), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(al_auth_check(a, "Basic dTp3cm9uZw==", now), AL_AUTH_WRONG); // u:wrong
    assert_int_equal(al_auth_check(a, "Basic dTp3cm9uZw==", now), AL_AUTH_LATER);
    assert_int_equal(al_auth_check(a, "Basic dTphYmM=", now), AL_AUTH_LATER); // the right one waits too, the first time
    now += AL_NS_PER_S / 2;
    assert_int_equal(al_auth_check(a, "Basic dTphYmM=", now), AL_AUTH_RIGHT);
    for (int i = 0; i < 4; i++)
        (void)al_auth_check(a, "Basic dTp3cm9uZw==", now);
    assert_int_equal(al_auth_check(a, "Basic dTp3cm9uZw==", now), AL_AUTH_LATER);
    assert_int_equal(al_auth_check(a, "Basic dTphYmM=", now), AL_AUTH_RIGHT); // known by now: not computed again
    al_auth_free(a);
}

static void wrong_files_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool users;
        const char *message;
    } table[] = {
        {"", false, "holds no entry"},
        {"# nothing\n", true, "holds no entry"},
        {"short\n", false, ":1: expected a token of 16"},
        {"# x\n\nsha256:12\n", false, ":3: expected a token"},
        {"nobody\n", true, ":1: expected name:password"},
        {":secret\n", true, ":1: expected name"},
        {"u:\n", true, ":1: expected name"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct al_auth *a = NULL;
        assert_int_equal(load(table[i].text, table[i].users, &a), AL_E_CONFIG);
        assert_null(a);
        if (!strstr(error, table[i].message) || !strstr(error, path))
            fail_msg("%s: %s", table[i].text, error);
    }
}

static void a_file_that_others_can_read_is_refused(void **state) {
    (void)state;
    struct al_auth *a;
    put("0123456789abcdef\n");
    chmod(path, 0644);
    assert_int_equal(al_auth_load(path, NULL, &a, error, sizeof error), AL_E_CONFIG);
    assert_non_null(strstr(error, "other users can read it"));
    chmod(path, 0640);
    assert_int_equal(al_auth_load(path, NULL, &a, error, sizeof error), 0);
    al_auth_free(a);
    unlink(path);
    assert_int_equal(al_auth_load(path, NULL, &a, error, sizeof error), AL_E_CONFIG);
    assert_non_null(strstr(error, path));
}

static void without_files_nobody_is_known(void **state) {
    (void)state;
    struct al_auth *a;
    assert_int_equal(al_auth_load(NULL, "", &a, error, sizeof error), 0);
    assert_false(al_auth_any(a));
    assert_int_equal(al_auth_check(a, "Bearer 0123456789abcdef", 0), AL_AUTH_ABSENT);
    al_auth_free(a);
    assert_false(al_auth_any(NULL));
}

int al_test_auth(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_open),
        cmocka_unit_test(passwords_open),
        cmocka_unit_test(crypt_hashes_open_and_are_not_computed_without_end),
        cmocka_unit_test(wrong_files_are_named),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
        cmocka_unit_test(without_files_nobody_is_known),
    };
    return cmocka_run_group_tests_name("auth", tests, NULL, NULL);
}
