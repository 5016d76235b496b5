// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <string.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define UID "6d1f0c3e-1111-2222-3333-444455556666"
#define UID_ "6d1f0c3e_1111_2222_3333_444455556666"

static void places(void **state) {
    (void)state;
    static const struct {
        const char *text, *container, *pod, *job;
    } table[] = {
        {"0::/user.slice/user-1000.slice/session-3.scope\n", "", "", ""},
        {"0::/system.slice/docker-" ID ".scope\n", ID, "", ""},
        {"12:memory:/docker/" ID "\n0::/\n", ID, "", ""},
        {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
         ID, UID, ""},
        {"4:memory:/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID, ""},
        {"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container\n", ID, UID, ""},
        {"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope\n", "", UID, ""},
        {"0::/kubepods/burstable/podaaaabbbbccccddddeeeeffff00001111/" ID "\n", ID, "aaaabbbbccccddddeeeeffff00001111", ""},
        {"0::/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID "\n", ID, UID, ""},
        {"0::/machine.slice/libpod-" ID ".scope/container\n", ID, "", ""},
        {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n", ID, "", ""},
        {"0::/machine.slice/libpod-conmon-" ID ".scope\n", "", "", ""},
        {"0::/docker/" ID "/kubepods/besteffort/pod" UID "/" ID2 "\n", ID2, UID, ""}, // a cluster inside a container
        {"0::/lxc/web1/init.scope\n", "web1", "", ""},
        {"0::/lxc.payload.web2/x\n", "web2", "", ""},
        {"0::/lxc.payload/web3\n", "web3", "", ""},
        {"0::/lxc.monitor.web2\n", "", "", ""},
        {"9:memory:/slurm/uid_1000/job_4711/step_0/task_0\n", "", "", "4711"},
        {"0::/system.slice/slurmstepd.scope/job_4712/step_batch/user/task_0\n", "", "", "4712"},
        {"0::/other/job_4713\n", "", "", ""},
        {"0::/system.slice/docker-0123.scope\n", "", "", ""},
        {"0::/system.slice/docker-" ID ".scope", "", "", ""}, // cut off
        {"\n::::\n0:/x\nx\n0::relative\n", "", "", ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct al_cgroup c;
        al_cgroup_parse(table[i].text, &c);
        assert_string_equal(c.container, table[i].container);
        assert_string_equal(c.pod, table[i].pod);
        assert_string_equal(c.slurm_job, table[i].job);
    }
}

static void paths(void **state) {
    (void)state;
    struct al_cgroup c;
    al_cgroup_parse("9:name=systemd:/sys\n8:cpu,cpuacct:/c\n7:cpuset:/no\n4:memory:/m\n0::/\n", &c);
    assert_string_equal(c.unified, "/");
    assert_string_equal(c.memory, "/m");
    assert_string_equal(c.cpu, "/c");
    assert_string_equal(al_cgroup_show(&c), "/m");
    al_cgroup_parse("0::/\n", &c);
    assert_string_equal(al_cgroup_show(&c), "/");
    al_cgroup_parse("3:cpuacct:/a\n2:cpu:/b\n", &c);
    assert_string_equal(c.cpu, "/b");
    // Too long to keep: not known, rather than the group above it.
    char text[3000];
    memset(text, 'x', sizeof text);
    memcpy(text, "0::/", 4);
    memcpy(text + sizeof text - 2, "\n", 2);
    al_cgroup_parse(text, &c);
    assert_string_equal(c.unified, "");
}

int cgroup_suite(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(paths)};
    return cmocka_run_group_tests_name("host cgroup", tests, NULL, NULL);
}
