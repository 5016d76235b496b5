// SPDX-License-Identifier: Apache-2.0
// Processes of the procfs backend between two readings.
#ifndef AL_HOST_TRACK_H
#define AL_HOST_TRACK_H

#include "base/clock.h"
#include "host/cgroup.h"
#include "host/command.h"
#include "host/parse.h"
#include "model/process.h"

struct al_procfs;

#define AL_HOST_TASKS 1024 // threads looked at in one reading, over all processes
#define AL_HOST_TREE 8192  // processes looked at in one reading

// A counter that becomes a rate.
struct al_rate {
    uint64_t last;
    int64_t at_ns;
    bool known;
};

// A process between two readings.
struct al_track {
    struct al_track *next; // in its hash bucket, or in the list of spare ones
    uint64_t generation;   // reading in which it was last seen
    uint64_t tried;        // reading in which it was last looked for because it was known
    bool tree;             // its children belong to the picture
    bool gpu;              // in the GPU's list of compute processes
    bool trains, root;     // a rank that tells of itself; the top of a job's tree, as the caller said
    bool boundary;         // shell or daemon: read no further than its name
    uint64_t devices;
    uint64_t start_stack;
    struct al_proc row;
    struct al_program program;
    char memory_path[AL_CGROUP_PATH_MAX];
    bool memory_v1;
    char env_job[24]; // SLURM_JOB_ID
    int64_t text_ns, cgroup_ns, kids_ns, pss_ns, pss_next_ns, device_ns;
    double kids_threads; // threads at the last look for their children
    uint64_t tasks_generation; // reading in which its threads were last looked at
    bool holds_device;         // device files of a GPU driver are open
    struct al_rate cpu, blkio, read, chars, written;
};

// Change per second since the last call, UNREAD at the first and after a counter fell.
struct al_value al_rate_next(struct al_rate *r, uint64_t value, int64_t now_ns);

// Looks at a process, once a reading, and keeps it; NULL with *ret_error when it is not in /proc, may not be read, or
// memory is out. `tree`: its threads and children are looked at too, and the children put into p->kids.
struct al_track *al_track_visit(struct al_procfs *p, pid_t pid, bool tree, int64_t now_ns, int *ret_error);
struct al_track *al_track_find(const struct al_procfs *p, pid_t pid);
void al_track_evict(struct al_procfs *p); // drops what this reading has not seen
void al_track_free_all(struct al_procfs *p);
// Folder of a process below the root; negative al_error.
int al_procfs_open_process(struct al_procfs *p, pid_t pid);
void al_track_add_kid(struct al_procfs *p, pid_t ppid, pid_t pid);
void al_track_tasks(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns);
void al_track_pss(struct al_procfs *p, struct al_track *t, int dir_fd, int64_t now_ns);
// True when the process has a GPU driver's device file open; false when not or not allowed to look.
bool al_track_holds_device(struct al_procfs *p, struct al_track *t, int64_t now_ns);
// Scans all of /proc for parentage when the last scan is old.
void al_scan_refresh(struct al_procfs *p, int64_t now_ns);
void al_scan_children(struct al_procfs *p, pid_t parent); // of the last scan, into p->kids

#endif
