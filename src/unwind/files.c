// SPDX-License-Identifier: Apache-2.0
// Files of objects: as the target sees them, and those with what was split off for debugging.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/objects.h"

#define PATH 8192
#define LINK_MOST 256u // bytes of .gnu_debuglink

// A regular file that is opened without waiting for anybody (a pipe with nobody at its end, a terminal).
static bool open_bytes(const char *path, struct al_bytes *ret) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        close(fd);
        return false;
    }
    *ret = (struct al_bytes){fd, NULL, (uint64_t)st.st_size};
    return true; // cppcheck-suppress resourceLeak
}

static bool has_id(const struct al_bytes *b, const unsigned char *wanted, uint32_t wanted_length) {
    unsigned char id[AL_BUILD_ID_MOST];
    uint32_t length = al_bytes_build_id(b, id, sizeof id);
    return length && length == wanted_length && memcmp(id, wanted, length) == 0;
}

static bool is_it(const struct al_dso *d, const struct al_bytes *b) {
    struct stat st;
    unsigned char id[AL_BUILD_ID_MOST];
    uint32_t length = al_bytes_build_id(b, id, sizeof id);
    if (length && d->build_id_len)
        return length == d->build_id_len && memcmp(id, d->build_id, length) == 0;
    return fstat(b->fd, &st) == 0 && st.st_ino == d->inode;
}

bool al_dso_open_file(const struct al_objects *o, const struct al_dso *d, struct al_bytes *ret) {
    char path[PATH];
    // The kernel tells paths from the reader's root where the file can be reached from there (chroot), else from its own.
    for (int own = 0; own < 2 && !d->deleted && d->path[0] == '/'; own++) {
        if (own)
            snprintf(path, sizeof path, "%s", d->path);
        else
            snprintf(path, sizeof path, "%s/%d/root%s", o->procfs, (int)o->pid, d->path);
        if (!open_bytes(path, ret))
            continue;
        if (is_it(d, ret))
            return true;
        close(ret->fd);
    }
    // Another file lies there now, or none.
    snprintf(path, sizeof path, "%s/%d/map_files/%" PRIx64 "-%" PRIx64, o->procfs, (int)o->pid, d->header, d->first_end);
    if (d->vdso || !open_bytes(path, ret))
        return false;
    if (is_it(d, ret))
        return true;
    close(ret->fd);
    return false;
}

bool al_debug_by_id(const struct al_objects *o, const unsigned char *id, uint32_t length, struct al_bytes *ret) {
    char name[2 * AL_BUILD_ID_MOST + 1], path[PATH];
    if (length < 2 || length > AL_BUILD_ID_MOST)
        return false;
    for (uint32_t i = 0; i < length; i++)
        snprintf(name + (size_t)2 * i, 3, "%02x", id[i]);
    for (int own = 0; own < 2; own++) {
        char root[160] = "";
        if (!own)
            snprintf(root, sizeof root, "%s/%d/root", o->procfs, (int)o->pid);
        snprintf(path, sizeof path, "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, name, name + 2);
        if (open_bytes(path, ret)) {
            if (has_id(ret, id, length))
                return true;
            close(ret->fd);
        }
    }
    return false;
}

// A link without a build id cannot be held to anything but a sum over the whole file; those files have become rare.
static bool debug_by_link(const struct al_objects *o, const struct al_dso *d, const struct al_bytes *file, struct al_bytes *ret) {
    static const char *const forms[] = {"%s%.*s/%s", "%s%.*s/.debug/%s", "%s/usr/lib/debug%.*s/%s"};
    Elf64_Shdr s;
    char name[LINK_MOST], path[PATH], root[160];
    if (!d->build_id_len || d->path[0] != '/' || !al_bytes_section(file, SHT_PROGBITS, ".gnu_debuglink", &s, NULL) ||
        s.sh_size > sizeof name || !al_bytes_read(file, s.sh_offset, name, s.sh_size) || !memchr(name, '\0', s.sh_size) ||
        !name[0] || strchr(name, '/'))
        return false;
    int folder = (int)(strrchr(d->path, '/') - d->path);
    for (int own = 0; own < 2; own++) {
        root[0] = '\0';
        if (!own)
            snprintf(root, sizeof root, "%s/%d/root", o->procfs, (int)o->pid);
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            snprintf(path, sizeof path, forms[i], root, folder, d->path, name);
            if (!open_bytes(path, ret))
                continue;
            if (has_id(ret, d->build_id, d->build_id_len))
                return true;
            close(ret->fd);
        }
    }
    return false;
}

bool al_dso_open_debug(const struct al_objects *o, const struct al_dso *d, const struct al_bytes *file, struct al_bytes *ret) {
    return al_debug_by_id(o, d->build_id, d->build_id_len, ret) || (file->size && debug_by_link(o, d, file, ret));
}
