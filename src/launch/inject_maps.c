// SPDX-License-Identifier: Apache-2.0
#include "launch/inject_maps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/err.h"

static int add(struct al_maps *m, const struct al_map *map) {
    if (m->count == m->cap) {
        size_t cap = m->cap ? 2 * m->cap : 256;
        struct al_map *more = realloc(m->maps, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        m->maps = more;
        m->cap = cap;
    }
    m->maps[m->count++] = *map;
    return 0;
}

// "7f00-7f10 r-xp 00001000 08:01 1234    /usr/lib/libpython3.11.so.1.0"
static bool parse_line(const char *line, size_t length, struct al_map *ret) {
    char text[256], rights[5];
    uint64_t offset, inode;
    int path = 0;
    size_t kept = length < sizeof text ? length : sizeof text - 1;
    memcpy(text, line, kept);
    text[kept] = '\0';
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &ret->start, &ret->end, rights,
               &offset, &inode, &path) < 5 ||
        !path || !inode || ret->start >= ret->end)
        return false;
    // The name is behind the last slash, which may lie beyond what was kept.
    const char *name = memrchr(line, '/', length);
    size_t left = name ? length - (size_t)(name - line) : 0;
    ret->readable = rights[0] == 'r';
    ret->executable = rights[2] == 'x';
    ret->private = rights[3] == 'p';
    ret->header = offset == 0;
    ret->python = left && memmem(name, left, "python", 6) != NULL;
    return true;
}

int al_maps_parse(struct al_maps *m, const char *text) {
    *m = (struct al_maps){0};
    while (*text) {
        size_t length = strcspn(text, "\n");
        struct al_map map;
        if (parse_line(text, length, &map) && add(m, &map)) {
            al_maps_free(m);
            return AL_E_NOMEM;
        }
        text += length + (text[length] == '\n');
    }
    return m->count ? 0 : AL_E_FORMAT;
}

void al_maps_free(struct al_maps *m) {
    free(m->maps);
    *m = (struct al_maps){0};
}

const struct al_map *al_maps_find(const struct al_maps *m, uint64_t address, uint64_t size) {
    for (size_t i = 0; i < m->count; i++) {
        const struct al_map *x = &m->maps[i];
        if (address >= x->start && address < x->end && size <= x->end - address)
            return x;
    }
    return NULL;
}

bool al_memory_read(void *user, uint64_t address, void *out, size_t size) {
    struct iovec own = {out, size}, other = {(void *)(uintptr_t)address, size};
    return process_vm_readv(*(const pid_t *)user, &own, 1, &other, 1, 0) == (ssize_t)size;
}

bool al_memory_write(pid_t pid, uint64_t address, const void *bytes, size_t size) {
    struct iovec own = {(void *)(uintptr_t)bytes, size}, other = {(void *)(uintptr_t)address, size};
    return process_vm_writev(pid, &own, 1, &other, 1, 0) == (ssize_t)size;
}
