// SPDX-License-Identifier: Apache-2.0
// Lists as words, innermost first. Python: a to h, a capital one was called by native code. Native: L a run of the loop,
// P a piece of it, a dot is hidden, other letters are shown.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <string.h>

#include "suites.h"
#include "unwind/merge.h"

#define MOST 64

struct expected {
    const char *python, *native, *merged;
    enum al_stack_native how;
    uint8_t status; // of the unwinding
    bool truncated;
};

static void check(const struct expected *e) {
    struct al_stack_frame python[MOST] = {0};
    uint8_t native[MOST];
    int32_t out[2 * MOST];
    char got[2 * MOST + 1] = "";
    struct al_merge_input in = {.python = python, .native = native, .native_status = e->status, .truncated = e->truncated};
    in.python_count = (uint32_t)strlen(e->python);
    in.native_count = (uint32_t)strlen(e->native);
    for (uint32_t i = 0; i < in.python_count; i++)
        python[i].entry = isupper((unsigned char)e->python[i]) != 0;
    for (uint32_t i = 0; i < in.native_count; i++)
        native[i] = e->native[i] == 'L'   ? AL_MERGE_LOOP
                    : e->native[i] == 'P' ? AL_MERGE_LOOP_PART
                    : e->native[i] == '.' ? AL_MERGE_HIDDEN
                                          : AL_MERGE_SHOWN;
    enum al_stack_native how;
    uint32_t count = al_merge(&in, out, &how);
    assert_true(count <= in.python_count + in.native_count);
    for (uint32_t i = 0; i < count; i++)
        got[i] = out[i] >= 0 ? e->python[out[i]] : e->native[-1 - out[i]];
    assert_string_equal(got, e->merged);
    assert_int_equal(how, e->how);
}

#define CHECK_ALL(list)                                                                                                \
    for (size_t i_ = 0; i_ < sizeof list / sizeof *list; i_++)                                                         \
    check(&list[i_])

static void to_310_each_frame_is_a_run(void **state) {
    (void)state;
    static const struct expected list[] = {
        {"A", "L.s", "As", AL_STACK_NATIVE_MERGED, 0, 0},
        {"ABC", "xyL..L..L.", "xyABC", AL_STACK_NATIVE_MERGED, 0, 0},
        {"ABC", "xL.kL..L.", "xAkBC", AL_STACK_NATIVE_MERGED, 0, 0}, // sorted(key=...)
        {"AB", "L.u.L.", "AuB", AL_STACK_NATIVE_MERGED, 0, 0},       // Python is innermost
        {"ABCD", "zL.rL.rL.rL.", "zArBrCrD", AL_STACK_NATIVE_MERGED, 0, 0},
    };
    CHECK_ALL(list);
}

static void from_311_a_run_has_several_frames(void **state) {
    (void)state;
    static const struct expected list[] = {
        {"abC", "xL.", "xabC", AL_STACK_NATIVE_MERGED, 0, 0},
        {"aBcdE", "xL.k.L.", "xaBkcdE", AL_STACK_NATIVE_MERGED, 0, 0},       // a callback in the middle
        {"ABcD", "xL.gL.L.", "xAgBcD", AL_STACK_NATIVE_MERGED, 0, 0},        // a generator that C code drives
        {"abcd", "xL.", "xabcd", AL_STACK_NATIVE_MERGED, 0, 0},              // the outermost is called by nobody known
        {"AbC", "xL.q..r.L.s", "xAqrbCs", AL_STACK_NATIVE_MERGED, 0, 0},     // nested C calls between
        {"aBC", "P.L..L.", "aBC", AL_STACK_NATIVE_MERGED, 0, 0},             // pieces that stand alone are runs
        {"aBC", "xPL.PL.", "xaBC", AL_STACK_NATIVE_MERGED, 0, 0},            // pieces that the loop called are not
        {"aBC", "xP.yP.", "xaByC", AL_STACK_NATIVE_MERGED, 0, 0},
    };
    CHECK_ALL(list);
}

