// SPDX-License-Identifier: Apache-2.0
#include "stack/find.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "stack/object.h"
#include "stack/scan.h"

#define NAME_RUNTIME "_PyRuntime"
#if defined __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

struct search {
    struct al_found *found;
    const struct al_memory *memory;
    const struct al_areas *areas;
    const char *procfs;
    pid_t pid;
    uint64_t version_at; // of Py_Version (3.11 on)
    uint16_t machine;
    char exe[512];
};

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The program itself and what is called python; all else is looked at only when these have no interpreter.
static bool is_likely(const struct search *s, const char *path) {
    return strstr(base_name(path), "python") != NULL || al_str_equal(path, s->exe);
}

static int open_file(const struct search *s, const struct al_area *area) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%d/map_files/%" PRIx64 "-%" PRIx64, s->procfs, (int)s->pid, area->start, area->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    // The path as the target sees it: its root may be another one.
    snprintf(path, sizeof path, "%s/%d/root%s", s->procfs, (int)s->pid, al_area_path(s->areas, area));
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static void take(struct search *s, uint64_t runtime, const char *how, const char *path) {
    s->found->runtime = runtime;
    s->found->how = how;
    (void)al_str_copy(s->found->object, sizeof s->found->object, path);
}

static bool in_symbols(struct search *s, const struct al_area *area, const char *path) {
    struct al_object o;
    if (!al_object_open(&o, s->memory, area->start))
        return false;
    uint64_t runtime = al_object_symbol(&o, NAME_RUNTIME);
    if (al_str_equal(path, s->exe))
        s->machine = o.machine;
    if (!runtime)
        return false;
    s->machine = o.machine;
    s->version_at = al_object_symbol(&o, "Py_Version");
    s->found->code_type = al_object_symbol(&o, "PyCode_Type");
    take(s, runtime, "dynsym", path);
    return true;
}

static bool in_file(struct search *s, const struct al_area *area, const char *path) {
    struct al_object o;
    uint64_t size = 0, runtime;
    int fd = al_object_open(&o, s->memory, area->start) ? open_file(s, area) : -1;
    if (fd < 0)
        return false;
    if ((runtime = al_object_file_symbol(fd, o.bias, NAME_RUNTIME))) {
        s->version_at = al_object_file_symbol(fd, o.bias, "Py_Version");
        s->found->code_type = al_object_file_symbol(fd, o.bias, "PyCode_Type");
        take(s, runtime, "symtab", path);
    } else if ((runtime = al_object_file_section(fd, o.bias, ".PyRuntime", &size))) {
        take(s, runtime, "section", path);
    }
    if (runtime)
        s->machine = o.machine;
    close(fd);
    return runtime != 0;
}

typedef bool look_fn(struct search *s, const struct al_area *area, const char *path);

static bool look(struct search *s, look_fn *in) {
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < s->areas->count; i++) {
            const struct al_area *area = &s->areas->list[i];
            const char *path = al_area_path(s->areas, area);
            if (area->inode && area->offset == 0 && area->readable && path[0] == '/' &&
                is_likely(s, path) == (pass == 0) && in(s, area, path))
                return true;
        }
    }
    return false;
}

// "python3.9", "libpython3.9.so.1.0", ".../python3.9/..." say the minor version.
static uint32_t version_of_path(const char *path) {
    for (const char *at = path; (at = strstr(at, "python3.")); at++) {
        unsigned minor = 0;
        if (sscanf(at, "python3.%3u", &minor) == 1 && minor < 100)
            return 0x03000000u | minor << 16 | 0xf0;
    }
    return 0;
}

static int unsupported(struct search *s, enum al_layout_problem problem, struct al_stack_error *e) {
    snprintf(e->text, sizeof e->text, "process %d runs CPython 3.%u: %s", (int)s->pid, s->found->version >> 16 & 0xff,
             al_layout_problem_text(problem));
    return AL_E_UNSUPPORTED;
}

static int not_python(struct search *s, struct al_stack_error *e) {
    snprintf(e->text, sizeof e->text, "process %d (%.200s) holds no CPython interpreter", (int)s->pid, s->exe[0] ? s->exe : "?");
    return AL_E_FORMAT;
}

static int starting(struct search *s, struct al_stack_error *e) {
    snprintf(e->text, sizeof e->text, "the interpreter of process %d is not up: it is starting or ending; try again",
             (int)s->pid);
    return AL_E_FORMAT;
}

