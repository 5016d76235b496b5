// SPDX-License-Identifier: Apache-2.0
// What other alulas may read of this run: its board, filled once a second.
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "cli/run_board.h"
#include "host/parse.h"
#include "launch/board.h"

static struct al_board_writer *writer; // NULL: none is kept
static int64_t put_ns;

static uint64_t start_ticks(int root, pid_t pid) {
    char text[1024];
    struct al_host_stat stat;
    ssize_t len = root < 0 ? -1 : al_fs_readf(root, text, sizeof text, "proc/%d/stat", (int)pid);
    return len > 0 && al_parse_stat(text, (size_t)len, &stat) == 0 ? stat.start_ticks : 0;
}

static void put(const struct al_run *r) {
    static struct al_rank ranks[AL_BOARD_RANKS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->book.rank_count && count < AL_BOARD_RANKS; i++) {
        const struct al_book_rank *k = r->book.ranks[i];
        if (k->ended)
            continue;
        struct al_rank *to = &ranks[count++];
        *to = (struct al_rank){.pid = k->pid, .start_ticks = k->start_ticks, .job = r->job.pid, .local_rank = -1};
        al_tally_rank(&k->tally, to);
    }
    al_board_writer_put(writer, ranks, count);
    const char *source, *folder = al_run_output_dir(r, &source);
    al_board_writer_output(writer, folder);
}

void al_run_board_start(const struct al_run *r) {
    struct al_board_head head = {.pid = getpid(), .job = r->job.pid, .began_realtime_ns = r->book.job.start_realtime_ns};
    struct stat st;
    int root = -1;
    if (!r->linked)
        return;
    if (stat("/proc/self/ns/pid", &st) == 0)
        head.pid_ns = st.st_ino;
    if (al_fs_root("/", &root) == 0) {
        head.start_ticks = start_ticks(root, head.pid);
        (void)close(root);
    }
    (void)al_str_copy(head.command, sizeof head.command, r->book.job.command);
    (void)al_str_copy(head.record, sizeof head.record, r->record.store ? r->record.path : "");
    (void)al_board_writer_new(r->link.dir_fd, &head, &writer);
}

void al_run_board_tick(const struct al_run *r, int64_t now_ns) {
    if (!writer || now_ns - put_ns < AL_NS_PER_S)
        return;
    put_ns = now_ns;
    put(r);
}

void al_run_board_stop(void) {
    writer = al_board_writer_free(writer);
}
