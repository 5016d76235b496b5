// SPDX-License-Identifier: Apache-2.0
// Readers of the kernel's text files, pure over buffers. Every text is untrusted: a figure that is missing, garbled or
// too large for 64 bits is reported as not known, never as 0. Formats: proc(5), Documentation/filesystems/proc.rst,
// Documentation/admin-guide/iostats.rst, Documentation/accounting/psi.rst.
#ifndef AL_HOST_PARSE_H
#define AL_HOST_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// /proc/PID/stat. Times are in clock ticks.
struct al_host_stat {
    char comm[32]; // control bytes replaced
    pid_t pid, ppid;
    char state;
    uint64_t utime, stime, threads, start_ticks;
    uint64_t blkio_ticks; // field 42: of the main thread only, see fs/proc/array.c
    uint64_t start_stack; // where its stack began at exec; a fork keeps it. 0 when we may not know
    bool has_blkio;       // kernels and containers may cut the line short
};
// AL_E_FORMAT when one of fields 1 to 22 that we need is missing or no number.
int al_parse_stat(const char *text, size_t len, struct al_host_stat *ret);

// Lines "Key:  123 kB" or "key 123". Fills values[i] for keys[i] (kB become bytes) and returns the bits of those found.
uint32_t al_parse_keys(const char *text, const char *const *keys, unsigned count, uint64_t *values);

// "some avg10=1.23 avg60=…": the share (0..1) of the last 10 s on the line that begins with `which`; false when absent.
bool al_parse_psi(const char *text, const char *which, double *ret_ratio);

// First line of /proc/stat in ticks.
struct al_host_cpu {
    uint64_t total, idle, iowait; // total includes both; guest time is inside user time
};
bool al_parse_cpu(const char *text, struct al_host_cpu *ret);

// "0-3,8,10-11" -> 7. 0 when there is nothing to count.
uint64_t al_parse_cpulist(const char *text);
// The number that a file holds ("max\n" and garbage: false).
bool al_parse_number(const char *text, uint64_t *ret);
// Space-separated pids (/proc/PID/task/TID/children); returns how many, at most max.
size_t al_parse_pids(const char *text, pid_t *ret, size_t max);

// One line of /proc/diskstats.
struct al_host_disk {
    char name[32];
    uint64_t read_bytes, written_bytes, busy_ms;
};
// Parses the line at *cursor and moves on; false at the end. Lines that make no sense are passed over.
bool al_parse_disk(const char **cursor, struct al_host_disk *ret);
// Loop, RAM, device mapper and other devices whose I/O shows again in the devices below them.
bool al_disk_is_stacked(const char *name);
// "sda1" of "sda", "nvme0n1p2" of "nvme0n1".
bool al_disk_is_partition_of(const char *name, const char *whole);

// One line of /proc/net/dev.
struct al_host_net {
    char name[32];
    uint64_t rx_bytes, tx_bytes;
};
bool al_parse_net(const char **cursor, struct al_host_net *ret);

// What a process's environment says of its place in a job, by allow-list. -1 and "" when not said.
struct al_host_env {
    int32_t rank, local_rank, world_size, node_rank;
    uint64_t meeting; // a number of MASTER_ADDR and MASTER_PORT, where its ranks meet; 0 when neither is said
    char slurm_job[24];
    char visible_devices[96];
};
// NUL-separated environ; a last entry without its NUL was cut off and is not used.
void al_parse_environ(const char *text, size_t len, struct al_host_env *ret);

#endif