// A table by the version that the interpreter or its name tells, else the one that fits.
static int by_table(struct search *s, struct al_stack_error *e) {
    struct al_found *f = s->found;
    uint32_t version = 0;
    bool none_yet = false;
    if (!s->version_at || !al_memory_get(s->memory, s->version_at, &version, 4) || version >> 24 != 3)
        version = version_of_path(base_name(f->object));
    if (!version)
        version = al_scan_version(s->memory, s->areas, f->object);
    if (!version)
        version = version_of_path(f->object);
    f->table = true;
    uint32_t low = version ? version >> 16 & 0xff : 8, high = version ? low : 12;
    for (uint32_t minor = high; minor >= low && minor <= high; minor--) {
        f->version = version ? version : 0x030000f0u | minor << 16;
        enum al_layout_problem problem = al_layout_table(f->version, s->machine, &f->layout);
        if (problem && version)
            return unsupported(s, problem, e);
        int fits = problem ? 0 : al_runtime_check(s->memory, &f->layout, f->runtime);
        if (fits > 0)
            return 0;
        none_yet |= fits < 0;
    }
    if (none_yet)
        return starting(s, e);
    snprintf(e->text, sizeof e->text,
             "the interpreter of process %d (%.200s) is not laid out as CPython's release builds are "
             "(a debug build, a fork, or it is starting): alula does not guess",
             (int)s->pid, f->object);
    return AL_E_UNSUPPORTED;
}

static int lay_out(struct search *s, struct al_stack_error *e) {
    unsigned char head[AL_LAYOUT_DEBUG_BYTES];
    struct al_found *f = s->found;
    if (!al_memory_get(s->memory, f->runtime, head, sizeof head))
        return starting(s, e);
    if (!al_layout_cookie(head, sizeof head))
        return by_table(s, e);
    enum al_layout_problem problem = al_layout_debug(head, sizeof head, s->machine, &f->layout, &f->version);
    if (problem)
        return unsupported(s, problem, e);
    int fits = al_runtime_check(s->memory, &f->layout, f->runtime);
    return fits > 0 ? 0 : starting(s, e);
}

int al_find_python(struct al_found *ret, const struct al_memory *m, const struct al_areas *areas, const char *procfs,
                   pid_t pid, struct al_stack_error *e) {
    char path[256];
    struct search s = {.found = ret, .memory = m, .areas = areas, .procfs = procfs, .pid = pid, .machine = MACHINE};
    *ret = (struct al_found){0};
    snprintf(path, sizeof path, "%s/%d/exe", procfs, (int)pid);
    ssize_t n = readlink(path, s.exe, sizeof s.exe - 1);
    s.exe[n > 0 ? n : 0] = '\0';
    if (look(&s, in_symbols) || look(&s, in_file))
        return lay_out(&s, e);
    uint64_t runtime = 0;
    const struct al_area *area = al_scan_cookie(m, areas, &runtime);
    if (area) {
        take(&s, runtime, "cookie", al_area_path(areas, area));
        return lay_out(&s, e);
    }
    uint32_t version = al_scan_version(m, areas, s.exe);
    area = al_scan_runtime(m, areas, s.machine, version, &ret->layout, &runtime);
    if (!area)
        return not_python(&s, e);
    take(&s, runtime, "scan", al_area_path(areas, area));
    ret->table = true;
    ret->version = version ? version : (uint32_t)ret->layout.version << 16 | 0xf0;
    return 0;
}

uint64_t al_find_section(const struct al_memory *m, const struct al_areas *areas, const char *procfs, pid_t pid, const char *file,
                         const char *section, uint64_t *ret_size) {
    struct search s = {.memory = m, .areas = areas, .procfs = procfs, .pid = pid};
    for (size_t i = 0; i < areas->count; i++) {
        const struct al_area *area = &areas->list[i];
        const char *path = al_area_path(areas, area);
        struct al_object o;
        if (!area->inode || area->offset || !area->readable || path[0] != '/' ||
            !(file[0] == '/' ? al_str_equal(path, file) : al_str_starts(base_name(path), file)))
            continue;
        int fd = al_object_open(&o, m, area->start) ? open_file(&s, area) : -1;
        uint64_t at = fd < 0 ? 0 : al_object_file_section(fd, o.bias, section, ret_size);
        if (fd >= 0)
            close(fd);
        if (at)
            return at;
    }
    return 0;
}
