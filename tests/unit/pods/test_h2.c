// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "pods/h2.h"
#include "suites.h"

// Frames as the peer sends them; the literals' own NUL is left out.
#define BYTES(text) text, sizeof text - 1
#define SETTINGS "\0\0\0\x04\0\0\0\0\0"
#define HEADERS "\0\0\x01\x01\x04\0\0\0\x01\x88"
#define TRAILERS "\0\0\x01\x01\x05\0\0\0\x01\x88"
#define DATA_HEAD(len, flags) "\0\0" len "\0" flags "\0\0\0\x01"
#define HELLO "\0\0\0\0\x05hello"

static int take(struct al_h2 *h, const char *bytes, size_t len) {
    return al_h2_take(h, bytes, len);
}

static void start(struct al_h2 *h) {
    al_h2_start(h, "/v1.PodResourcesLister/List");
}

// The request, byte by byte: RFC 9113's preface and frames, RFC 7541's static table.
static void the_request(void **state) {
    static const char want[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        "\0\0\x12\x04\0\0\0\0\0" "\0\x01\0\0\0\0" "\0\x02\0\0\0\0" "\0\x04\0\x40\0\x05"
        "\0\0\x04\x08\0\0\0\0\0" "\0\x40\0\0"
        "\0\0\x4a\x01\x04\0\0\0\x01" "\x83\x86" "\x04\x1b/v1.PodResourcesLister/List" "\x01\x09localhost"
        "\x0f\x10\x10" "application/grpc" "\0\x02te\x08trailers"
        "\0\0\x05\0\x01\0\0\0\x01" "\0\0\0\0\0";
    struct al_h2 h;
    (void)state;
    start(&h);
    assert_int_equal(h.out.len, sizeof want - 1);
    assert_memory_equal(h.out.data, want, sizeof want - 1);
    al_h2_free(&h);
}

static void an_answer_in_pieces(void **state) {
    static const char answer[] = SETTINGS HEADERS DATA_HEAD("\x06", "\0") "\0\0\0\0\x05h" "\0\0\x08\x06\0\0\0\0\0" "pingpong"
        DATA_HEAD("\x07", "\x08") "\x02" "ello" "\0\0" TRAILERS;
    struct al_h2 h;
    (void)state;
    start(&h);
    al_buf_clear(&h.out);
    for (size_t i = 0; i + 1 < sizeof answer - 1; i++)
        assert_int_equal(take(&h, answer + i, 1), AL_E_AGAIN);
    assert_int_equal(take(&h, answer + sizeof answer - 2, 1), 0);
    assert_int_equal(h.message.len, 10);
    assert_memory_equal(h.message.data + 5, "hello", 5);
    // Settings and ping were acknowledged.
    static const char acks[] = "\0\0\0\x04\x01\0\0\0\0" "\0\0\x08\x06\x01\0\0\0\0" "pingpong";
    assert_int_equal(h.out.len, sizeof acks - 1);
    assert_memory_equal(h.out.data, acks, sizeof acks - 1);
    al_h2_free(&h);
}

struct wrong {
    const char *what, *bytes;
    size_t len;
    int want;
};

static void what_is_no_answer(void **state) {
    static const struct wrong table[] = {
        {"HTTP/1", BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), AL_E_FORMAT},
        {"a frame before the settings", BYTES(HEADERS), AL_E_FORMAT},
        {"a frame too large", BYTES(SETTINGS "\0\x40\x01\0\0\0\0\0\x01"), AL_E_FORMAT},
        {"trailers alone", BYTES(SETTINGS TRAILERS), AL_E_IO},
        {"reset", BYTES(SETTINGS "\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02"), AL_E_IO},
        {"going away", BYTES(SETTINGS "\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0"), AL_E_IO},
        {"another stream", BYTES(SETTINGS "\0\0\0\0\0\0\0\0\x03"), AL_E_FORMAT},
        {"a promise", BYTES(SETTINGS "\0\0\0\x05\0\0\0\0\x01"), AL_E_FORMAT},
        {"a short ping", BYTES(SETTINGS "\0\0\x01\x06\0\0\0\0\0x"), AL_E_FORMAT},
        {"padding longer than the frame", BYTES(SETTINGS DATA_HEAD("\x02", "\x08") "\x02z"), AL_E_FORMAT},
        {"padding without its length", BYTES(SETTINGS DATA_HEAD("\0", "\x08")), AL_E_FORMAT},
        {"a message cut short", BYTES(SETTINGS DATA_HEAD("\x09", "\x01") "\0\0\0\0\x05hell"), AL_E_FORMAT},
        {"a compressed message", BYTES(SETTINGS DATA_HEAD("\x0a", "\x01") "\x01\0\0\0\x05hello"), AL_E_FORMAT},
        {"half a prefix", BYTES(SETTINGS DATA_HEAD("\x02", "\x01") "\0\0"), AL_E_FORMAT},
        {"nothing yet", BYTES(""), AL_E_AGAIN},
        {"a whole message, going away behind it", BYTES(SETTINGS "\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0"
            DATA_HEAD("\x0a", "\x01") HELLO), 0},
        {"an unknown frame passed over", BYTES(SETTINGS "\0\0\x01\x63\0\0\0\0\x01z" DATA_HEAD("\x0a", "\x01") HELLO), 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct al_h2 h;
        start(&h);
        int got = take(&h, table[i].bytes, table[i].len);
        if (got != table[i].want)
            fail_msg("%s: %d, not %d", table[i].what, got, table[i].want);
        al_h2_free(&h);
    }
}

static void a_message_too_large(void **state) {
    static char data[9 + AL_H2_FRAME_MAX] = {0, 0x40, 0, 0, 0, 0, 0, 0, 1};
    struct al_h2 h;
    int result = AL_E_AGAIN;
    size_t frames = 0;
    (void)state;
    start(&h);
    assert_int_equal(take(&h, BYTES(SETTINGS)), AL_E_AGAIN);
    for (; result == AL_E_AGAIN && frames < 1000; frames++)
        result = take(&h, data, sizeof data);
    assert_int_equal(result, AL_E_TOOBIG);
    assert_int_equal(frames, AL_H2_MESSAGE_MAX / AL_H2_FRAME_MAX + 1);
    al_h2_free(&h);
}

int al_test_h2(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_request),
        cmocka_unit_test(an_answer_in_pieces),
        cmocka_unit_test(what_is_no_answer),
        cmocka_unit_test(a_message_too_large),
    };
    return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
