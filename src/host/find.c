// SPDX-License-Identifier: Apache-2.0
// Training that neither a driver nor an alula tells of: found by what was started.
#include <dirent.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "host/command.h"
#include "host/host.h"
#include "host/parse.h"
#include "host/roles.h"

#define CLIMB_MAX 64
#define LOOKED_MOST 200000 // processes, in one search

static bool starts_training(int root, pid_t pid) {
    char args[4096];
    struct al_program program;
    ssize_t len = al_fs_readf(root, args, sizeof args, "proc/%d/cmdline", (int)pid);
    if (len <= 0)
        return false;
    al_program_parse(args, (size_t)len, &program);
    return al_role_starts_training(program.name, program.verb);
}

static bool is_among(const pid_t *pids, size_t count, pid_t pid) {
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static bool stands_below(int root, pid_t pid, const pid_t *pids, size_t count) {
    for (int steps = 0; steps < CLIMB_MAX; steps++) {
        char text[1024];
        struct al_host_stat stat;
        ssize_t len = al_fs_readf(root, text, sizeof text, "proc/%d/stat", (int)pid);
        if (len <= 0 || al_parse_stat(text, (size_t)len, &stat) || stat.ppid <= 1)
            return false;
        pid = stat.ppid;
        if (is_among(pids, count, pid))
            return true;
    }
    return false;
}

size_t al_host_find_trainings(pid_t *pids, size_t count, size_t max) {
    DIR *dir = opendir("/proc");
    int root, looked = 0;
    size_t known = count, kept = count;
    if (!dir || al_fs_root("/", &root)) {
        if (dir)
            (void)closedir(dir);
        return count;
    }
    for (struct dirent *e; count < max && looked < LOOKED_MOST && (e = readdir(dir));) {
        uint64_t pid;
        if (!al_str_u64(e->d_name, &pid) || !pid || pid > INT32_MAX || is_among(pids, known, (pid_t)pid))
            continue;
        looked++;
        if (starts_training(root, (pid_t)pid))
            pids[count++] = (pid_t)pid;
    }
    (void)closedir(dir);
    for (size_t i = known; i < count; i++) // pids are read in rising order as a rule, but nothing promises it
        if (!stands_below(root, pids[i], pids, count))
            pids[kept++] = pids[i];
    (void)close(root);
    return kept;
}
