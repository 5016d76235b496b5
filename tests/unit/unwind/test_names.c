// SPDX-License-Identifier: Apache-2.0
// Perf maps, names as they are shown, and tables that are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "suites.h"
#include "unwind/cfi_check.h"
#include "unwind/perfmap.h"
#include "unwind/texts.h"

static void is_named(struct al_perf_map *m, uint64_t address, const char *name) {
    const struct al_perf_entry *e = al_perf_map_find(m, address);
    assert_non_null(e);
    assert_int_equal(e->length, strlen(name));
    assert_memory_equal(m->text + e->name, name, e->length);
}

static void perf_maps_are_parsed(void **state) {
    (void)state;
    struct al_perf_map m = {0};
    const char text[] = "1000 100 first\n0x2000 0x10 with spaces; and more\nnonsense\n3000 zz bad\n3000 0 empty\n"
                        "ffffffffffffffff 10 wraps\n1000 40 newer\n4000 10\n5000 10 cut";
    assert_int_equal(al_perf_map_parse(&m, text, sizeof text - 1), sizeof text - 1 - strlen("5000 10 cut"));
    assert_int_equal(m.count, 3);
    is_named(&m, 0x1000, "newer");
    is_named(&m, 0x103f, "newer");
    is_named(&m, 0x1040, "first");
    is_named(&m, 0x200f, "with spaces; and more");
    assert_null(al_perf_map_find(&m, 0x2010));
    assert_null(al_perf_map_find(&m, 0xfff));
    assert_int_equal(al_perf_map_parse(&m, "5000 10 whole\n", 14), 14);
    is_named(&m, 0x5001, "whole");
    al_perf_map_free(&m);
}

struct tree { // a /proc with one process, whose root is the folder itself
    char top[64], map[160];
};

static void write_text(const char *path, const char *mode, const char *text) {
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    (void)fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void tree_make(struct tree *t) {
    char path[256], text[128];
    (void)snprintf(t->top, sizeof t->top, "/tmp/alula-unwind-XXXXXX");
    assert_non_null(mkdtemp(t->top));
    (void)snprintf(path, sizeof path, "%s/7", t->top);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/tmp", t->top);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/7/root", t->top);
    assert_int_equal(symlink(t->top, path), 0);
    (void)snprintf(path, sizeof path, "%s/7/status", t->top);
    (void)snprintf(text, sizeof text, "Name:\tx\nUid:\t%u\t%u\t0\t0\nNSpid:\t7\t3\n", getuid(), getuid());
    write_text(path, "w", text);
    (void)snprintf(t->map, sizeof t->map, "%s/tmp/perf-3.map", t->top);
}

static void tree_remove(struct tree *t) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", t->top);
    assert_int_equal(system(command), 0);
}

static void perf_map_is_followed(void **state) {
    (void)state;
    struct tree t;
    struct al_perf_map m = {0};
    bool changed;
    tree_make(&t);
    assert_false(al_perf_map_read(&m, t.top, 7, &changed));
    write_text(t.map, "w", "1000 10 a\n2000 10 b");
    assert_true(al_perf_map_read(&m, t.top, 7, &changed));
    assert_true(changed);
    assert_null(al_perf_map_find(&m, 0x2000)); // its line is not whole
    assert_true(al_perf_map_read(&m, t.top, 7, &changed));
    assert_false(changed);
    write_text(t.map, "a", "c\n");
    assert_true(al_perf_map_read(&m, t.top, 7, &changed));
    assert_true(changed);
    is_named(&m, 0x2000, "bc");
    is_named(&m, 0x1000, "a");
    write_text(t.map, "w", "3000 10 d\n"); // a new one
    assert_true(al_perf_map_read(&m, t.top, 7, &changed));
    assert_null(al_perf_map_find(&m, 0x1000));
    is_named(&m, 0x3000, "d");
    assert_int_equal(unlink(t.map), 0);
    assert_int_equal(symlink("/etc/passwd", t.map), 0);
    assert_false(al_perf_map_read(&m, t.top, 7, &changed));
    al_perf_map_free(&m);
    tree_remove(&t);
}

