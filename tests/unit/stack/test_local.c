// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "image.h"
#include "stack/core/local.h"
#include "suites.h"

#define THREAD (IMAGE_BASE + 0x100)
#define CFRAME (IMAGE_BASE + 0x800)
#define FRAMES (IMAGE_BASE + 0x1000)
#define STEP 128u
#define DEPTH 64u

static uint64_t frame_at(unsigned n) { // 0: the root
    return FRAMES + n * STEP;
}

// A 3.11 thread of `count` frames.
static struct image *make(struct al_local *l, unsigned count) {
    struct image *i = calloc(1, sizeof *i);
    struct al_layout layout;
    assert_int_equal(al_layout_table(0x030b07f0, 62, &layout), AL_LAYOUT_FINE);
    al_local_use(l, &layout, 0x030b07f0, IMAGE_BASE);
    l->guarded = (struct al_memory){image_gather, i};
    image_u64(i, THREAD + layout.thread_frame, CFRAME);
    for (unsigned n = 0; n < count; n++) {
        image_u64(i, frame_at(n) + layout.frame_previous, n ? frame_at(n - 1) : 0);
        image_u64(i, frame_at(n) + layout.frame_code, 0x20000 + 16 * n);
        image_u64(i, frame_at(n) + layout.frame_instr, 0x30000 + n);
    }
    if (count)
        image_u64(i, CFRAME + layout.cframe_frame, frame_at(count - 1));
    return i;
}

static void a_chain_is_read_by_blocks(void **state) {
    (void)state;
    struct al_local l;
    struct al_local_frame frames[DEPTH];
    struct al_local_stack s = {.frames = frames, .cap = DEPTH};
    struct image *i = make(&l, 40);
    assert_int_equal(al_local_walk(&l, AL_LOCAL_GUARDED, THREAD, &s), 40);
    assert_false(s.damaged || s.truncated);
    for (unsigned n = 0; n < 40; n++) {
        assert_int_equal(frames[n].code, 0x20000 + 16 * (39 - n));
        assert_int_equal(frames[n].instr, 0x30000 + 39 - n);
        assert_int_equal(frames[n].entry, n == 39);
    }
    assert_true(i->gathers < 12); // 2 for the innermost, then eight frames each
    free(i);
}

static void a_short_array_keeps_the_innermost(void **state) {
    (void)state;
    struct al_local l;
    struct al_local_frame frames[DEPTH];
    struct al_local_stack s = {.frames = frames, .cap = 5};
    struct image *i = make(&l, 40);
    assert_int_equal(al_local_walk(&l, AL_LOCAL_GUARDED, THREAD, &s), 5);
    assert_true(s.truncated && !s.damaged && !frames[4].entry);
    assert_int_equal(frames[0].instr, 0x30000 + 39);
    s.cap = 0;
    assert_int_equal(al_local_walk(&l, AL_LOCAL_GUARDED, THREAD, &s), 0);
    assert_true(s.truncated);
    free(i);
}

static void damage_ends(void **state) {
    (void)state;
    struct al_local l;
    struct al_local_frame frames[DEPTH];
    struct al_local_stack s = {.frames = frames, .cap = DEPTH};
    struct image *i = make(&l, 10);
    const uint64_t bad[] = {frame_at(5), 8, 0x7fffffffffff0, frame_at(2) + 1, frame_at(9)};
    for (unsigned n = 0; n < sizeof bad / sizeof *bad; n++) {
        image_u64(i, frame_at(5) + l.layout.frame_previous, bad[n]); // of itself, no address, not mapped, odd, a circle
        assert_in_range(al_local_walk(&l, AL_LOCAL_GUARDED, THREAD, &s), 4, DEPTH);
        assert_true(s.damaged || s.truncated);
        assert_int_equal(frames[3].instr, 0x30000 + 6);
    }
    image_u64(i, THREAD + l.layout.thread_frame, 3);
    assert_int_equal(al_local_walk(&l, AL_LOCAL_GUARDED, THREAD, &s), 0);
    assert_int_equal(al_local_walk(&l, AL_LOCAL_GUARDED, 0, &s), 0);
    free(i);
}

// The kernel says what is not mapped, of this very process.
static void own_memory(void **state) {
    (void)state;
    struct al_local l;
    struct al_layout layout = {0};
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[16];
    assert_ptr_not_equal(pages, MAP_FAILED);
    memset(pages, 'x', 8192);
    munmap(pages + 4096, 4096);
    al_local_use(&l, &layout, 0, 0);
    assert_true(al_memory_get(&l.guarded, (uint64_t)(uintptr_t)pages + 4080, got, 16));
    assert_memory_equal(got, "xxxxxxxxxxxxxxxx", 16);
    assert_false(al_memory_get(&l.guarded, (uint64_t)(uintptr_t)pages + 4088, got, 16));
    struct al_piece pieces[40];
    char all[40];
    for (unsigned n = 0; n < 40; n++)
        pieces[n] = (struct al_piece){(uint64_t)(uintptr_t)pages + (n == 30 ? 4096 : n), 1, n};
    assert_int_equal(l.guarded.gather(l.guarded.user, pieces, 40, all), 30);
    munmap(pages, 4096);
}

static uint64_t fake_runtime[256];
static uint32_t fake_version;
static void *nothing(const char *name) {
    (void)name;
    return NULL;
}
static void *some(const char *name) {
    return strcmp(name, "_PyRuntime") == 0 ? (void *)fake_runtime : strcmp(name, "Py_Version") == 0 ? &fake_version : NULL;
}

static void what_is_not_there_or_not_known(void **state) {
    (void)state;
    struct al_local l;
    struct al_local_frame frame;
    struct al_local_stack s = {.frames = &frame, .cap = 1};
    struct al_local_place place;
    assert_int_equal(al_local_init(&l, nothing), AL_E_NOENT);
    assert_int_equal(al_local_stack(&l, AL_LOCAL_PLAIN, &s), 0);
    fake_version = 0x030c01f0;
    assert_int_equal(al_local_init(&l, some), AL_E_AGAIN); // no interpreter in it yet
    assert_int_equal(al_local_stack(&l, AL_LOCAL_PLAIN, &s), 0);
    assert_false(al_local_place(&l, &(struct al_local_frame){.code = 4096}, NULL, 0, &place));
    assert_string_equal(place.function, "?");
    fake_version = 0x030700f0;
    assert_int_equal(al_local_init(&l, some), AL_E_UNSUPPORTED);
    memcpy(fake_runtime, "xdebugpy", 8);
    fake_runtime[1] = 0x031000a1;
    assert_int_equal(al_local_init(&l, some), AL_E_UNSUPPORTED);
    memset(fake_runtime, 0, sizeof fake_runtime);
}

// As old container runtimes forbid it.
static void a_forbidden_call_is_told(void **state) {
    (void)state;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct al_local l;
    fake_version = 0x030c01f0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            _exit(77);
        _exit(al_local_init(&l, some) == AL_E_DENIED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int al_test_local(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_read_by_blocks),
        cmocka_unit_test(a_short_array_keeps_the_innermost),
        cmocka_unit_test(damage_ends),
        cmocka_unit_test(own_memory),
        cmocka_unit_test(what_is_not_there_or_not_known),
        cmocka_unit_test(a_forbidden_call_is_told),
    };
    return cmocka_run_group_tests_name("stack/local", tests, NULL, NULL);
}
