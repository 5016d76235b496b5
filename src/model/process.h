// SPDX-License-Identifier: Apache-2.0
// Processes: one row per process (host side) and one per process and device (GPU side).
#ifndef AL_MODEL_PROCESS_H
#define AL_MODEL_PROCESS_H

#include <sys/types.h>

#include "model/status.h"

enum al_role {
    AL_ROLE_UNKNOWN,
    AL_ROLE_LAUNCHER, // started ranks, computes nothing itself (torchrun, accelerate, swift, mpirun ...)
    AL_ROLE_RANK,     // a training process
    AL_ROLE_WORKER,   // a DataLoader worker of a rank
    AL_ROLE_ENGINE,   // a serving engine (vLLM, SGLang ...)
    AL_ROLE_NOTEBOOK, // a notebook kernel
    AL_ROLE_OTHER     // another child of a job
};

// Host-side figures of a process: X(ID, name, unit, kind, help)
#define AL_PROC_METRICS(X)                                                                                             \
    X(CPU, "cpu_ratio", RATIO, GAUGE, "CPU time over wall time since the last reading; 1 is one core")                 \
    X(RSS, "resident_bytes", BYTES, GAUGE, "resident set: anonymous, shared and file pages together")                  \
    X(RSS_ANON, "resident_anonymous_bytes", BYTES, GAUGE, "RssAnon: private memory, the part that leaks")              \
    X(RSS_SHMEM, "resident_shared_bytes", BYTES, GAUGE, "RssShmem: shared memory, DataLoader batches among it")        \
    X(RSS_FILE, "resident_file_bytes", BYTES, GAUGE, "RssFile: mapped files")                                          \
    X(SWAP, "swap_bytes", BYTES, GAUGE, "VmSwap")                                                                      \
    X(PSS, "proportional_set_bytes", BYTES, GAUGE, "Pss: shared pages divided by those who share them")                \
    X(IO_WAIT, "io_wait_ratio", RATIO, GAUGE, "share of wall time blocked on block I/O (delay accounting)")            \
    X(READ_RATE, "read_bytes_per_second", BYTES_PER_SECOND, GAUGE, "bytes fetched from storage")                       \
    X(READ_CHARS, "read_chars_per_second", BYTES_PER_SECOND, GAUGE, "bytes read through system calls, cached or not")  \
    X(WRITE_RATE, "written_bytes_per_second", BYTES_PER_SECOND, GAUGE, "bytes sent to storage")                        \
    X(THREADS, "threads", COUNT, GAUGE, "threads")                                                                     \
    X(BLOCKED, "blocked_threads", COUNT, GAUGE, "threads in uninterruptible sleep (state D) at the reading")           \
    X(CGROUP_LIMIT, "cgroup_memory_limit_bytes", BYTES, GAUGE, "lowest memory limit of its cgroup and above")          \
    X(CGROUP_ANON, "cgroup_memory_anonymous_bytes", BYTES, GAUGE, "anonymous memory of its cgroup")                    \
    X(CGROUP_USED, "cgroup_memory_used_bytes", BYTES, GAUGE, "memory.current of its cgroup")

enum al_proc_metric {
#define X(id, name, unit, kind, help) AL_PROC_##id,
    AL_PROC_METRICS(X)
#undef X
        AL_PROC_METRIC_COUNT
};

#define AL_CMD_MAX 512

struct al_proc {
    // identity: (boot id of the node, pid namespace, pid, start time)
    uint64_t pid_ns;
    uint64_t start_ticks; // field 22 of stat; 0 when unknown
    pid_t pid, ppid;
    uid_t uid;
    bool alive;           // seen in /proc
    bool foreign;         // the driver names a pid that this pid namespace cannot see
    char state;           // R S D Z ... ; 0 unknown
    char user[32];        // "" when unknown
    char comm[32];
    char exe[96];         // last part of the executable or of argv[0]
    char command[AL_CMD_MAX]; // masked; arguments separated by blanks; "" with --no-cmdline
    char cgroup[160];
    char container[72];   // container id, "" when none
    char pod[72];         // pod UID or name, "" when none
    char slurm_job[24];
    char visible_devices[96]; // CUDA_VISIBLE_DEVICES as the process has it; "" when unset
    int32_t rank, local_rank, world_size, node_rank; // -1 when unknown
    uint64_t meeting;     // a number of the place where its ranks meet (MASTER_ADDR, MASTER_PORT); 0 when unknown
    uint32_t role;        // enum al_role
    pid_t job;            // pid of the tree's topmost job process (the launcher, or itself)
    pid_t owner;          // for a worker: the rank it belongs to
    bool holds_context;   // appears in a GPU's process list
    int64_t started_realtime_ns;
    struct al_value m[AL_PROC_METRIC_COUNT];
};

enum al_proc_type { AL_PROC_COMPUTE = 1, AL_PROC_GRAPHICS = 2, AL_PROC_MPS = 4 };

// A process on a device.
struct al_proc_gpu {
    pid_t pid;      // as the driver names it
    uint32_t gpu;   // position in the snapshot
    uint32_t type;  // enum al_proc_type bits
    uint32_t order; // rises along the driver's own lists of a GPU, compute before graphics; 0 where there are none
    uint32_t gpu_instance, compute_instance; // 0xffffffff when none
    struct al_value memory_bytes;
    struct al_value sm_ratio, memory_ratio, encoder_ratio, decoder_ratio, jpeg_ratio, ofa_ratio;
    char driver_name[256]; // what the driver calls the process, a path as a rule ("" when it does not say)
};

extern const struct al_metric_info *const al_proc_metric_table; // AL_PROC_METRIC_COUNT rows
const char *al_role_word(uint32_t role);
int al_role_from_word(const char *word);
// "C", "G", "M+C" … of enum al_proc_type bits; "?" for none.
const char *al_proc_type_word(uint32_t type);

#endif
