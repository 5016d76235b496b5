// SPDX-License-Identifier: Apache-2.0
#include "unwind/perfmap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 65536u
#define NAME_MOST 4096u

static bool hex(const char **at, const char *end, uint64_t *ret) {
    const char *p = *at;
    uint64_t value = 0;
    if (end - p > 2 && p[0] == '0' && (p[1] | 32) == 'x')
        p += 2;
    const char *first = p;
    for (; p < end && p - first < 16; p++) {
        if (*p >= '0' && *p <= '9')
            value = value << 4 | (unsigned)(*p - '0');
        else if ((*p | 32) >= 'a' && (*p | 32) <= 'f')
            value = value << 4 | (unsigned)((*p | 32) - 'a' + 10);
        else
            break;
    }
    if (p == first || p == end || *p != ' ')
        return false;
    *ret = value;
    *at = p + 1;
    return true;
}

static bool room(struct al_perf_map *m, size_t length) {
    if (m->count == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 256;
        struct al_perf_entry *more = realloc(m->list, cap * sizeof *more);
        if (!more)
            return false;
        m->list = more;
        m->cap = cap;
    }
    if (length > m->text_cap - m->text_len) {
        size_t cap = 2 * (m->text_cap + length) + 4096;
        char *more = realloc(m->text, cap);
        if (!more)
            return false;
        m->text = more;
        m->text_cap = cap;
    }
    return true;
}

static void take_line(struct al_perf_map *m, const char *at, const char *end) {
    uint64_t start, size;
    if (m->count >= AL_PERF_MAP_MOST || !hex(&at, end, &start) || !hex(&at, end, &size) || !size || size > UINT32_MAX ||
        start > UINT64_MAX - size || at == end)
        return;
    size_t length = (size_t)(end - at) < NAME_MOST ? (size_t)(end - at) : NAME_MOST;
    if (!room(m, length))
        return;
    memcpy(m->text + m->text_len, at, length);
    m->list[m->count++] = (struct al_perf_entry){start, (uint32_t)size, m->order++, (uint32_t)m->text_len, (uint32_t)length};
    m->text_len += length;
    m->sorted = false;
}

size_t al_perf_map_parse(struct al_perf_map *m, const char *text, size_t size) {
    size_t done = 0;
    for (const char *end; done < size && (end = memchr(text + done, '\n', size - done)); done = (size_t)(end - text) + 1)
        take_line(m, text + done, end);
    return done;
}

static int compare(const void *a, const void *b) {
    const struct al_perf_entry *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

const struct al_perf_entry *al_perf_map_find(struct al_perf_map *m, uint64_t address) {
    if (!m->sorted && m->count)
        qsort(m->list, m->count, sizeof *m->list, compare);
    m->sorted = true;
    uint32_t low = 0, high = m->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (m->list[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    // The one that begins last before the address, unless a later line covers it with an earlier beginning.
    const struct al_perf_entry *best = NULL;
    for (uint32_t i = low, back = 0; i > 0 && back < 64; i--, back++) {
        const struct al_perf_entry *e = &m->list[i - 1];
        if (address - e->start < e->size && (!best || e->order > best->order))
            best = e;
    }
    return best;
}

void al_perf_map_free(struct al_perf_map *m) {
    free(m->list);
    free(m->text);
    *m = (struct al_perf_map){0};
}

// Its pid in its own namespace, the last of "NSpid:", and the user that it runs as.
static bool identity(const char *procfs, pid_t pid, pid_t *ret_inner, uid_t *ret_uid) {
    char path[256], line[256];
    snprintf(path, sizeof path, "%s/%d/status", procfs, (int)pid);
    FILE *f = fopen(path, "re");
    unsigned uid = 0;
    int found = 0;
    *ret_inner = pid;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "Uid: %*u %u", &uid) == 1)
            found = 1;
        if (strncmp(line, "NSpid:", 6) == 0 && strrchr(line, '\t'))
            *ret_inner = (pid_t)strtol(strrchr(line, '\t'), NULL, 10);
    }
    if (f)
        (void)fclose(f);
    *ret_uid = uid;
    return found;
}

static bool read_from(struct al_perf_map *m, int fd) {
    static const size_t most = AL_PERF_MAP_BYTES;
    char *piece = malloc(PIECE);
    bool more = false;
    while (piece && m->read < most) {
        ssize_t n = pread(fd, piece, PIECE, (off_t)m->read);
        size_t taken = n > 0 ? al_perf_map_parse(m, piece, (size_t)n) : 0;
        if (!taken && n == (ssize_t)PIECE)
            taken = PIECE; // a line of that length is nobody's
        if (!taken)
            break;
        m->read += taken;
        more = true;
    }
    free(piece);
    return more;
}

bool al_perf_map_read(struct al_perf_map *m, const char *procfs, pid_t pid, bool *ret_changed) {
    char path[256];
    struct stat st;
    pid_t inner;
    uid_t uid;
    *ret_changed = false;
    if (!identity(procfs, pid, &inner, &uid))
        return false;
    snprintf(path, sizeof path, "%s/%d/root/tmp/perf-%d.map", procfs, (int)pid, (int)inner);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0)
        return false;
    // Everybody may write into /tmp: another user's names are not this process's.
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == uid || st.st_uid == 0);
    if (ok && (uint64_t)st.st_size < m->read) { // a new one
        al_perf_map_free(m);
        *ret_changed = true;
    }
    if (ok && (uint64_t)st.st_size > m->read && read_from(m, fd))
        *ret_changed = true;
    close(fd);
    return ok;
}
