// SPDX-License-Identifier: Apache-2.0
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/procfs.h"
#include "host/roles.h"
#include "model/snapshot.h"

#define S INT64_C(1000000000)

int parse_suite(void);
int command_suite(void);
int cgroup_suite(void);
int roles_suite(void);
int node_suite(void);
int processes_suite(void);
int faults_suite(void);
int replay_suite(void);
int trainlog_suite(void);
int memory_suite(void);
int transport_suite(void);

// A made root folder with proc/, sys/ and etc/ below it.
struct tree {
    char root[64];
    struct al_host *host;
    struct al_snapshot *s;
};

struct made {
    pid_t pid, ppid;
    const char *comm, *exe; // exe: path, NULL for none
    const char *cmd, *env;  // words separated by '|'
    const char *cgroup;     // file text
    char state;             // 0: S
    unsigned uid, threads;  // threads 0: 1
    uint64_t utime, stime, start, blkio, stack;
};

void tree_new(struct tree *t);
void tree_open(struct tree *t); // the backend over it, with a first empty snapshot
void tree_free(struct tree *t);
void tree_file(const struct tree *t, const char *path, const char *text);
void tree_bytes(const struct tree *t, const char *path, const char *data, size_t len);
void tree_again(const struct tree *t, const char *path, const char *first); // the same file under another path
void tree_link(const struct tree *t, const char *path, const char *target);
void tree_remove(const struct tree *t, const char *path); // with all below it
void tree_process(const struct tree *t, const struct made *m);
void tree_stat(const struct tree *t, const struct made *m); // stat alone
// All "children" files of task/PID/children follow the parents given so far.
void tree_children(const struct tree *t, pid_t pid, const char *list);

void tree_gpu(struct tree *t, pid_t pid, uint32_t gpu); // a compute row
void tree_look(struct tree *t, uint32_t groups, int64_t now_ns); // processes()
const struct al_proc *tree_proc(const struct tree *t, pid_t pid); // must be there
uint64_t tree_reads(const struct tree *t);

#define assert_number(value, expected)                                                                                 \
    do {                                                                                                               \
        struct al_value v_ = (value);                                                                                  \
        if (v_.status != AL_STATUS_OK || v_.num < (expected)-1e-9 || v_.num > (expected) + 1e-9)                       \
            fail_msg("%s is %.9g (%s), expected %.9g", #value, v_.num, al_status_word(v_.status), (double)(expected)); \
    } while (0)
#define assert_status(value, expected) assert_string_equal(al_status_word((value).status), al_status_word(expected))
#define assert_role(proc, word) assert_string_equal(al_role_word((proc)->role), word)

#endif
