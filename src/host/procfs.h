// SPDX-License-Identifier: Apache-2.0
// Inside of the procfs backend: shared by its own files, nobody else.
#ifndef AL_HOST_PROCFS_H
#define AL_HOST_PROCFS_H

#include "base/clock.h"
#include "host/host.h"
#include "host/track.h"

struct al_role_node;

#define AL_HOST_SCRATCH (256 * 1024) // environ, /proc/stat with its interrupt line, diskstats
#define AL_HOST_TEXT_NS (10 * AL_NS_PER_S)   // command lines are looked at again this often, for exec and new titles
#define AL_HOST_CGROUP_NS (30 * AL_NS_PER_S) // a process's control group likewise
#define AL_HOST_SCAN_NS (10 * AL_NS_PER_S)   // whole scans of /proc, where the kernel lists no children

struct al_limit {
    char path[AL_CGROUP_PATH_MAX];
    bool v1;
    uint64_t generation;
    struct al_value limit, used, anon;
};

#define AL_HOST_DISKS 128
#define AL_HOST_NETS 128
#define AL_HOST_USERS 64
#define AL_HOST_LIMITS 32
#define AL_HOST_BUCKETS 1024

struct al_node_state {
    struct al_host_cpu cpu;
    bool cpu_known;
    int64_t names_ns, allowed_ns, disk_ns, net_ns; // 0: not yet
    double allowed; // 0: not known
    char hostname[96], boot_id[40];
    struct al_host_disk disk[AL_HOST_DISKS];
    unsigned disk_count;
    struct al_node_net {
        struct al_host_net last;
        bool hardware; // has a device of its own below it, is no bridge, bond or tunnel
    } net[AL_HOST_NETS];
    unsigned net_count;
};

struct al_parentage {
    pid_t ppid, pid;
};

struct al_procfs {
    struct al_host host;
    int root_fd;
    bool real_root, no_cmdline;
    char *scratch; // AL_HOST_SCRATCH bytes
    uint64_t reads; // files and folders opened so far; tests bound it
    long ticks_per_s;
    uint64_t boot_s; // btime; 0 unknown
    uint64_t pid_ns;
    bool host_pid_ns, all_visible; // all_visible: no hidepid hides other people's processes
    struct al_cgroup own;
    struct al_node_state node;
    pid_t roots[AL_PROCFS_ROOTS];
    unsigned root_count;

    uint64_t generation;
    struct al_track *bucket[AL_HOST_BUCKETS];
    struct al_track *spare;
    unsigned spare_count, track_count;
    struct al_track **visited; // of this reading
    size_t visited_count, visited_cap;
    struct al_role_node *nodes;
    pid_t *order; // pids to hand out, sorted
    size_t node_cap, order_count, order_cap;
    struct al_parentage *kids; // found in this reading, to be visited
    size_t kid_count, kid_cap;
    struct al_parentage *scan; // sorted by parent
    size_t scan_count, scan_cap;
    int64_t scan_ns;
    bool no_children_file;
    unsigned task_budget;
    bool tasks_ran_out; // in the reading before
    int64_t pss_budget_ns;
    uint32_t groups;
    uint64_t delay_since; // start time from which processes surely have delay accounting; UINT64_MAX: none known
    bool delay_off;

    struct {
        uid_t uid;
        char name[32];
    } user[AL_HOST_USERS];
    unsigned user_count, user_next;
    struct al_limit limit[AL_HOST_LIMITS];
    unsigned limit_next;
};

// al_fs_* with a count.
ssize_t al_procfs_read(struct al_procfs *p, int dir_fd, const char *path, char *out, size_t size);
ssize_t al_procfs_readf_at(struct al_procfs *p, int dir_fd, char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Status of a value whose file could not be read.
enum al_status al_procfs_status(ssize_t error);

int al_procfs_node(struct al_host *h, struct al_snapshot *s, int64_t now_ns);
// Boot time, pid namespace, visibility and own control group; at the start and once in a while.
void al_procfs_probe(struct al_procfs *p);

const char *al_procfs_user(struct al_procfs *p, uid_t uid);
// Memory limit, use and anonymous memory of a process's control group; read once a reading and group.
const struct al_limit *al_procfs_limit(struct al_procfs *p, const char *path, bool v1, int64_t now_ns);
// CPUs that alula's own groups allow; false when nothing limits them.
bool al_procfs_cpu_limit(struct al_procfs *p, double *ret_cpus);

#endif
