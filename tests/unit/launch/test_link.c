// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/link.h"
#include "suites.h"

static int dial(const struct al_link *l) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(a.sun_path, sizeof a.sun_path, "%s", l->path);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static int sealed(void) {
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

// `len` bytes of a greeting with `count` copies of a descriptor.
static void greet(int socket, const char *magic, size_t len, int fd, int count) {
    struct al_ring_hello hello = {.pid = 42};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {&hello, len};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    int fds[2] = {fd, fd};
    memcpy(hello.magic, magic, 8);
    if (count) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
    }
    assert_int_equal(sendmsg(socket, &m, 0), (ssize_t)len);
}

static int open_fds(void) {
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

static void test_a_ring_is_taken(void **unused) {
    (void)unused;
    struct al_link l;
    struct al_link_guest g;
    struct stat st;
    assert_int_equal(al_link_open(&l), 0);
    assert_int_equal(stat(l.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(al_link_take(&l, 1, &g), AL_E_AGAIN);
    int fd = sealed(), s = dial(&l);
    assert_int_equal(al_link_take(&l, 1, &g), AL_E_AGAIN); // has said nothing yet
    struct pollfd p[1 + AL_LINK_PENDING];
    assert_int_equal(al_link_poll(&l, p), 2);
    greet(s, AL_RING_HELLO_MAGIC, sizeof(struct al_ring_hello), fd, 1);
    assert_int_equal(poll(p, 2, 1000), 1);
    assert_int_equal(al_link_take(&l, 2, &g), 0);
    assert_int_equal(g.pid, getpid()); // the kernel's word, not the message's
    assert_int_equal(g.hello.pid, 42);
    assert_true(fcntl(g.ring_fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(l.refused, 0);
    (void)close(g.ring_fd);
    (void)close(g.connection_fd);
    (void)close(fd);
    (void)close(s);
    char dir[sizeof l.dir];
    memcpy(dir, l.dir, sizeof dir);
    al_link_close(&l);
    assert_int_equal(access(dir, F_OK), -1);
}

static void test_what_is_refused(void **unused) {
    (void)unused;
    struct al_link l;
    struct al_link_guest g;
    assert_int_equal(al_link_open(&l), 0);
    int good = sealed(), bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING), before = open_fds();
    const struct {
        const char *magic;
        size_t len;
        int fd, count;
    } cases[] = {{"ALHELLO2", 64, good, 1}, {AL_RING_HELLO_MAGIC, 63, good, 1}, {AL_RING_HELLO_MAGIC, 64, bare, 1},
                 {AL_RING_HELLO_MAGIC, 64, good, 0}, {AL_RING_HELLO_MAGIC, 1, good, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int s = dial(&l);
        greet(s, cases[i].magic, cases[i].len, cases[i].fd, cases[i].count);
        assert_int_equal(al_link_take(&l, 1, &g), AL_E_AGAIN);
        assert_int_equal(l.refused, i + 1);
        (void)close(s);
        assert_int_equal(open_fds(), before); // no descriptor stays behind
    }
    int silent = dial(&l);
    assert_int_equal(al_link_take(&l, 1, &g), AL_E_AGAIN);
    assert_int_equal(al_link_take(&l, 6000000000LL, &g), AL_E_AGAIN);
    assert_int_equal(l.refused, 6);
    (void)close(silent);
    int s = dial(&l);
    greet(s, AL_RING_HELLO_MAGIC, 64, good, 2); // the second one is closed
    assert_int_equal(al_link_take(&l, 1, &g), 0);
    (void)close(g.ring_fd);
    (void)close(g.connection_fd);
    (void)close(s);
    assert_int_equal(open_fds(), before);
    al_link_close(&l);
    (void)close(good);
    (void)close(bare);
}

static void age(const char *dir, int seconds) {
    struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    assert_int_equal(utimensat(AT_FDCWD, dir, t, 0), 0);
}

// What a killed alula leaves is cleared away by the next one; what lives or is young is not.
static void test_stale_folders_go(void **unused) {
    (void)unused;
    struct al_link dead, living, young, next;
    char place[] = "/tmp/alula-test-XXXXXX";
    assert_non_null(mkdtemp(place));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", place, 1), 0);
    assert_int_equal(al_link_open(&dead), 0);
    assert_int_equal(al_link_open(&living), 0);
    assert_int_equal(al_link_open(&young), 0);
    (void)close(dead.listen_fd);
    (void)close(young.listen_fd);
    age(dead.dir, 100);
    age(living.dir, 100);
    assert_int_equal(al_link_open(&next), 0);
    assert_int_equal(access(dead.dir, F_OK), -1);
    assert_int_equal(access(living.dir, F_OK), 0);
    assert_int_equal(access(young.dir, F_OK), 0);
    young.listen_fd = dead.listen_fd = -1;
    al_link_close(&young);
    al_link_close(&living);
    al_link_close(&next);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(rmdir(place), 0);
}

static void test_taken_over(void **unused) {
    (void)unused;
    struct al_link first, second;
    char place[] = "/tmp/alula-test-XXXXXX", path[100], other[150];
    assert_non_null(mkdtemp(place));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", place, 1), 0);
    assert_int_equal(al_link_open(&first), 0);
    memcpy(path, first.path, sizeof path);
    assert_int_equal(al_link_take_over(&second, path), AL_E_AGAIN); // it lives
    (void)close(dial(&first));
    // Killed: its files stay, the kernel takes its lock.
    (void)close(first.listen_fd);
    (void)close(first.dir_fd);
    assert_int_equal(al_link_take_over(&second, path), 0);
    (void)close(dial(&second));
    assert_string_equal(second.path, path);
    // Ended in order: nothing is left, and the same path can be had again.
    al_link_close(&second);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(al_link_take_over(&second, path), 0);
    (void)close(dial(&second));
    al_link_close(&second);
    // Nothing is made or removed elsewhere.
    const char *const wrong[] = {NULL, "", "ring", "/tmp/ring", "/etc/passwd", "alula-run-abcdef/ring", "/tmp/alula-run-abcdef",
                                 "/tmp/alula-run-abcdef/x/ring", "/tmp/alula-run-a/ring"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(al_link_take_over(&second, wrong[i]), AL_E_INVALID);
    // What others may enter is not used, and stays as it is.
    (void)snprintf(other, sizeof other, "%s/alula-run-abcdef", place);
    assert_int_equal(mkdir(other, 0755), 0);
    assert_int_equal(chmod(other, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/alula-run-abcdef/ring", place);
    assert_int_equal(al_link_take_over(&second, path), AL_E_DENIED);
    al_link_close(&second);
    assert_int_equal(rmdir(other), 0);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(rmdir(place), 0);
}

static void test_where_it_lies(void **unused) {
    (void)unused;
    struct al_link l;
    char dir[] = "/tmp/alula-test-XXXXXX", far[200];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("XDG_RUNTIME_DIR", dir, 1), 0);
    assert_int_equal(al_link_open(&l), 0);
    assert_memory_equal(l.path, dir, strlen(dir));
    al_link_close(&l);
    memset(far, 'x', sizeof far - 1);
    far[0] = '/';
    far[sizeof far - 1] = '\0';
    assert_int_equal(setenv("XDG_RUNTIME_DIR", far, 1), 0); // too long for a socket's name
    assert_int_equal(al_link_open(&l), 0);
    assert_memory_equal(l.path, "/tmp/alula-run-", 15);
    al_link_close(&l);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(rmdir(dir), 0);
}

int link_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_ring_is_taken), cmocka_unit_test(test_what_is_refused),
                                       cmocka_unit_test(test_stale_folders_go),
                                       cmocka_unit_test(test_taken_over),
                                       cmocka_unit_test(test_where_it_lies)};
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
