// SPDX-License-Identifier: Apache-2.0
// The trainer's log is read outside the lock: it may lie on a slow file system.
#include "base/str.h"
#include "cli/run.h"

#define EVERY_NS (10 * AL_NS_PER_S)
#define READ_MOST (1U << 20)       // at once
#define READ_MOST_LAST (256U << 20)

static void find(struct al_run *r) {
    struct al_run_log *l = &r->log;
    char path[sizeof r->book.trainlog_path];
    const char *source, *folder = al_run_trainer_dir(r, &source);
    if (!folder)
        folder = al_run_output_dir(r, &source);
    if (!folder || al_trainlog_find(folder, r->book.job.start_realtime_ns, path, sizeof path) ||
        al_trainlog_open(&l->tail, path))
        return;
    l->open = true;
    al_trainlog_init(&l->log);
    pthread_mutex_lock(&r->lock);
    (void)al_str_copy(r->book.trainlog_path, sizeof r->book.trainlog_path, path);
    pthread_mutex_unlock(&r->lock);
}

void al_run_log(struct al_run *r, int64_t now_ns, bool last) {
    struct al_run_log *l = &r->log;
    if (!last && now_ns < l->next_ns)
        return;
    l->next_ns = now_ns + EVERY_NS;
    if (!l->open)
        find(r);
    if (!l->open)
        return;
    (void)al_trainlog_read(&l->tail, &l->log, last ? READ_MOST_LAST : READ_MOST, last);
    pthread_mutex_lock(&r->lock);
    r->book.trainlog = l->log;
    pthread_mutex_unlock(&r->lock);
}

void al_run_log_close(struct al_run *r) {
    if (r->log.open)
        al_trainlog_close(&r->log.tail);
    r->log.open = false;
}
