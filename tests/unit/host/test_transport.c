// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "host/transport.h"
#include "suite.h"

static void check(const struct tree *t, pid_t pid, const char *expected) {
    char text[512];
    int root;
    assert_int_equal(al_fs_root(t->root, &root), 0);
    assert_int_equal(al_transport_text(root, pid, text, sizeof text), 0);
    assert_string_equal(text, expected);
    (void)close(root);
}

static void environ_of(const struct tree *t, const char *words, size_t len) {
    tree_bytes(t, "proc/7/environ", words, len);
}
#define ENVIRON(t, words) environ_of(t, words, sizeof words)

static void test_what_a_process_holds_open(void **unused) {
    (void)unused;
    struct tree t;
    tree_new(&t);
    tree_link(&t, "proc/7/fd/0", "/dev/null");
    tree_link(&t, "proc/7/fd/1", "/dev/infiniband/rdma_cm"); // no device of its own
    ENVIRON(&t, "HOME=/x\0");
    check(&t, 7, "verbs_open=0 verbs_devices=0");
    tree_link(&t, "proc/7/fd/2", "/dev/infiniband/uverbs0");
    tree_link(&t, "proc/7/fd/3", "/dev/infiniband/uverbs1");
    tree_link(&t, "sys/class/infiniband/mlx5_0", "../../devices/x");
    tree_link(&t, "sys/class/infiniband/mlx5_1", "../../devices/y");
    check(&t, 7, "verbs_open=2 verbs_devices=2");
    tree_free(&t);
}

static void test_variables_by_list(void **unused) {
    (void)unused;
    struct tree t;
    tree_new(&t);
    tree_link(&t, "proc/7/fd/0", "/dev/null");
    ENVIRON(&t, "TOKEN=secret\0NCCL_NET=Socket\0NCCL_DEBUG_FILE=/home/secret\0LOCAL_WORLD_SIZE=8\0NCCL_IB_DISABLE=1\0"
                "NCCL_SOCKET_IFNAME==eth0, \033[2Jeth1\0XNCCL_NET=no\0NCCL_NET_PLUGIN=\0");
    check(&t, 7, "verbs_open=0 verbs_devices=0 NCCL_NET=Socket local_world=8 NCCL_IB_DISABLE=1 "
                 "NCCL_SOCKET_IFNAME=_eth0,_?[2Jeth1");
    ENVIRON(&t, "NCCL_NET=aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee");
    check(&t, 7, "verbs_open=0 verbs_devices=0 NCCL_NET=aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd");
    environ_of(&t, "NCCL_NET=cut", 12); // without its end
    check(&t, 7, "verbs_open=0 verbs_devices=0");
    tree_free(&t);
}

static void test_gone(void **unused) {
    (void)unused;
    struct tree t;
    char text[512] = "as it was";
    int root;
    tree_new(&t);
    assert_int_equal(al_fs_root(t.root, &root), 0);
    assert_int_equal(al_transport_text(root, 99, text, sizeof text), AL_E_NOENT);
    assert_string_equal(text, "as it was");
    (void)close(root);
    tree_free(&t);
}

int transport_suite(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_process_holds_open),
        cmocka_unit_test(test_variables_by_list),
        cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
