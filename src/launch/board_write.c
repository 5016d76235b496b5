// SPDX-License-Identifier: Apache-2.0
// Keeping a board up to date: a thread of its own writes it, since a disk may be slow.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "base/thread.h"
#include "launch/board.h"

#define TEMPORARY AL_BOARD_NAME ".new"

struct al_board_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int dir_fd; // not ours
    bool quit;
    // Under lock.
    struct al_board_head head;
    struct al_rank ranks[AL_BOARD_RANKS];
    uint32_t count;
    // The thread's own.
    struct al_rank copy[AL_BOARD_RANKS];
    struct al_buf text;
};

// Readers see the whole of the old file or the whole of the new one.
static void publish(const struct al_board_writer *w) {
    int fd = openat(w->dir_fd, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    bool fine = w->text.data && !w->text.failed && al_fs_write_all(fd, w->text.data, w->text.len);
    if (close(fd) == 0 && fine)
        (void)renameat(w->dir_fd, TEMPORARY, w->dir_fd, AL_BOARD_NAME);
}

static struct timespec in_a_second(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec++;
    return t;
}

static void *writer_main(void *user) {
    struct al_board_writer *w = user;
    struct al_board_head head;
    pthread_mutex_lock(&w->lock);
    while (!w->quit) {
        uint32_t count = w->count;
        memcpy(w->copy, w->ranks, count * sizeof *w->copy);
        head = w->head;
        pthread_mutex_unlock(&w->lock);
        head.written_ns = al_monotonic_ns();
        al_buf_clear(&w->text);
        al_board_format(&w->text, &head, w->copy, count);
        publish(w);
        struct timespec until = in_a_second();
        pthread_mutex_lock(&w->lock);
        while (!w->quit && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0)
            ;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int al_board_writer_new(int dir_fd, const struct al_board_head *head, struct al_board_writer **ret) {
    struct al_board_writer *w = calloc(1, sizeof *w);
    if (!w)
        return AL_E_NOMEM;
    w->dir_fd = dir_fd;
    w->head = *head;
    pthread_mutex_init(&w->lock, NULL);
    al_thread_cond(&w->wake);
    if (al_thread_start(&w->thread, writer_main, w)) {
        pthread_mutex_destroy(&w->lock);
        pthread_cond_destroy(&w->wake);
        free(w);
        return AL_E_NOMEM;
    }
    *ret = w;
    return 0;
}

void al_board_writer_put(struct al_board_writer *w, const struct al_rank *ranks, uint32_t count) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock); // held for a copy, never over a write
    w->count = count < AL_BOARD_RANKS ? count : AL_BOARD_RANKS;
    memcpy(w->ranks, ranks, w->count * sizeof *ranks);
    pthread_mutex_unlock(&w->lock);
}

void al_board_writer_output(struct al_board_writer *w, const char *folder) {
    if (!w || !folder)
        return;
    pthread_mutex_lock(&w->lock);
    (void)al_str_copy(w->head.output, sizeof w->head.output, folder);
    pthread_mutex_unlock(&w->lock);
}

// A disk that hangs keeps the thread and its memory: alula leaves by _exit and waits for nothing.
static bool join(struct al_board_writer *w) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    return pthread_timedjoin_np(w->thread, NULL, &until) == 0;
}

struct al_board_writer *al_board_writer_free(struct al_board_writer *w) {
    if (!w)
        return NULL;
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (!join(w))
        return NULL;
    (void)unlinkat(w->dir_fd, AL_BOARD_NAME, 0);
    (void)unlinkat(w->dir_fd, TEMPORARY, 0);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    al_buf_free(&w->text);
    free(w);
    return NULL;
}
