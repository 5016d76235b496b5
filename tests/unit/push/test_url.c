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

#include "base/err.h"
#include "push/http.h"
#include "suites.h"

static void a_site_holds_no_secret(void **state) {
    static const struct {
        const char *url, *site; // NULL: no URL
    } cases[] = {
        {"http://host:4318", "http://host:4318"},
        {"https://host/", "https://host"},
        {"https://user:pass@host:1/path?query#part", "https://host:1"},
        {"https://user:p@ss@host/path@x", "https://host"},
        {"https://host?token=x", "https://host"},
        {"http://[::1]:4318/x", "http://[::1]:4318"},
        {"http://a\x1b[2Jb/", "http://a?[2Jb"},
        {"https://", NULL},
        {"https://user@/", NULL},
        {"ftp://host", NULL},
        {"host:4318", NULL},
        {"", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char site[64];
        assert_int_equal(al_http_site(cases[i].url, site, sizeof site), cases[i].site != NULL);
        if (cases[i].site)
            assert_string_equal(site, cases[i].site);
    }
}

static void a_path_is_added_where_there_is_none(void **state) {
    static const struct {
        const char *url, *result;
    } cases[] = {
        {"http://host:4318", "http://host:4318/v1/metrics"},
        {"http://host:4318/", "http://host:4318/v1/metrics"},
        {"https://u:p@host", "https://u:p@host/v1/metrics"},
        {"http://host/own", "http://host/own"},
        {"http://host/own/", "http://host/own/"},
        {"http://host?x=1", "http://host?x=1"},
    };
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(al_http_default_path(cases[i].url, "/v1/metrics", out, sizeof out));
        assert_string_equal(out, cases[i].result);
    }
    assert_false(al_http_default_path("gopher://host", "/x", out, sizeof out));
    assert_false(al_http_default_path("http://", "/x", out, sizeof out));
    assert_false(al_http_default_path("http://host", "/v1/metrics", out, 20)); // too long
    assert_true(al_http_default_path("http://host/", "", out, sizeof out));
    assert_string_equal(out, "http://host");
}

static void files_of_secrets_are_for_few(void **state) {
    char path[] = "/tmp/alula-secret-XXXXXX", error[256], *text;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0 && write(fd, "line\n", 5) == 5);
    close(fd);
    assert_int_equal(al_http_secret_file(path, &text, error, sizeof error), 0);
    assert_string_equal(text, "line\n");
    free(text);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(al_http_secret_file(path, &text, error, sizeof error), 0);
    free(text);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(al_http_secret_file(path, &text, error, sizeof error), AL_E_CONFIG);
    assert_non_null(strstr(error, "other users can read it"));
    assert_null(text);
    unlink(path);
    assert_int_equal(al_http_secret_file(path, &text, error, sizeof error), AL_E_CONFIG);
    assert_non_null(strstr(error, "no such file"));
}

int al_test_url(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_site_holds_no_secret),
        cmocka_unit_test(a_path_is_added_where_there_is_none),
        cmocka_unit_test(files_of_secrets_are_for_few),
    };
    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
