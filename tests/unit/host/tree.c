// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tree_new(struct tree *t) {
    memset(t, 0, sizeof *t);
    // Thousands of files: memory rather than a disk, where there is any.
    strcpy(t->root, access("/dev/shm", W_OK) == 0 ? "/dev/shm/alula-host-XXXXXX" : "/tmp/alula-host-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    tree_file(t, "proc/stat", "cpu  100 0 0 900 0 0 0 0 0 0\nbtime 1700000000\n");
    tree_link(t, "proc/self/ns/pid", "pid:[4026531836]");
    tree_file(t, "proc/1/stat", "1 (systemd) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 3 1 1 1\n");
    tree_file(t, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/sh\n"
                               "bob:x:1001:1001::/home/bob:/bin/sh\n");
}

void tree_open(struct tree *t) {
    struct al_procfs_options options = {t->root, false};
    assert_int_equal(al_procfs_open(&options, &t->host), 0);
    t->s = al_snapshot_new();
    assert_non_null(t->s);
}

// The file's whole path in full[1024], with its folders made.
static void make_way(const struct tree *t, const char *path, char *full) {
    snprintf(full, 1024, "%s/%s", t->root, path);
    for (char *slash = strchr(full + strlen(t->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
}

void tree_again(const struct tree *t, const char *path, const char *first) {
    char full[1024], from[512];
    make_way(t, path, full);
    snprintf(from, sizeof from, "%s/%s", t->root, first);
    assert_int_equal(link(from, full), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void tree_remove(const struct tree *t, const char *path) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", t->root, path);
    nftw(full, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void tree_free(struct tree *t) {
    t->host = al_host_free(t->host);
    t->s = al_snapshot_free(t->s);
    tree_remove(t, "");
}

void tree_bytes(const struct tree *t, const char *path, const char *data, size_t len) {
    char full[1024];
    make_way(t, path, full);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    close(fd);
}

void tree_file(const struct tree *t, const char *path, const char *text) {
    tree_bytes(t, path, text, strlen(text));
}

void tree_link(const struct tree *t, const char *path, const char *target) {
    char full[1024];
    make_way(t, path, full);
    unlink(full);
    assert_int_equal(symlink(target, full), 0);
}

static void words(const struct tree *t, pid_t pid, const char *name, const char *text) {
    char path[64], data[4096];
    size_t len = text ? strlen(text) : 0;
    snprintf(path, sizeof path, "proc/%d/%s", pid, name);
    for (size_t i = 0; i < len; i++)
        data[i] = text[i] == '|' ? '\0' : text[i];
    data[len] = '\0';
    tree_bytes(t, path, data, len ? len + 1 : 0);
}

void tree_stat(const struct tree *t, const struct made *m) {
    char path[64], text[512];
    snprintf(text, sizeof text,
             "%d (%s) %c %d 1 1 0 -1 4194304 0 0 0 0 %llu %llu 0 0 20 0 %u 0 %llu 1000 100 18446744073709551615 "
             "1 1 %llu 0 0 0 0 0 0 0 0 0 17 0 0 0 %llu 0 0 0 0 0 0 0 0 0 0\n",
             m->pid, m->comm, m->state ? m->state : 'S', m->ppid, (unsigned long long)m->utime,
             (unsigned long long)m->stime, m->threads ? m->threads : 1, (unsigned long long)m->start,
             (unsigned long long)m->stack, (unsigned long long)m->blkio);
    snprintf(path, sizeof path, "proc/%d/stat", m->pid);
    tree_file(t, path, text);
    snprintf(path, sizeof path, "proc/%d/task/%d/stat", m->pid, m->pid);
    tree_file(t, path, text);
}

void tree_children(const struct tree *t, pid_t pid, const char *list) {
    char path[64];
    snprintf(path, sizeof path, "proc/%d/task/%d/children", pid, pid);
    tree_file(t, path, list);
}

void tree_process(const struct tree *t, const struct made *m) {
    char path[64], text[512];
    tree_stat(t, m);
    snprintf(path, sizeof path, "proc/%d/status", m->pid);
    snprintf(text, sizeof text,
             "Name:\t%s\nUid:\t%u\t%u\t%u\t%u\nVmRSS:\t    1500 kB\nRssAnon:\t    1000 kB\nRssFile:\t     400 kB\n"
             "RssShmem:\t     100 kB\nVmSwap:\t       8 kB\n",
             m->comm, m->uid, m->uid, m->uid, m->uid);
    tree_file(t, path, text);
    words(t, m->pid, "cmdline", m->cmd);
    words(t, m->pid, "environ", m->env);
    if (m->exe) {
        snprintf(path, sizeof path, "proc/%d/exe", m->pid);
        tree_link(t, path, m->exe);
    }
    snprintf(path, sizeof path, "proc/%d/cgroup", m->pid);
    tree_file(t, path, m->cgroup ? m->cgroup : "0::/user.slice\n");
    snprintf(path, sizeof path, "proc/%d/io", m->pid);
    tree_file(t, path, "rchar: 1000\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\n"
                       "cancelled_write_bytes: 0\n");
    tree_children(t, m->pid, "");
}

void tree_gpu(struct tree *t, pid_t pid, uint32_t gpu) {
    struct al_proc_gpu *row = al_snapshot_add_row(t->s);
    assert_non_null(row);
    row->pid = pid;
    row->gpu = gpu;
    row->type = AL_PROC_COMPUTE;
}

void tree_look(struct tree *t, uint32_t groups, int64_t now_ns) {
    assert_int_equal(t->host->ops->processes(t->host, t->s, groups, now_ns), 0);
}

const struct al_proc *tree_proc(const struct tree *t, pid_t pid) {
    const struct al_proc *found = NULL;
    for (uint32_t i = 0; i < t->s->proc_count; i++) {
        if (i)
            assert_true(t->s->procs[i - 1].pid < t->s->procs[i].pid);
        if (t->s->procs[i].pid == pid)
            found = &t->s->procs[i];
    }
    if (!found)
        fail_msg("process %d is not handed out", pid);
    return found;
}

uint64_t tree_reads(const struct tree *t) {
    return ((const struct al_procfs *)t->host)->reads;
}
