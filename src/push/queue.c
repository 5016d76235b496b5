// SPDX-License-Identifier: Apache-2.0
// A message is a file <16 hex digits of its number>.msg, written beside and renamed: there are no halves.
#include "push/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"

#define MEMORY_MAX (4u << 20)
#define ITEMS_MAX 65536u

struct item {
    uint64_t number;
    size_t size;
    char *body; // NULL: in the folder
};

struct al_queue {
    int folder; // -1: none
    uint64_t max_bytes, bytes, memory, next, dropped;
    struct item *items; // those from first on
    size_t first, count, cap;
    char *head; // of a message in the folder
    uint64_t head_number;
};

static void file_name(char *out, size_t size, uint64_t number) {
    (void)snprintf(out, size, "%016llx.msg", (unsigned long long)number);
}

// --- the folder ---

static int open_folder(const char *folder, int *ret, char *error, size_t size) {
    char path[4096];
    struct stat st;
    int fd = -1;
    const char *why = NULL;
    int result = AL_E_DENIED;
    if (!al_str_copy(path, sizeof path, folder)) {
        why = "the name is too long";
    } else if (al_fs_make_folder(path, 0700) ||
               (fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
        why = strerror(errno);
    } else if (fstat(fd, &st) || st.st_uid != geteuid()) {
        why = "it belongs to another user";
    } else if (flock(fd, LOCK_EX | LOCK_NB)) {
        result = errno == EWOULDBLOCK ? AL_E_AGAIN : AL_E_DENIED;
        why = errno == EWOULDBLOCK ? "another alula uses it" : strerror(errno);
    } else if ((st.st_mode & 0077) && fchmod(fd, 0700)) { // messages name users and commands
        why = strerror(errno);
    }
    if (!why && fd >= 0) {
        *ret = fd;
        return 0;
    }
    (void)snprintf(error, size, "%.200s: %s", folder, why ? why : "");
    if (fd >= 0)
        close(fd);
    return result;
}

static bool store(struct al_queue *q, const struct item *item) {
    char name[32];
    int fd = openat(q->folder, "new.tmp", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool ok = al_fs_write_all(fd, item->body, item->size) && fdatasync(fd) == 0;
    file_name(name, sizeof name, item->number);
    ok = close(fd) == 0 && ok && renameat(q->folder, "new.tmp", q->folder, name) == 0;
    if (!ok)
        (void)unlinkat(q->folder, "new.tmp", 0);
    return ok;
}

static char *load(const struct al_queue *q, const struct item *item) {
    char name[32];
    struct stat st;
    file_name(name, sizeof name, item->number);
    int fd = openat(q->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char *body = NULL;
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == item->size &&
              (body = malloc(item->size + 1));
    for (size_t at = 0; ok && at < item->size;) {
        ssize_t n = read(fd, body + at, item->size - at);
        if (n < 0 && errno == EINTR)
            continue;
        ok = n > 0;
        at += ok ? (size_t)n : 0;
    }
    if (fd >= 0)
        close(fd);
    if (ok)
        return body;
    free(body);
    return NULL;
}

// --- the list ---

static struct item *room(struct al_queue *q) {
    if (q->first + q->count == q->cap && q->first) {
        memmove(q->items, q->items + q->first, q->count * sizeof *q->items);
        q->first = 0;
    }
    if (q->count == q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 16;
        struct item *more = realloc(q->items, cap * sizeof *more);
        if (!more)
            return NULL;
        q->items = more;
        q->cap = cap;
    }
    return &q->items[q->first + q->count];
}

static void forget(struct al_queue *q, size_t i) {
    struct item *item = &q->items[q->first + i];
    char name[32];
    q->bytes -= item->size;
    if (item->body) {
        q->memory -= item->size;
        free(item->body);
    } else {
        file_name(name, sizeof name, item->number);
        (void)unlinkat(q->folder, name, 0);
    }
    if (i) {
        memmove(item, item + 1, (q->count - i - 1) * sizeof *item);
    } else {
        q->first++;
    }
    q->count--;
}

// Files of an earlier run. Anything else in the folder is left alone.
static int by_number(const void *a, const void *b) {
    const struct item *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static bool take_name(const char *name, uint64_t *ret) {
    char *rest;
    if (strlen(name) != 20 || strcmp(name + 16, ".msg") != 0 || strspn(name, "0123456789abcdef") < 16)
        return false;
    *ret = strtoull(name, &rest, 16);
    return true;
}

static int take_over(struct al_queue *q) {
    int fd = openat(q->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return AL_E_IO;
    }
    int result = 0;
    for (const struct dirent *e; !result && (e = readdir(dir));) {
        struct stat st;
        struct item item = {0};
        if (!take_name(e->d_name, &item.number) || q->count == ITEMS_MAX ||
            fstatat(q->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        struct item *to = room(q);
        result = to ? 0 : AL_E_NOMEM;
        if (!to)
            break;
        item.size = (size_t)st.st_size;
        *to = item;
        q->count++;
        q->bytes += item.size;
        if (item.number >= q->next)
            q->next = item.number + 1;
    }
    (void)closedir(dir);
    if (q->count)
        qsort(q->items, q->count, sizeof *q->items, by_number);
    return result;
}

int al_queue_new(const char *folder, uint64_t max_bytes, struct al_queue **ret, char *error, size_t size) {
    struct al_queue *q = calloc(1, sizeof *q);
    *ret = NULL;
    if (!q)
        return AL_E_NOMEM;
    q->folder = -1;
    q->max_bytes = max_bytes;
    q->next = 1;
    int result = 0;
    if (*folder) {
        result = open_folder(folder, &q->folder, error, size);
        if (!result)
            result = take_over(q);
    }
    if (result)
        q = al_queue_free(q);
    *ret = q;
    return result;
}

struct al_queue *al_queue_free(struct al_queue *q) {
    if (!q)
        return NULL;
    for (size_t i = 0; i < q->count; i++)
        free(q->items[q->first + i].body);
    if (q->folder >= 0)
        close(q->folder); // ends the lock
    free(q->items);
    free(q->head);
    free(q);
    return NULL;
}

static void drop_for_room(struct al_queue *q, size_t len) {
    while (q->count && (q->bytes + len > q->max_bytes || q->count >= ITEMS_MAX)) {
        forget(q, 0);
        q->dropped++;
    }
    for (size_t i = 0; i < q->count && q->memory + len > MEMORY_MAX;) {
        if (!q->items[q->first + i].body) {
            i++;
            continue;
        }
        forget(q, i);
        q->dropped++;
    }
}

static void to_folder(struct al_queue *q, struct item *item) {
    if (q->folder < 0 || !item->body || !store(q, item))
        return;
    q->memory -= item->size;
    free(item->body);
    item->body = NULL;
}

int al_queue_add(struct al_queue *q, const char *body, size_t len, bool keep) {
    if (len > q->max_bytes || len > MEMORY_MAX) {
        q->dropped++;
        return AL_E_TOOBIG;
    }
    drop_for_room(q, len);
    struct item *to = room(q);
    char *copy = to ? malloc(len + 1) : NULL;
    if (!copy) {
        q->dropped++;
        return AL_E_NOMEM;
    }
    memcpy(copy, body, len);
    *to = (struct item){q->next++, len, copy};
    q->count++;
    q->bytes += len;
    q->memory += len;
    if (keep)
        to_folder(q, to);
    return 0;
}

void al_queue_keep(struct al_queue *q) {
    for (size_t i = 0; i < q->count && q->memory; i++)
        to_folder(q, &q->items[q->first + i]);
}

bool al_queue_head(struct al_queue *q, const char **ret_body, size_t *ret_len) {
    while (q->count) {
        const struct item *item = &q->items[q->first];
        if (!item->body && (!q->head || q->head_number != item->number)) {
            free(q->head);
            q->head = item->size ? load(q, item) : NULL;
            q->head_number = item->number;
        }
        *ret_body = item->body ? item->body : q->head;
        *ret_len = item->size;
        if (*ret_body)
            return true;
        forget(q, 0); // cut short by a crash, or taken away by somebody
        q->dropped++;
    }
    return false;
}

void al_queue_pop(struct al_queue *q) {
    if (q->count)
        forget(q, 0);
    free(q->head);
    q->head = NULL;
}

size_t al_queue_count(const struct al_queue *q) {
    return q->count;
}

uint64_t al_queue_bytes(const struct al_queue *q) {
    return q->bytes;
}

uint64_t al_queue_dropped(const struct al_queue *q) {
    return q->dropped;
}
