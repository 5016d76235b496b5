// SPDX-License-Identifier: Apache-2.0
// What a request says is checked by OpenTelemetry's own decoder in tests/integration/test_push.py; here the edges.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "push/otlp.h"
#include "base/pb.h"
#include "suites.h"

static void answer(struct al_buf *b, uint64_t points, const char *message) {
    size_t partial = al_pb_open(b, 1);
    al_pb_uint(b, 1, points);
    al_pb_string(b, 2, message);
    al_pb_close(b, partial);
}

static void refused_points_are_read(void **state) {
    struct al_buf b = AL_BUF_INIT;
    char message[16];
    (void)state;
    answer(&b, 12, "bad\nname");
    assert_int_equal(al_otlp_rejected(b.data, b.len, message, sizeof message), 12);
    assert_string_equal(message, "bad?name");
    assert_int_equal(al_otlp_rejected(b.data, b.len - 3, message, sizeof message), 0); // cut short
    al_buf_clear(&b);
    answer(&b, 3, "a message that is longer than its room");
    assert_int_equal(al_otlp_rejected(b.data, b.len, message, sizeof message), 3);
    assert_string_equal(message, "a message that ");
    al_buf_clear(&b);
    answer(&b, UINT64_MAX, "a negative number");
    assert_int_equal(al_otlp_rejected(b.data, b.len, message, sizeof message), 0);
    assert_int_equal(al_otlp_rejected("", 0, message, sizeof message), 0);
    assert_string_equal(message, "");
    assert_int_equal(al_otlp_rejected("<html>", 6, message, sizeof message), 0);
    al_buf_free(&b);
}

static bool holds(const struct al_buf *b, const char *text) {
    return memmem(b->data, b->len, text, strlen(text)) != NULL;
}

// Unknown is never 0: neither values nor metrics of them are there.
static void an_empty_snapshot_has_no_metrics_of_devices(void **state) {
    struct al_snapshot *s = al_snapshot_new();
    struct al_otlp *o;
    struct al_buf b = AL_BUF_INIT;
    (void)state;
    assert_non_null(s);
    assert_int_equal(al_otlp_new("1.2.3", &o), 0);
    s->tick = 1;
    s->realtime_ns = 1795953600000000000;
    struct al_gpu *g = al_snapshot_add_gpu(s);
    assert_non_null(g);
    strcpy(g->info.uuid, "GPU-1");
    g->info.status = AL_STATUS_OK;
    g->process_status = AL_STATUS_DENIED;
    assert_int_equal(al_otlp_encode(o, s, NULL, 0, &b), 0);
    assert_true(holds(&b, "1.2.3") && holds(&b, "alula.findings.open"));
    assert_false(holds(&b, "hw.") || holds(&b, "alula.gpu") || holds(&b, "alula.node") || holds(&b, "GPU-1"));
    al_buf_clear(&b);
    g->m[AL_GPU_POWER] = al_value_ok(0, 0); // a real 0
    g->m[AL_GPU_TEMP] = (struct al_value){50, 0, AL_STATUS_STALE};
    assert_int_equal(al_otlp_encode(o, s, NULL, 0, &b), 0);
    assert_true(holds(&b, "hw.power"));
    assert_false(holds(&b, "hw.temperature"));
    al_otlp_free(o);
    al_snapshot_free(s);
    al_buf_free(&b);
}

int al_test_otlp(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_points_are_read),
        cmocka_unit_test(an_empty_snapshot_has_no_metrics_of_devices),
    };
    return cmocka_run_group_tests_name("otlp", tests, NULL, NULL);
}
