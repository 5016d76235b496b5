// SPDX-License-Identifier: Apache-2.0
// From the interpreter's idea of a thread to the task that the kernel schedules, in this pid namespace.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "stack/parts.h"

#define AGAIN_NS (100 * AL_NS_PER_MS) // between two readings of the list of tasks
#define PTHREAD_BYTES 2048u           // in which the tid is looked for: 720 bytes on in glibc on x86-64
#define THREADS_COMPARED 4u
#define SMALL_TID 4096 // smaller numbers stand in such a struct for other reasons, too
#if defined __aarch64__
#define GLIBC_PLACE 208u
#else
#define GLIBC_PLACE 720u
#endif

// The last number of "NSpid:": the id in the innermost namespace; *ret_same: there is only one.
static pid_t inner_id(const char *path, bool *ret_same) {
    char line[512];
    long outer = 0, inner = 0;
    FILE *f = fopen(path, "re");
    *ret_same = true;
    while (f && fgets(line, sizeof line, f)) {
        char *at = line + 6, *end;
        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        for (long id; (id = strtol(at, &end, 10)), end != at; at = end) {
            *ret_same = outer == 0;
            outer = outer ? outer : id;
            inner = id;
        }
        break;
    }
    if (f)
        fclose(f);
    return (pid_t)inner;
}

void al_tids_open(struct al_stack *s) {
    char path[256];
    snprintf(path, sizeof path, "%s/%d/status", s->procfs, (int)s->pid);
    s->inner_pid = inner_id(path, &s->same_pids);
    if (!s->inner_pid) // a kernel without NSpid
        s->inner_pid = s->pid;
}

static void read_tasks(struct al_stack *s) {
    char path[320];
    bool same;
    size_t cap = 0;
    snprintf(path, sizeof path, "%s/%d/task", s->procfs, (int)s->pid);
    DIR *d = opendir(path);
    free(s->tids);
    s->tids = NULL;
    s->tids_count = 0;
    for (struct dirent *e; d && (e = readdir(d)) && s->tids_count < AL_THREADS_MOST;) {
        int outer = atoi(e->d_name);
        if (outer <= 0)
            continue;
        if (s->tids_count == cap) {
            cap = cap ? 2 * cap : 64;
            void *more = realloc(s->tids, cap * sizeof *s->tids);
            if (!more)
                break;
            s->tids = more;
        }
        snprintf(path, sizeof path, "%s/%d/task/%d/status", s->procfs, (int)s->pid, outer);
        s->tids[s->tids_count].inner = s->same_pids ? outer : inner_id(path, &same);
        s->tids[s->tids_count++].outer = outer;
    }
    if (d)
        closedir(d);
}

static pid_t look_up(const struct al_stack *s, int64_t inner) {
    for (size_t i = 0; i < s->tids_count; i++)
        if (s->tids[i].inner == inner)
            return s->tids[i].outer;
    return 0;
}

static pid_t outer_of(struct al_stack *s, int64_t inner) {
    pid_t found = look_up(s, inner);
    int64_t now = al_monotonic_ns();
    if (found || now - s->tids_ns < AGAIN_NS)
        return found;
    s->tids_ns = now;
    read_tasks(s);
    return look_up(s, inner);
}

// Whether the words at one place of the threads' structs are tids of this process, each another one.
static bool tids_at(const struct al_stack *s, uint32_t words[][PTHREAD_BYTES / 4], size_t count, uint32_t k) {
    for (size_t i = 0; i < count; i++) {
        if (!words[i][k] || words[i][k] > INT32_MAX || !look_up(s, words[i][k]))
            return false;
        for (size_t j = 0; j < i; j++)
            if (words[j][k] == words[i][k])
                return false;
    }
    return count > 0;
}

// Python before 3.11 knows only pthread_self(): the address of libc's struct, in which the tid stands at a place that
// differs between libcs. One thread with a small tid (in a container) proves nothing: then only glibc's place counts.
static void find_place(struct al_stack *s) {
    uint32_t words[THREADS_COMPARED][PTHREAD_BYTES / 4];
    size_t count = 0;
    s->place_tried = s->tstates_count;
    s->tids_ns = al_monotonic_ns();
    read_tasks(s);
    for (size_t i = s->tstates_count; i-- > 0 && count < THREADS_COMPARED;)
        if (al_address_ok(s->tstates[i].id, 8) &&
            al_memory_get(&s->memory, s->tstates[i].id, words[count], sizeof *words))
            count++;
    if (tids_at(s, words, count, GLIBC_PLACE / 4))
        s->pthread_tid = GLIBC_PLACE;
    for (uint32_t k = 0; k < PTHREAD_BYTES / 4 && !s->pthread_tid && (count > 1 || s->inner_pid > SMALL_TID); k++)
        if (tids_at(s, words, count, k))
            s->pthread_tid = 4 * k;
}

pid_t al_tid_of(struct al_stack *s, const struct al_tstate *t) {
    int64_t inner = t->native;
    if (!inner && s->found.layout.thread_native_id == AL_LAYOUT_NONE) {
        uint32_t tid = 0;
        if (!s->pthread_tid && s->place_tried != s->tstates_count)
            find_place(s);
        if (s->pthread_tid && al_address_ok(t->id, 8) &&
            al_memory_get(&s->memory, t->id + s->pthread_tid, &tid, sizeof tid) && tid <= INT32_MAX)
            inner = tid;
        // Garbage there is no task of the process.
        return inner ? outer_of(s, inner) : 0;
    }
    return !inner ? 0 : s->same_pids ? (pid_t)inner : outer_of(s, inner);
}