static void names_are_written_out(void **state) {
    (void)state;
    char out[AL_NAME_MOST], long_name[2000] = "_ZN3one3twoI";
    const char *const pairs[][2] = {
        {"main", "main"},
        {"_ZN2at6native3addERKNS_6TensorES3_", "at::native::add(at::Tensor const&, at::Tensor const&)"},
        {"_ZN4core3ops8function6FnOnce9call_once17h0123456789abcdefE", "core::ops::function::FnOnce::call_once"},
        {"_Znonsense", "_Znonsense"},
        {"_Z", "_Z"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        al_demangle(pairs[i][0], out, sizeof out);
        if (strchr(pairs[i][1], '(') && !strchr(out, '('))
            print_message("no C++ library here: %s\n", out);
        else
            assert_string_equal(out, pairs[i][1]);
    }
    for (size_t i = strlen(long_name); i + 1 < sizeof long_name; i++)
        long_name[i] = 'i';
    al_demangle(long_name, out, sizeof out);
    assert_string_equal(out, "one::two<...>");
    // Each level doubles the one before: written out it would be 2^40 bytes.
    char bomb[1024] = "_Z1fILi1EEvN1aIiiEE";
    for (int i = 0; i < 40; i++)
        (void)snprintf(bomb + strlen(bomb), sizeof bomb - strlen(bomb), "1bIS%c_S%c_E", 'A' + i % 26, 'A' + i % 26);
    al_demangle(bomb, out, sizeof out);
    assert_string_equal(out, "f");
}

static void texts_are_one_and_clean(void **state) {
    (void)state;
    struct al_texts t = {0};
    uint32_t first, second;
    char name[2000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(al_texts_add(&t, "a\033[1m\xff", "/lib/x", "", 0, &first), 0);
    assert_string_equal(al_texts_get(&t, first)->name, "a?[1m?");
    assert_string_equal(al_texts_get(&t, first)->file, "");
    assert_int_equal(al_texts_add(&t, "a\033[1m\xff", "/lib/x", "", 0, &second), 0);
    assert_int_equal(first, second);
    assert_int_equal(al_texts_add(&t, "a\033[1m\xff", "/lib/x", "", 1, &second), 0);
    assert_int_not_equal(first, second);
    assert_int_equal(al_texts_add(&t, name, "", "", 0, &second), 0);
    assert_int_equal(strlen(al_texts_get(&t, second)->name), AL_NAME_MOST - 1);
    assert_string_equal(al_texts_get(&t, second)->name + AL_NAME_MOST - 4, "...");
    const struct al_unwind_symbol *kept = al_texts_get(&t, first);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(al_texts_add(&t, "f", "o", "", i, &second), 0);
    assert_ptr_equal(kept, al_texts_get(&t, first));
    assert_null(al_texts_get(&t, t.count));
    al_texts_free(&t);
}

// .eh_frame of a C function with a frame pointer, as GCC writes it; the last entry's instructions are at byte 41.
static const unsigned char frames[] = {
    0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
    0x18, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0x41, 0x0e, 0x10, 0x86, 2, 0x43, 0x0d, 6, 0x0c, 7, 8,
    0, 0, 0, 0};

static bool with(size_t at, unsigned char a, unsigned char b, unsigned char c) {
    unsigned char other[sizeof frames];
    memcpy(other, frames, sizeof frames);
    other[at] = a;
    other[at + 1] = b;
    other[at + 2] = c;
    return al_cfi_section_ok(other, sizeof other, true);
}

static void tables_that_ask_too_much_are_refused(void **state) {
    (void)state;
    assert_true(al_cfi_section_ok(frames, sizeof frames, true));
    assert_false(al_cfi_section_ok(frames, sizeof frames, false));
    assert_true(with(41, 0x07, 0x7f, 0));           // register 127
    assert_false(with(41, 0x07, 0x80, 0x7f));       // 16256: libdw would make room for each of them
    assert_false(with(41, 0x0b, 0, 0));             // no state was set aside
    assert_true(with(41, 0x0a, 0x0b, 0));
    assert_false(with(41, 0x3f, 0, 0));             // no such instruction
    assert_false(with(41, 0x0f, 0x7f, 0));          // an expression longer than the entry
    assert_false(with(24, 0x19, 0, 1));             // an entry longer than any
    assert_false(with(28, 0xff, 0xff, 0xff));       // its CIE lies outside
    assert_false(with(9, 'q', 'R', 0));             // letters that nobody knows the length of
}

int al_test_names(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perf_maps_are_parsed),  cmocka_unit_test(perf_map_is_followed),
        cmocka_unit_test(names_are_written_out), cmocka_unit_test(texts_are_one_and_clean),
        cmocka_unit_test(tables_that_ask_too_much_are_refused),
    };
    return cmocka_run_group_tests_name("unwind/names", tests, NULL, NULL);
}
