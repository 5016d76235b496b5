// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "serve/request.h"
#include "suites.h"

static struct al_query query;

static void targets_are_taken_apart(void **state) {
    (void)state;
    assert_int_equal(al_query_parse("/api/v1/series?metric=power_watts&gpu=0%2C1&x=a+b&empty=&bare", &query), 0);
    assert_string_equal(query.path, "/api/v1/series");
    assert_int_equal(query.count, 5);
    assert_string_equal(al_query_get(&query, "metric"), "power_watts");
    assert_string_equal(al_query_get(&query, "gpu"), "0,1");
    assert_string_equal(al_query_get(&query, "x"), "a b");
    assert_string_equal(al_query_get(&query, "empty"), "");
    assert_string_equal(al_query_get(&query, "bare"), "");
    assert_null(al_query_get(&query, "nothing"));
    assert_int_equal(al_query_parse("/", &query), 0);
    assert_string_equal(query.path, "/");
    assert_int_equal(al_query_parse("/m?&&a=1&#f", &query), 0);
    assert_int_equal(query.count, 1);
    assert_int_equal(al_query_parse("http://gpu1:9810/metrics?a=b", &query), 0);
    assert_string_equal(query.path, "/metrics");
    assert_int_equal(al_query_parse("HTTPS://gpu1:9810", &query), 0);
    assert_string_equal(query.path, "/");
    // No escape is undone in the path: "/%6detrics" is another page, and "/../x" is no climb.
    assert_int_equal(al_query_parse("/%6detrics", &query), 0);
    assert_string_equal(query.path, "/%6detrics");
}

static void broken_targets_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *target;
        int result;
    } table[] = {
        {"", AL_E_FORMAT},         {"metrics", AL_E_FORMAT},   {"*", AL_E_FORMAT},          {"/a?b=%", AL_E_FORMAT},
        {"/a?b=%4", AL_E_FORMAT},  {"/a?b=%zz", AL_E_FORMAT},  {"/a?b=%00c", AL_E_FORMAT},  {"/a?b=%0a", AL_E_FORMAT},
        {"/a?%1b=b", AL_E_FORMAT}, {"/a?b=\x7f", AL_E_FORMAT}, {"/a?b=1&b=2", AL_E_FORMAT}, {"/a?b=%2", AL_E_FORMAT},
        {"/a?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", AL_E_TOOBIG},
        {"/a?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1", AL_E_TOOBIG}, // 32 bytes of name
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (al_query_parse(table[i].target, &query) != table[i].result)
            fail_msg("%s", table[i].target);
    char text[400] = "/a?b=";
    memset(text + 5, 'x', 159);
    assert_int_equal(al_query_parse(text, &query), 0);
    text[164] = 'x';
    assert_int_equal(al_query_parse(text, &query), AL_E_TOOBIG);
    memset(text, '/', 200);
    text[127] = '\0';
    assert_int_equal(al_query_parse(text, &query), 0);
    text[127] = '/';
    assert_int_equal(al_query_parse(text, &query), AL_E_TOOBIG);
}

static void formats_are_negotiated(void **state) {
    (void)state;
    static const struct {
        const char *accept;
        bool openmetrics;
    } table[] = {
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"application/openmetrics-text", true},
        {"application/openmetrics-text; version=1.0.0; charset=utf-8", true},
        {"APPLICATION/OpenMetrics-Text;VERSION=0.0.1", true},
        {"application/openmetrics-text;version=2.0.0", false},
        // Prometheus 2.x and 3.x
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", true},
        {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
         "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2", true},
        {"text/plain;version=0.0.4;q=0.9 , application/openmetrics-text;q=0.5", false},
        {"text/plain;q=0.5,application/openmetrics-text;q=0.5", true},
        {"application/openmetrics-text;q=0", false},
        {"application/openmetrics-text;q=nonsense", false},
        {"application/openmetrics-text;q=-1", false},
        {"application/openmetrics-text;q=0.5,*/*", false},
        {",;,;q=1,,application/openmetrics-text", true},
        {"text/html,application/xhtml+xml,*/*;q=0.8", false},
    };
    assert_false(al_accept_openmetrics(NULL));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (al_accept_openmetrics(table[i].accept) != table[i].openmetrics)
            fail_msg("%s", table[i].accept);
}

