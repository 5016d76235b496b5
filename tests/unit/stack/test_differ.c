// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stack/differ.h"
#include "suites.h"

#define LIB "/venv/lib/python3.11/site-packages/"
#define STD "/usr/lib/python3.11/"
#define MAIN {"/w/train.py", "<module>", 9}, {"/w/train.py", "main", 7}
#define FRAMES(...) (struct al_differ_frame[]){__VA_ARGS__}
#define STACK(...) {FRAMES(__VA_ARGS__), sizeof(FRAMES(__VA_ARGS__)) / sizeof(struct al_differ_frame), false}

static const struct al_differ_frame *told(const struct al_differ_stack *s, const char **ret_caller) {
    uint32_t caller, at = al_differ_telling(s, &caller);
    assert_true(at < s->count);
    *ret_caller = caller == UINT32_MAX ? NULL : s->frames[caller].function;
    return &s->frames[at];
}

static void groups_and_what_they_share(void **state) {
    (void)state;
    struct al_differ_stack waits = STACK(MAIN, {LIB "torch/distributed/c10d.py", "all_reduce", 3});
    struct al_differ_stack same = STACK(MAIN, {LIB "torch/distributed/c10d.py", "all_reduce", 3});
    struct al_differ_stack other_line = STACK(MAIN, {LIB "torch/distributed/c10d.py", "all_reduce", 4});
    struct al_differ_stack outside = STACK({"/w/train.py", "<module>", 9});
    const struct al_differ_stack *four[] = {&other_line, &waits, NULL, &same, &outside, &waits};
    struct al_differ d;
    assert_int_equal(al_differ_group(four, 6, &d), 0);
    assert_int_equal(d.group_count, 3);
    assert_int_equal(d.counted, 5);
    assert_int_equal(d.common, 1);
    assert_true(al_differ_odd(&d));
    assert_int_equal(d.groups[0].count, 3);
    const uint32_t *order = &d.order[d.groups[0].first];
    assert_true(order[0] == 1 && order[1] == 3 && order[2] == 5);
    assert_ptr_equal(d.groups[1].stack, &other_line); // as large as the next: the first in order
    al_differ_clear(&d);
    assert_int_equal(al_differ_group(four, 2, &d), 0);
    assert_int_equal(d.common, 2);
    assert_false(al_differ_odd(&d)); // one and one
    al_differ_clear(&d);
    assert_int_equal(al_differ_group(&four[2], 1, &d), 0); // nobody has it
    assert_true(d.group_count == 0 && d.common == 0 && !al_differ_odd(&d));
    al_differ_clear(&d);
}

static void files_are_told_from_their_package_on(void **state) {
    (void)state;
    const char *name;
    assert_int_equal(al_differ_file(LIB "torch/nn/modules/module.py", &name), AL_DIFFER_LIBRARY);
    assert_string_equal(name, "torch/nn/modules/module.py");
    assert_int_equal(al_differ_file("/usr/lib/python3/dist-packages/yaml/__init__.py", &name), AL_DIFFER_LIBRARY);
    assert_int_equal(al_differ_file(STD "threading.py", &name), AL_DIFFER_STANDARD);
    assert_string_equal(name, "threading.py");
    assert_int_equal(al_differ_file("/usr/lib64/python3.9/queue.py", &name), AL_DIFFER_STANDARD);
    assert_int_equal(al_differ_file("<frozen runpy>", &name), AL_DIFFER_STANDARD);
    assert_int_equal(al_differ_file("/home/you/python3.11/train.py", &name), AL_DIFFER_OWN);
    assert_string_equal(name, "train.py");
    assert_int_equal(al_differ_file("", &name), AL_DIFFER_OWN);
}

static void the_telling_frame(void **state) {
    (void)state;
    const char *caller;
    // the collective, not the wrapper around it nor what it waits with
    struct al_differ_stack collective = STACK(MAIN, {LIB "torch/distributed/c10d_logger.py", "wrapper", 1},
                                              {LIB "torch/distributed/distributed_c10d.py", "barrier", 2}, {STD "threading.py", "wait", 3});
    assert_string_equal(told(&collective, &caller)->function, "barrier");
    assert_string_equal(caller, "main");
    assert_true(al_differ_collective(&collective.frames[3]));
    // the loader, not its queue
    struct al_differ_stack loader = STACK(MAIN, {LIB "torch/utils/data/dataloader.py", "__next__", 1},
                                          {LIB "torch/utils/data/dataloader.py", "_MultiProcessingDataLoaderIter._next_data", 2},
                                          {LIB "torch/utils/data/dataloader.py", "_try_get_data", 3}, {STD "queue.py", "get", 3});
    assert_string_equal(told(&loader, &caller)->function, "_MultiProcessingDataLoaderIter._next_data");
    // the call into the standard library, and an own frame inside a library's
    struct al_differ_stack standard = STACK(MAIN, {STD "subprocess.py", "run", 1}, {STD "selectors.py", "select", 3});
    assert_string_equal(told(&standard, &caller)->function, "run");
    // a queue's thread
    struct al_differ_stack feeder = STACK({STD "threading.py", "_bootstrap", 1}, {STD "multiprocessing/queues.py", "_feed", 2},
                                          {STD "threading.py", "wait", 3});
    assert_string_equal(told(&feeder, &caller)->function, "wait");
    assert_null(caller);
    struct al_differ_stack inside = STACK(MAIN, {LIB "torch/distributed/fsdp/f.py", "forward", 1}, {"/w/model.py", "forward", 5});
    assert_string_equal(told(&inside, &caller)->file, "/w/model.py");
    assert_string_equal(caller, "main");
    assert_false(al_differ_collective(&inside.frames[2]));
    struct al_differ_stack root = STACK({"/w/train.py", "<module>", 9}), none = {NULL, 0, false};
    assert_string_equal(told(&root, &caller)->function, "<module>");
    assert_null(caller);
    uint32_t ignored;
    assert_int_equal(al_differ_telling(&none, &ignored), UINT32_MAX);
}

int al_test_differ(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_and_what_they_share),
        cmocka_unit_test(files_are_told_from_their_package_on),
        cmocka_unit_test(the_telling_frame),
    };
    return cmocka_run_group_tests_name("differ", tests, NULL, NULL);
}
