// SPDX-License-Identifier: Apache-2.0
// Finding the boards of running alulas. Whoever may write below /tmp may put anything there: a folder counts only if it
// belongs to the user whose boards are looked for and nobody else may enter it; root believes of a user only what
// concerns that user's own processes.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "launch/board.h"

#define FOLDERS_MOST 512 // looked at in one round
#define PREFIX "alula-run-"

struct round {
    al_board_fn *fn;
    void *user;
    uint64_t pid_ns;
    unsigned folders;
    struct al_board board;
};

// A running alula holds a lock on its folder.
static bool is_alive(int dir_fd) {
    if (flock(dir_fd, LOCK_SH | LOCK_NB) == 0) {
        (void)flock(dir_fd, LOCK_UN);
        return false;
    }
    return errno == EWOULDBLOCK;
}

static bool is_trusted(const struct stat *st) {
    return st->st_uid == geteuid() || geteuid() == 0;
}

static bool read_board(int dir_fd, uid_t owner, struct al_board *ret) {
    struct stat st;
    int fd = openat(dir_fd, AL_BOARD_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    bool fine = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == owner && st.st_size > 0 &&
                st.st_size <= (off_t)AL_BOARD_BYTES;
    char *text = fine ? malloc((size_t)st.st_size) : NULL;
    ssize_t len = text ? read(fd, text, (size_t)st.st_size) : -1;
    fine = len > 0 && al_board_parse(text, (size_t)len, ret) == 0;
    ret->head.uid = owner;
    free(text);
    (void)close(fd);
    return fine;
}

// Whether the process is the user's own, so that nobody speaks for somebody else's.
static bool belongs(int root, pid_t pid, uid_t owner) {
    char text[2048];
    ssize_t len = al_fs_readf(root, text, sizeof text, "proc/%d/status", (int)pid);
    const char *line = len > 0 ? strstr(text, "\nUid:\t") : NULL;
    return line && (uid_t)strtoul(line + 6, NULL, 10) == owner;
}

static void keep_own_ranks(struct al_board *b) {
    uint32_t kept = 0;
    int root = -1;
    if (b->head.uid == geteuid() || al_fs_root("/", &root))
        return;
    for (uint32_t i = 0; i < b->rank_count; i++)
        if (belongs(root, b->ranks[i].pid, b->head.uid))
            b->ranks[kept++] = b->ranks[i];
    b->rank_count = kept;
    (void)close(root);
}

static void look_at_folder(struct round *r, int place_fd, const char *name) {
    struct stat st;
    if (place_fd < 0 || r->folders++ >= FOLDERS_MOST)
        return;
    int fd = openat(place_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && is_trusted(&st) && !(st.st_mode & 077) && is_alive(fd) &&
        read_board(fd, st.st_uid, &r->board) &&
        (!r->board.head.pid_ns || !r->pid_ns || r->board.head.pid_ns == r->pid_ns)) {
        keep_own_ranks(&r->board);
        r->fn(r->user, &r->board);
    }
    (void)close(fd);
}

static void look_below(struct round *r, const char *place) {
    DIR *dir = opendir(place);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));)
        if (al_str_starts(e->d_name, PREFIX) && strlen(e->d_name) == strlen(PREFIX) + 6)
            look_at_folder(r, dirfd(dir), e->d_name);
    (void)closedir(dir);
}

// Root: the run-time folders of all who are logged in.
static void look_below_users(struct round *r, const char *own) {
    char place[300];
    DIR *dir = geteuid() == 0 ? opendir("/run/user") : NULL;
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        (void)snprintf(place, sizeof place, "/run/user/%s", e->d_name);
        if (e->d_name[0] != '.' && !al_str_equal(own, place))
            look_below(r, place);
    }
    (void)closedir(dir);
}

void al_boards_each(al_board_fn *fn, void *user) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct round r = {.fn = fn, .user = user};
    struct stat st;
    if (stat("/proc/self/ns/pid", &st) == 0)
        r.pid_ns = st.st_ino;
    if (runtime && *runtime == '/' && strcmp(runtime, "/tmp") != 0)
        look_below(&r, runtime);
    look_below_users(&r, runtime);
    look_below(&r, "/tmp");
    al_board_clear(&r.board);
}

// ---- as a source of ranks ----

#define REFRESH_NS (900 * AL_NS_PER_MS) // boards are written once a second; a tick between two costs nothing

struct boards {
    struct al_ranks base; // first
    struct al_rank *ranks;
    uint32_t count, cap;
    int64_t read_ns, now_ns;
    int result;
};

static struct al_rank *add_rank(struct boards *b) {
    if (b->count == b->cap) {
        uint32_t cap = b->cap ? 2 * b->cap : 16;
        struct al_rank *more = realloc(b->ranks, cap * sizeof *more);
        if (!more)
            return NULL;
        b->ranks = more;
        b->cap = cap;
    }
    return &b->ranks[b->count++];
}

static void add_ranks(void *user, const struct al_board *board) {
    struct boards *b = user;
    bool old = b->now_ns - board->head.written_ns > AL_BOARD_OLD_NS;
    for (uint32_t i = 0; i < board->rank_count; i++) {
        struct al_rank *r = add_rank(b);
        if (!r) {
            b->result = AL_E_NOMEM;
            return;
        }
        *r = board->ranks[i];
        for (int m = 0; m < AL_RANK_METRIC_COUNT && old; m++)
            if (r->m[m].status == AL_STATUS_OK)
                r->m[m].status = AL_STATUS_STALE;
    }
}

static int boards_fill(struct al_ranks *base, struct al_snapshot *s, int64_t now_ns) {
    struct boards *b = (struct boards *)base;
    if (!b->read_ns || now_ns - b->read_ns >= REFRESH_NS || now_ns < b->read_ns) {
        b->count = 0;
        b->result = 0;
        b->read_ns = b->now_ns = now_ns;
        al_boards_each(add_ranks, b);
    }
    for (uint32_t i = 0; i < b->count && !b->result; i++) {
        struct al_rank *to = al_snapshot_add_rank(s);
        if (!to)
            return AL_E_NOMEM;
        *to = b->ranks[i];
    }
    return b->result;
}

static void boards_free(struct al_ranks *base) {
    struct boards *b = (struct boards *)base;
    free(b->ranks);
    free(b);
}

static const struct al_ranks_ops boards_ops = {"boards", boards_fill, boards_free};

int al_boards_open(struct al_ranks **ret) {
    struct boards *b = calloc(1, sizeof *b);
    if (!b)
        return AL_E_NOMEM;
    b->base.ops = &boards_ops;
    *ret = &b->base;
    return 0;
}
