// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "stack/below.h"
#include "stack/parts.h"

uint64_t al_start_time(const char *procfs, pid_t pid) {
    char path[256], text[1024];
    snprintf(path, sizeof path, "%s/%d/stat", procfs, (int)pid);
    (void)al_fs_head(path, text, sizeof text);
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
        return 0;                                  // gone, or its memory is
    for (int field = 2; at && field < 22; field++) // of "pid (comm) state ...": starttime is the 22nd
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

int al_stack_denied(pid_t pid, struct al_stack_error *error) {
    int scope = al_fs_ptrace_scope(-1);
    const char *advice =
        "it belongs to another user, or is not dumpable: run as its user or as root (CAP_SYS_PTRACE); in a "
        "container, start that with --cap-add SYS_PTRACE";
    if (scope == 1)
        advice =
            "kernel.yama.ptrace_scope is 1, which allows only a parent to read its children: run as root, start the "
            "program by alula, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)";
    else if (scope == 2)
        advice = "kernel.yama.ptrace_scope is 2: only root (CAP_SYS_PTRACE) may read other processes";
    else if (scope >= 3)
        advice = "kernel.yama.ptrace_scope is 3: nobody may read other processes until the next boot";
    snprintf(error->text, sizeof error->text, "may not read the memory of process %d: %s", (int)pid, advice);
    return AL_E_DENIED;
}

static int cannot(pid_t pid, int code, struct al_stack_error *error) {
    switch (code) {
    case AL_E_DENIED: return al_stack_denied(pid, error);
    case AL_E_GONE: snprintf(error->text, sizeof error->text, "process %d has ended", (int)pid); break;
    case AL_E_NOENT: snprintf(error->text, sizeof error->text, "there is no process %d", (int)pid); break;
    default: snprintf(error->text, sizeof error->text, "process %d: %s", (int)pid, al_error_text(code));
    }
    return code;
}

// Reads a byte, so that a refusal is told from a process without an interpreter.
static int probe(struct al_stack *s, const struct al_areas *areas) {
    char byte;
    for (size_t i = 0; i < areas->count; i++)
        if (areas->list[i].readable && areas->list[i].inode) {
            if (al_memory_get(&s->memory, areas->list[i].start, &byte, 1))
                return 0;
            return s->remote.error ? al_remote_error(&s->remote) : 0;
        }
    return 0;
}

// A launcher's pid is given as easily as its Python's.
static void tell_below(const struct al_stack *s, struct al_stack_error *error) {
    char below[256];
    size_t used = strlen(error->text);
    al_python_below(s->procfs, s->pid, below, sizeof below);
    if (below[0])
        snprintf(error->text + used, sizeof error->text - used, ", but below it these do: %s: name one of them, or all by --subprocesses",
                 below);
    else
        snprintf(error->text + used, sizeof error->text - used, ", and no process below it does");
}

static int find(struct al_stack *s, struct al_stack_error *error) {
    struct al_areas areas;
    s->start_time = al_start_time(s->procfs, s->pid);
    int code = al_areas_read(&areas, s->procfs, s->pid);
    if (code == AL_E_GONE && !s->start_time) {
        char path[256];
        snprintf(path, sizeof path, "%s/%d", s->procfs, (int)s->pid);
        code = access(path, F_OK) ? AL_E_NOENT : AL_E_GONE;
    } else if (code == AL_E_GONE) { // alive without mappings
        snprintf(error->text, sizeof error->text, "process %d is a kernel thread", (int)s->pid);
        return AL_E_FORMAT;
    }
    if (code)
        return cannot(s->pid, code, error);
    code = probe(s, &areas);
    if (code)
        code = cannot(s->pid, code, error);
    else
        code = al_find_python(&s->found, &s->memory, &areas, s->procfs, s->pid, error);
    al_areas_free(&areas);
    // It may have ended or been denied meanwhile: say that instead.
    if (code == AL_E_FORMAT && s->remote.error)
        return cannot(s->pid, al_remote_error(&s->remote), error);
    if (code == AL_E_FORMAT && !s->found.runtime)
        tell_below(s, error);
    return code;
}

static int make_buffers(struct al_stack *s) {
    if (al_codes_init(&s->codes, &s->found.layout, &s->memory, s->found.code_type))
        return AL_E_NOMEM;
    // Large, but the kernel gives only the pages that are written.
    s->buffer = malloc(2 * AL_WALK_BYTES);
    s->walk = (struct al_walk){
        .layout = &s->found.layout,
        .memory = &s->memory,
        .buffer = s->buffer,
        .buffer_size = 2 * AL_WALK_BYTES,
        .frames = malloc(s->depth * sizeof *s->walk.frames),
        .second = malloc(s->depth * sizeof *s->walk.second),
        .depth = s->depth,
    };
    return s->buffer && s->walk.frames && s->walk.second ? 0 : AL_E_NOMEM;
}

int al_stack_open(pid_t pid, const struct al_stack_settings *settings, struct al_stack **ret,
                  struct al_stack_error *error) {
    struct al_stack *s = calloc(1, sizeof *s);
    *ret = NULL;
    error->text[0] = '\0';
    if (!s)
        return cannot(pid, AL_E_NOMEM, error);
    s->pid = pid;
    s->depth = settings && settings->depth ? settings->depth : AL_STACK_DEPTH_DEFAULT;
    if (s->depth > AL_STACK_DEPTH_MOST)
        s->depth = AL_STACK_DEPTH_MOST;
    (void)al_str_copy(s->procfs, sizeof s->procfs, settings && settings->procfs ? settings->procfs : "/proc");
    s->remote.pid = pid;
    s->memory = (struct al_memory){al_remote_gather, &s->remote};
    int code = find(s, error);
    if (!code && (code = make_buffers(s)))
        code = cannot(pid, code, error);
    if (code) {
        al_stack_free(s);
        return code;
    }
    al_tids_open(s);
    *ret = s;
    return 0;
}

void al_stack_free(struct al_stack *s) {
    if (!s)
        return;
    al_slots_free(s);
    al_codes_free(&s->codes);
    free(s->buffer);
    free(s->walk.frames);
    free(s->walk.second);
    free(s->tstates);
    free(s->next_tstates);
    free(s->interps);
    free(s->block);
    free(s->pieces);
    free(s->threads);
    free(s->tids);
    free(s->active);
    free(s);
}

void al_stack_get_info(const struct al_stack *s, struct al_stack_info *ret) {
    *ret = (struct al_stack_info){
        .pid = s->pid,
        .version = s->found.version,
        .free_threaded = s->found.layout.free_threaded,
        .table = s->found.table,
        .gil_wait = !s->found.layout.free_threaded,
        .object = s->found.object,
        .found = s->found.how,
        .runtime = s->found.runtime,
    };
}
