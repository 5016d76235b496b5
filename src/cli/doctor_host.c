// SPDX-License-Identifier: Apache-2.0
// alula doctor: where alula runs, what it may see of processes, what the kernel tells of waiting.
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/doctor.h"

// Inode of the first pid namespace: PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h.
#define HOST_PID_NS "pid:[4026531836]"

static const char *container_kind(const struct al_doctor *d) {
    static const struct {
        const char *word, *kind;
    } marks[] = {{"kubepods", "Kubernetes"}, {"docker", "Docker"},     {"libpod", "Podman"},
                 {"containerd", "containerd"}, {"crio-", "CRI-O"}, {"lxc", "LXC"}};
    char text[4096];
    if (al_fs_read(d->root_fd, "proc/self/cgroup", text, sizeof text) > 0)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (strstr(text, marks[i].word))
                return marks[i].kind;
    if (al_doctor_exists(d, ".dockerenv"))
        return "Docker";
    if (al_doctor_exists(d, "run/.containerenv"))
        return "Podman";
    if (al_fs_read(d->root_fd, "run/systemd/container", text, sizeof text) > 0)
        return "of systemd's kind";
    return NULL;
}

void al_doctor_place(struct al_doctor *d) {
    const char *kind = container_kind(d);
    d->container = kind != NULL;
    d->wsl = al_doctor_exists(d, "dev/dxg");
    if (d->wsl)
        al_doctor_add(d, AL_CHECK_NOTE, "wsl", NULL, "Windows Subsystem for Linux: processes, ECC and some counters are not "
                      "told to the Linux side");
    if (kind)
        al_doctor_add(d, AL_CHECK_NOTE, "container", NULL, "inside a container (%s)", kind);
}

static void check_pid_namespace(struct al_doctor *d) {
    char text[64];
    if (al_fs_link(d->root_fd, "proc/self/ns/pid", text, sizeof text) <= 0)
        al_doctor_add(d, AL_CHECK_UNKNOWN, "pid_namespace", NULL, "/proc/self/ns/pid cannot be read");
    else if (strcmp(text, HOST_PID_NS) == 0)
        al_doctor_add(d, AL_CHECK_OK, "pid_namespace", NULL, "the host's: all processes can be named");
    else
        al_doctor_add(d, AL_CHECK_NOTE, "pid_namespace",
                      "run alula with the host's pids (docker run --pid=host, hostPID: true) to see every process",
                      "one of its own: the driver lists only this namespace's processes, used memory counts all");
}

// Options of the mount of /proc, "" when not found.
static void proc_options(const struct al_doctor *d, char *out, size_t size) {
    char text[16384], *save = NULL;
    out[0] = '\0';
    if (al_fs_read(d->root_fd, "proc/self/mounts", text, sizeof text) <= 0)
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *field_save = NULL;
        (void)strtok_r(line, " ", &field_save);
        const char *where = strtok_r(NULL, " ", &field_save), *type = strtok_r(NULL, " ", &field_save),
                   *options = strtok_r(NULL, " ", &field_save);
        if (options && strcmp(where, "/proc") == 0 && strcmp(type, "proc") == 0)
            (void)al_str_copy(out, size, options); // the last mount is the one in sight
    }
}

static void check_hidepid(struct al_doctor *d) {
    char options[512];
    proc_options(d, options, sizeof options);
    const char *hidepid = strstr(options, "hidepid=");
    bool hides = hidepid && strncmp(hidepid, "hidepid=0", 9) != 0 && strncmp(hidepid, "hidepid=off", 11) != 0;
    if (!options[0])
        al_doctor_add(d, AL_CHECK_UNKNOWN, "proc_visibility", NULL, "how /proc is mounted cannot be read");
    else if (!hides)
        al_doctor_add(d, AL_CHECK_OK, "proc_visibility", NULL, "/proc shows everybody's processes");
    else if (geteuid() == 0)
        al_doctor_add(d, AL_CHECK_OK, "proc_visibility", NULL, "/proc hides other users' processes, but not from root");
    else
        al_doctor_add(d, AL_CHECK_NOTE, "proc_visibility",
                      "run alula as root or in the group of /proc's gid= option to see them",
                      "/proc is mounted with %.*s: other users' processes have no name, user or host figures",
                      (int)strcspn(hidepid, ","), hidepid);
}

static void check_pressure(struct al_doctor *d) {
    char text[256];
    ssize_t len = al_fs_read(d->root_fd, "proc/pressure/io", text, sizeof text);
    if (len > 0)
        al_doctor_add(d, AL_CHECK_OK, "pressure", NULL, "PSI is on: waiting for CPU, memory and I/O is measured");
    else
        al_doctor_add(d, AL_CHECK_NOTE, "pressure", "boot with psi=1 (kernel 4.20 or newer, CONFIG_PSI)",
                      "no PSI (%s): that the node waits for memory or I/O shows less clearly",
                      len < 0 && len != AL_E_NOENT ? al_error_text((int)len) : "/proc/pressure is not there");
}

