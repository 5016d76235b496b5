// SPDX-License-Identifier: Apache-2.0
// torch's out-of-memory messages in the wordings of its versions, with numbers of reported cases.
#include <string.h>

#include "detect/oom.h"
#include "world.h"

#define TAIL " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid " \
             "fragmentation.  See documentation for Memory Management"

static const struct {
    const char *text;
    enum al_oom_cause cause;
    double tried, total, free, allocated, unallocated; // GiB
    int64_t device;
} cases[] = {
    // torch 1.13
    {"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; 20.11 GiB already allocated; "
     "1.53 GiB free; 22.10 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb",
     AL_OOM_FRAGMENTATION, 2, 23.69, 1.53, 20.11, 1.99, 0},
    // ms-swift#9112: plain demand
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 674.00 MiB. GPU 3 has a total capacity of 79.14 GiB of which 416.75 MiB "
     "is free. Including non-PyTorch memory, this process has 78.72 GiB memory in use. Of the allocated memory 78.18 GiB is allocated "
     "by PyTorch, and 69.36 MiB is reserved by PyTorch but unallocated." TAIL,
     AL_OOM_CAPACITY, 674.0 / 1024, 79.14, 416.75 / 1024, 78.18, 69.36 / 1024, 3},
    // ms-swift#5943: a container, whose driver knows no process
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 2.61 GiB is "
     "free. Including non-PyTorch memory, this process has 0 bytes memory in use. Of the allocated memory 48.15 GiB is allocated by "
     "PyTorch, and 3.49 GiB is reserved by PyTorch but unallocated." TAIL,
     AL_OOM_OTHERS, 8, 79.11, 2.61, 48.15, 3.49, 0},
    // others named by pid; torch 2.1's spelling
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 12 has a total capacty of 47.54 GiB of which 120.00 MiB is "
     "free. Process 4242 has 30.10 GiB memory in use. Process 4243 has 2.00 GiB memory in use. Including non-PyTorch memory, this "
     "process has 15.20 GiB memory in use. Of the allocated memory 14.50 GiB is allocated by PyTorch, and 200.00 MiB is reserved by "
     "PyTorch but unallocated.",
     AL_OOM_OTHERS, 1.5, 47.54, 120.0 / 1024, 14.5, 200.0 / 1024, 12},
    // private pools
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 2.00 GiB is "
     "free. Including non-PyTorch memory, this process has 77.10 GiB memory in use. Of the allocated memory 60.00 GiB is allocated by "
     "PyTorch, with 100.00 MiB allocated in private pools (e.g., CUDA Graphs), and 16.30 GiB is reserved by PyTorch but unallocated.",
     AL_OOM_FRAGMENTATION, 6, 79.15, 2, 60, 16.3, 1},
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 149.01 GiB. GPU 0 has a total capacity of 139.72 GiB of which 138.00 GiB "
     "is free. Including non-PyTorch memory, this process has 1.70 GiB memory in use. Of the allocated memory 1.00 GiB is allocated by "
     "PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
     AL_OOM_TOO_LARGE, 149.01, 139.72, 138, 1, 0, 0},
    {"OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", AL_OOM_UNCLEAR, 2, 0, 0, 0, 0, -1},
};

static void near(double bytes, double gib) {
    assert_true(bytes > (gib - 0.006) * GIB && bytes < (gib + 0.006) * GIB);
}

static void test_recorded_messages(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct al_oom o;
        assert_true(al_oom_parse(cases[i].text, &o));
        near(o.tried, cases[i].tried);
        near(o.total, cases[i].total);
        near(o.free, cases[i].free);
        near(o.allocated, cases[i].allocated);
        near(o.unallocated, cases[i].unallocated);
        assert_int_equal(o.device, cases[i].device);
        assert_int_equal(al_oom_cause(&o), cases[i].cause);
    }
}

static void test_words(void **unused) {
    (void)unused;
    struct al_oom o;
    struct al_allocator a = {.known = true, .variable = "PYTORCH_ALLOC_CONF"}, on = {.known = true, .expandable = true};
    char message[320], advice[320];
    assert_true(al_oom_parse(cases[1].text, &o));
    al_oom_say(&o, &a, message, sizeof message, advice, sizeof advice);
    assert_string_equal(message, "capacity: 674.0 MiB asked for, 79.1 GiB on the device, 416.8 MiB free, 78.2 GiB in tensors, 69.4 MiB "
                                 "cached: nearly all of it is in use by tensors: real demand");
    assert_null(strstr(advice, "expandable"));
    assert_true(al_oom_parse(cases[4].text, &o));
    al_oom_say(&o, &a, message, sizeof message, advice, sizeof advice);
    assert_memory_equal(advice, "PYTORCH_ALLOC_CONF=expandable_segments:True", 43);
    al_oom_say(&o, &on, message, sizeof message, advice, sizeof advice);
    assert_memory_equal(advice, "expandable_segments is on already", 33);
    assert_true(al_oom_parse(cases[3].text, &o));
    al_oom_say(&o, &a, message, sizeof message, advice, sizeof advice);
    assert_non_null(strstr(message, "another process: 1.5 GiB asked for") );
    assert_non_null(strstr(message, "32.1 GiB in other processes"));
}

static void test_other_texts(void **unused) {
    (void)unused;
    struct al_oom o;
    static const char *const texts[] = {"", "ValueError: Tried to allocate 2.00 GiB", "CUDA out of memory.", "out of memory Tried to allocate x",
                                        "out of memory Tried to allocate 2.00", "out of memory Tried to allocate 2.00 GiBs"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(al_oom_parse(texts[i], &o));
    assert_true(al_oom_parse("out of memory Tried to allocate 1.00 GiB memory in use is free already allocated;", &o));
    assert_false(o.free_known || o.in_use_known || o.allocated_known);
}

int oom_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded_messages), cmocka_unit_test(test_words),
                                       cmocka_unit_test(test_other_texts)};
    return cmocka_run_group_tests_name("oom", tests, NULL, NULL);
}
