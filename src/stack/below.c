// SPDX-License-Identifier: Apache-2.0
#include "stack/below.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "stack/find.h"

#define PROCESSES_MOST 128u // that are looked at
#define NAMED 4u

struct queue {
    pid_t pids[PROCESSES_MOST];
    unsigned count;
};

static void add_children_of(struct queue *q, const char *procfs, pid_t pid, const char *tid) {
    char path[512], text[4096], *at = text, *end;
    (void)snprintf(path, sizeof path, "%s/%d/task/%.20s/children", procfs, (int)pid, tid);
    if (al_fs_head(path, text, sizeof text) <= 0)
        return;
    for (long child; (child = strtol(at, &end, 10)) > 0 && end != at && q->count < PROCESSES_MOST; at = end)
        q->pids[q->count++] = (pid_t)child;
}

static void add_children(struct queue *q, const char *procfs, pid_t pid) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%d/task", procfs, (int)pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *e; tasks && (e = readdir(tasks));)
        if (e->d_name[0] != '.')
            add_children_of(q, procfs, pid, e->d_name);
    if (tasks)
        closedir(tasks);
}

static bool is_python(const char *procfs, pid_t pid) {
    struct al_remote remote = {.pid = pid};
    struct al_memory memory = {al_remote_gather, &remote};
    struct al_stack_error unused;
    struct al_found found;
    struct al_areas areas;
    if (al_areas_read(&areas, procfs, pid))
        return false;
    int result = al_find_python(&found, &memory, &areas, procfs, pid, &unused);
    al_areas_free(&areas);
    return result == 0;
}

void al_python_below(const char *procfs, pid_t pid, char *out, size_t size) {
    struct queue q = {.count = 0};
    unsigned found = 0;
    size_t used = 0;
    out[0] = '\0';
    add_children(&q, procfs, pid);
    for (unsigned i = 0; i < q.count; i++) {
        char path[512], name[32] = "?";
        add_children(&q, procfs, q.pids[i]);
        if (!is_python(procfs, q.pids[i]) || found++ >= NAMED)
            continue;
        (void)snprintf(path, sizeof path, "%s/%d/comm", procfs, (int)q.pids[i]);
        if (al_fs_head(path, name, sizeof name) > 0)
            name[strcspn(name, "\n")] = '\0';
        int n = snprintf(out + used, size - used, "%s%d (%s)", used ? ", " : "", (int)q.pids[i], al_str_clean(name));
        used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
    }
    if (found > NAMED)
        (void)snprintf(out + used, size - used, " and %u more", found - NAMED);
}