static void check_delay_accounting(struct al_doctor *d) {
    uint64_t on = 0;
    int result = al_fs_u64(d->root_fd, "proc/sys/kernel/task_delayacct", &on);
    if (result)
        al_doctor_add(d, AL_CHECK_NOTE, "delay_accounting", "boot with delayacct",
                      "kernel.task_delayacct is not there (kernel before 5.14, or built without it): a process's I/O wait is "
                      "judged by its blocked threads");
    else if (on)
        al_doctor_add(d, AL_CHECK_OK, "delay_accounting", NULL, "on: a process's I/O wait is measured");
    else
        al_doctor_add(d, AL_CHECK_NOTE, "delay_accounting",
                      "sysctl kernel.task_delayacct=1 as root; processes started from then on are measured",
                      "off: a process's I/O wait is judged by its blocked threads");
}

static void check_cgroups(struct al_doctor *d) {
    if (al_doctor_exists(d, "sys/fs/cgroup/cgroup.controllers"))
        al_doctor_add(d, AL_CHECK_OK, "cgroups", NULL, "version 2");
    else if (al_doctor_exists(d, "sys/fs/cgroup/unified/cgroup.controllers"))
        al_doctor_add(d, AL_CHECK_OK, "cgroups", NULL, "version 1 with version 2 beside it");
    else if (al_doctor_exists(d, "sys/fs/cgroup/memory"))
        al_doctor_add(d, AL_CHECK_OK, "cgroups", NULL, "version 1");
    else
        al_doctor_add(d, AL_CHECK_UNKNOWN, "cgroups", NULL, "/sys/fs/cgroup is not mounted here: no memory limits of jobs");
}

void al_doctor_host(struct al_doctor *d) {
    check_pid_namespace(d);
    check_hidepid(d);
    check_pressure(d);
    check_delay_accounting(d);
    check_cgroups(d);
}

// Programs that program the counters or poll the driver; comm holds the first 15 bytes of a name.
static const struct {
    const char *comm;
    bool profiler;
} holders[] = {
    {"nsys", true},          {"nsys-launcher", true}, {"ncu", true},           {"nvprof", true},
    {"nv-nsight-cu-cl", true}, {"nv-hostengine", false}, {"dcgm-exporter", false}, {"dcgmi", false},
};

static void look_at(const struct al_doctor *d, const char *pid, struct al_doctor_list *profilers,
                    struct al_doctor_list *monitors) {
    char comm[32], text[64];
    if (al_fs_readf(d->root_fd, comm, sizeof comm, "proc/%s/comm", pid) <= 0)
        return;
    comm[strcspn(comm, "\n")] = '\0';
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
        if (strcmp(holders[i].comm, comm) != 0)
            continue;
        (void)snprintf(text, sizeof text, "%s (pid %.12s)", comm, pid);
        al_doctor_list_add(holders[i].profiler ? profilers : monitors, text);
    }
}

static void check_admin_only(struct al_doctor *d) {
    char text[16384];
    if (al_fs_read(d->root_fd, "proc/driver/nvidia/params", text, sizeof text) <= 0)
        return;
    const char *key = strstr(text, "RmProfilingAdminOnly:");
    const char *value = key ? key + strlen("RmProfilingAdminOnly:") : "";
    value += strspn(value, " \t");
    if (*value == '1' && geteuid() != 0)
        al_doctor_add(d, AL_CHECK_NOTE, "profiling_rights",
                      "as root: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reload the driver",
                      "performance counters are for root only (RmProfilingAdminOnly 1): kernel profiles will be refused");
    else if (*value)
        al_doctor_add(d, AL_CHECK_OK, "profiling_rights", NULL,
                      *value == '1' ? "performance counters are for root only, and this is root"
                                    : "performance counters are open to every user");
}

void al_doctor_holders(struct al_doctor *d) {
    struct al_doctor_list profilers = {0}, monitors = {0};
    int fd = openat(d->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (isdigit((unsigned char)e->d_name[0]))
            look_at(d, e->d_name, &profilers, &monitors);
    if (!dir && fd >= 0)
        (void)close(fd);
    check_admin_only(d);
    if (!dir) {
        al_doctor_add(d, AL_CHECK_UNKNOWN, "profilers", NULL, "/proc cannot be listed");
        return;
    }
    (void)closedir(dir);
    if (profilers.count)
        al_doctor_add(d, AL_CHECK_NOTE, "profilers", "figures of the job that they profile are not those of a free run",
                      "running: %s", al_doctor_list_text(&profilers));
    if (monitors.count)
        al_doctor_add(d, AL_CHECK_NOTE, "monitors",
                      "if activity counters (GPM) stay empty, stop DCGM's profiling: dcgmi profile --pause",
                      "also reading the driver: %s", al_doctor_list_text(&monitors));
    if (!profilers.count && !monitors.count)
        al_doctor_add(d, AL_CHECK_OK, "profilers", NULL, "neither a profiler nor DCGM was seen");
}
