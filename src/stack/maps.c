// SPDX-License-Identifier: Apache-2.0
#include "stack/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static int add_text(struct al_areas *a, const char *text, size_t length, uint32_t *ret) {
    // Mappings of one file follow each other.
    if (a->count) {
        const char *last = a->texts + a->list[a->count - 1].path;
        if (a->list[a->count - 1].path && strlen(last) == length && memcmp(last, text, length) == 0) {
            *ret = a->list[a->count - 1].path;
            return 0;
        }
    }
    if (a->texts_len + length + 1 > a->texts_cap) {
        size_t cap = 2 * (a->texts_len + length + 4096);
        char *more = realloc(a->texts, cap);
        if (!more)
            return AL_E_NOMEM;
        a->texts = more;
        a->texts_cap = cap;
    }
    *ret = (uint32_t)a->texts_len;
    memcpy(a->texts + a->texts_len, text, length);
    a->texts[a->texts_len + length] = '\0';
    a->texts_len += length + 1;
    return 0;
}

static int add(struct al_areas *a, const struct al_area *area) {
    if (a->count == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 512;
        struct al_area *more = realloc(a->list, cap * sizeof *more);
        if (!more)
            return AL_E_NOMEM;
        a->list = more;
        a->cap = cap;
    }
    a->list[a->count++] = *area;
    return 0;
}

// "7f00-7f10 r-xp 00001000 08:01 1234    /usr/lib/libpython3.11.so.1.0"
static int parse_line(struct al_areas *a, const char *line, size_t length) {
    char text[128], rights[5];
    struct al_area area = {0};
    int at = 0;
    size_t kept = length < sizeof text ? length : sizeof text - 1;
    memcpy(text, line, kept);
    text[kept] = '\0';
    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &area.start, &area.end, rights,
               &area.offset, &area.inode, &at) < 5 ||
        area.start >= area.end)
        return 0; // not a mapping: a line of another kernel
    area.readable = rights[0] == 'r';
    area.writable = rights[1] == 'w';
    area.executable = rights[2] == 'x';
    if (at && (size_t)at < length) {
        int error = add_text(a, line + at, length - (size_t)at, &area.path);
        if (error)
            return error;
    }
    const struct al_area *last = a->count ? &a->list[a->count - 1] : NULL;
    area.after_file = last && !area.inode && !area.path && last->end == area.start && (last->inode || last->after_file);
    return add(a, &area);
}

int al_areas_parse(struct al_areas *a, const char *text) {
    uint32_t none;
    *a = (struct al_areas){0};
    int error = add_text(a, "", 0, &none); // so that 0 is "no path"
    while (!error && *text && a->count < AL_AREAS_MOST) {
        size_t length = strcspn(text, "\n");
        error = parse_line(a, text, length);
        text += length + (text[length] == '\n');
    }
    if (!error && !a->count)
        error = AL_E_FORMAT;
    if (error)
        al_areas_free(a);
    return error;
}

static int from_errno(void) {
    return errno == ENOENT || errno == ESRCH ? AL_E_GONE : errno == EACCES || errno == EPERM ? AL_E_DENIED : AL_E_IO;
}

int al_areas_read(struct al_areas *a, const char *procfs, pid_t pid) {
    char path[256], *text = NULL;
    size_t used = 0, cap = 0;
    int error = 0;
    *a = (struct al_areas){0};
    snprintf(path, sizeof path, "%s/%d/maps", procfs, (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return from_errno();
    for (;;) {
        if (used + 65536 >= cap) {
            cap = cap ? 2 * cap : 1 << 18;
            char *more = cap > AL_AREAS_BYTES ? NULL : realloc(text, cap);
            if (!more) {
                error = AL_E_NOMEM;
                break;
            }
            text = more;
        }
        ssize_t n = read(fd, text + used, cap - used - 1);
        if (n < 0)
            error = from_errno();
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    close(fd);
    if (!error && text) {
        text[used] = '\0';
        // A process that has ended has no mappings: a zombie, or a kernel thread.
        error = used ? al_areas_parse(a, text) : AL_E_GONE;
    }
    free(text);
    return error;
}

void al_areas_free(struct al_areas *a) {
    free(a->list);
    free(a->texts);
    *a = (struct al_areas){0};
}

const char *al_area_path(const struct al_areas *a, const struct al_area *area) {
    return a->texts + area->path;
}