static void a_loop_that_has_no_frame_yet(void **state) {
    (void)state;
    static const struct expected list[] = {
        {"AB", "L.L.L.", "AB", AL_STACK_NATIVE_MERGED, 0, 0},
        {"aB", "L.kL.", "kaB", AL_STACK_NATIVE_MERGED, 0, 0},
        {"aB", "PL.kL.", "kaB", AL_STACK_NATIVE_MERGED, 0, 0},
        {"aB", "xL.kL.", "aB", AL_STACK_NATIVE_UNFIT, 0, 0}, // it has called x already: it must have one
        {"aB", "L.L.L.", "aB", AL_STACK_NATIVE_UNFIT, 0, 0},
    };
    CHECK_ALL(list);
}

static void counts_that_contradict_each_other(void **state) {
    (void)state;
    static const struct expected list[] = {
        {"ABC", "xL..L.", "ABC", AL_STACK_NATIVE_UNFIT, 0, 0},
        {"A", "xL..L.", "A", AL_STACK_NATIVE_UNFIT, 0, 0},
        {"aB", "xyz", "aB", AL_STACK_NATIVE_UNFIT, 0, 0},
        {"aB", "", "aB", AL_STACK_NATIVE_UNFIT, 0, 0},
        {"", "xL.", "", AL_STACK_NATIVE_UNFIT, 0, 0},
        {"A", "xL.kL.", "A", AL_STACK_NATIVE_UNFIT, AL_UNWIND_CUT, 0}, // more runs than Python has
    };
    CHECK_ALL(list);
}

static void ends_that_are_missing(void **state) {
    (void)state;
    static const struct expected list[] = {
        {"ABC", "xL.kL.", "xAkBC", AL_STACK_NATIVE_PART, AL_UNWIND_CUT, 0},
        {"aBcD", "xL.k.", "xaBkcD", AL_STACK_NATIVE_PART, AL_UNWIND_STUCK, 0},
        {"aBcD", "xL.kL.", "xaBkcD", AL_STACK_NATIVE_MERGED, AL_UNWIND_STUCK, 0}, // all that Python has was met
        {"aBcD", "xy", "xyaBcD", AL_STACK_NATIVE_PART, AL_UNWIND_STUCK, 0},
        {"aBcD", "", "aBcD", AL_STACK_NATIVE_PART, AL_UNWIND_STUCK, 0},
        {"AB", "xL.kL.q.L.", "xAkBq", AL_STACK_NATIVE_PART, 0, 1}, // Python deeper than its limit
        {"Ab", "xL.kL.qL.rL.s", "xAkb", AL_STACK_NATIVE_PART, 0, 1},
        {"ABC", "xL.kL.", "ABC", AL_STACK_NATIVE_UNFIT, 0, 1},
        {"ABC", "xL.kL.", "xAkBC", AL_STACK_NATIVE_PART, AL_UNWIND_CUT, 1},
    };
    CHECK_ALL(list);
}

static void plumbing(void **state) {
    (void)state;
    static const char *const hidden[] = {"PyObject_Call", "_PyEval_Vector", "_PyFunction_Vectorcall", "cfunction_call", "0x1a2b",
                                         "method_vectorcall_NOARGS", "slot_tp_call", "Py_RunMain", "main", "start_thread", "gen_send_ex2",
                                         "gen_iternext", "type_call", "__libc_start_call_main"};
    static const char *const shown[] = {"take_gil", "list_sort_impl", "time_sleep", "gc_collect_main", "zlib_compress", "EVP_DigestUpdate",
                                        "builtin_sorted", "lock_PyThread_acquire_lock"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        assert_true(al_merge_is_plumbing(hidden[i]));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        assert_false(al_merge_is_plumbing(shown[i]));
    assert_true(al_merge_is_start("clone3") && al_merge_is_start("__libc_start_main_impl"));
    assert_false(al_merge_is_start("main")); // of a program that embeds Python
}

int al_test_merge(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_310_each_frame_is_a_run), cmocka_unit_test(from_311_a_run_has_several_frames),
        cmocka_unit_test(a_loop_that_has_no_frame_yet), cmocka_unit_test(counts_that_contradict_each_other),
        cmocka_unit_test(ends_that_are_missing), cmocka_unit_test(plumbing),
    };
    return cmocka_run_group_tests_name("unwind/merge", tests, NULL, NULL);
}