static void hosts_are_checked_against_rebinding(void **state) {
    (void)state;
    static const char *const right[] = {"localhost", "localhost:9810", "LocalHost.", "127.0.0.1", "127.0.0.1:9810", "[::1]",
                                        "[::1]:9810", "10.1.2.3:1", "[fe80::1]:80", "gpu1", "GPU1:9810", "gpu1.example.org."};
    static const char *const wrong[] = {"", ":9810", "evil.example.org", "localhost.evil.org", "127.0.0.1.nip.io", "gpu",
                                        "gpu11", "gpu1.example.org.evil", "localhost:9810x", "[::1", "[::1]x", "[::1]:$80", "[::1]:80x", "[]", "[]:80",
                                        "[gpu1]", "::1", "gpu1\n", "127.0.0.1:80:80", "0x7f.1", "example.org\ngpu1", "."};
    const char *names = "gpu1\ngpu1.example.org";
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (!al_host_allowed(right[i], names))
            fail_msg("%s", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (al_host_allowed(wrong[i], names))
            fail_msg("%s", wrong[i]);
    assert_false(al_host_allowed("gpu1", NULL));
    assert_false(al_host_allowed("gpu1", ""));
    char longer[600];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_false(al_host_allowed(longer, longer));
}

static void credentials(const char *header, enum al_scheme scheme, const char *user, const char *secret) {
    struct al_credentials c;
    al_credentials_parse(header, &c);
    if (c.scheme != scheme || strcmp(c.user, user) != 0 || strcmp(c.secret, secret) != 0)
        fail_msg("%s: %d \"%s\" \"%s\"", header, c.scheme, c.user, c.secret);
}

static void authorization_is_read(void **state) {
    (void)state;
    credentials("Bearer abc.def-123==", AL_SCHEME_BEARER, "", "abc.def-123==");
    credentials("bearer   x", AL_SCHEME_BEARER, "", "x");
    credentials("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", AL_SCHEME_BASIC, "Aladdin", "open sesame"); // RFC 7617
    credentials("BASIC dTpwOnE", AL_SCHEME_BASIC, "u", "p:q"); // no padding; the password may hold a colon
    credentials("Basic dTo=", AL_SCHEME_BASIC, "u", "");
    static const char *const broken[] = {"", "Bearer", "Bearer ", "Basic", "Basic ", "Basic dXA=", "Basic ****", "Basic dTpw!",
                                         "Digest username=u", "Basicx dTpw", "Basic dTpwAHg=", "Basic ====", " Bearer x"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        credentials(broken[i], AL_SCHEME_NONE, "", "");
    char longer[600] = "Bearer ";
    memset(longer + 7, 'a', 300);
    credentials(longer, AL_SCHEME_NONE, "", "");
}

static void listen(const char *text, const char *host, unsigned port) {
    char got[64];
    uint16_t got_port;
    if (al_listen_parse(text, got, sizeof got, &got_port) || strcmp(got, host) != 0 || got_port != port)
        fail_msg("%s", text);
}

static void addresses_are_read(void **state) {
    (void)state;
    char host[64];
    uint16_t port;
    listen("127.0.0.1:9810", "127.0.0.1", 9810);
    listen("[::1]:9810", "::1", 9810);
    listen("[::]:0", "::", 0);
    listen("localhost:1", "127.0.0.1", 1);
    listen(":9810", "::", 9810);
    listen("65535", "127.0.0.1", 65535);
    listen("0.0.0.0:80", "0.0.0.0", 80);
    static const char *const wrong[] = {"", ":", "x", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:9810",
                                        "[::1]", "[::1]9810", "gpu1:9810", "1.2.3:9810", "127.0.0.1:98 10", "[127.0.0.1]:80",
                                        "127.0.0.1:+80", " 127.0.0.1:80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (al_listen_parse(wrong[i], host, sizeof host, &port) != AL_E_FORMAT)
            fail_msg("%s", wrong[i]);
}

static void times_are_absolute_or_from_now(void **state) {
    (void)state;
    double t;
    assert_true(al_query_time("1790000000.5", 100, &t) && t == 1790000000.5);
    assert_true(al_query_time("-30", 100, &t) && t == 70);
    assert_true(al_query_time("0", 100, &t) && t == 0);
    assert_true(al_query_time("-0", 100, &t) && t == 100);
    static const char *const wrong[] = {"", "now", "nan", "inf", "-inf", "1e300", "5s", "1,5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (al_query_time(wrong[i], 100, &t))
            fail_msg("%s", wrong[i]);
}

int al_test_request(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_taken_apart),
        cmocka_unit_test(broken_targets_are_refused),
        cmocka_unit_test(formats_are_negotiated),
        cmocka_unit_test(hosts_are_checked_against_rebinding),
        cmocka_unit_test(authorization_is_read),
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(times_are_absolute_or_from_now),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
