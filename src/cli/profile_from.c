// SPDX-License-Identifier: Apache-2.0
// alula profile --from FILE: what profiles a recording holds, and one of them in any format. And the other way: where a profile of
// a process under alula run belongs.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "cli/profile_stored.h"
#include "launch/board.h"
#include "launch/end.h"

struct from {
    struct al_store *store;
    struct al_buf b;
    int64_t wanted, id; // wanted: 0 the latest
    char name[256], command[4096], version[32];
    struct al_store_profile head;
    uint32_t count;
};

static int list_one(void *user, const struct al_store_profile *p) {
    struct from *x = user;
    x->count++;
    al_profile_line(&x->b, x->store, p);
    return 0;
}

static int find_one(void *user, const struct al_store_profile *p) {
    struct from *x = user;
    if (x->wanted && p->id != x->wanted)
        return 0;
    x->count++;
    x->head = *p; // texts are the list's
    (void)al_str_copy(x->name, sizeof x->name, p->name);
    (void)al_str_copy(x->command, sizeof x->command, p->command);
    (void)al_str_copy(x->version, sizeof x->version, p->version);
    return 0;
}

static int list(struct al_profiling *p, struct from *x) {
    int result = al_store_profiles(x->store, list_one, x);
    if (!result && !x->count)
        al_cli_error("profile: %s holds no profile", p->from);
    if (x->b.data)
        (void)fwrite(x->b.data, 1, x->b.len, stdout);
    return result;
}

static int write_one(struct al_profiling *p, struct from *x) {
    struct al_store_error e = {{0}};
    char exporter[64];
    x->wanted = p->id;
    int result = al_store_profiles(x->store, find_one, x);
    if (!result && !x->count) {
        al_cli_error(p->id ? "profile: %s holds no profile of that number: --list" : "profile: %s holds no profile", p->from);
        return AL_E_NOENT;
    }
    x->head.name = x->name;
    x->head.command = x->command;
    x->head.version = x->version;
    if (!result)
        result = al_profile_load(x->store, x->head.id, NULL, &p->profile, &e);
    if (result) {
        al_cli_error("profile: %s: %s", p->from, *e.text ? e.text : al_error_text(result));
        return result;
    }
    const struct al_profile_about about = al_profile_stored_about(&x->head, exporter, sizeof exporter);
    bool fresh;
    result = al_profiling_open_output(p, &fresh);
    return result ? result : al_profiling_write(p, &about);
}

int al_profile_from(struct al_profiling *p) {
    struct from x = {0};
    struct al_store_error e = {{0}};
    int result = al_store_open(p->from, &x.store, &e);
    if (result)
        al_cli_error("profile: %s", *e.text ? e.text : al_error_text(result));
    else
        result = p->list ? list(p, &x) : write_one(p, &x);
    if (!result && al_store_damage(x.store, &e)) {
        al_cli_error("profile: %s: damaged in places: %s", p->from, e.text);
        result = AL_E_FORMAT;
    }
    al_store_free(x.store);
    al_buf_free(&x.b);
    int status = al_cli_flush();
    return status ? status : al_error_exit_status(result);
}

// --- the recording of an alula run ---

struct run {
    pid_t pid;
    char path[1200];
};

static void look_at_board(void *user, const struct al_board *board) {
    struct run *r = user;
    const struct al_board_head *h = &board->head;
    // Another user's board says where root is to write: that is not done.
    bool mine = h->uid == geteuid() && *h->record && (r->pid == h->job || (h->job > 0 && al_end_descends(r->pid, h->job)));
    for (uint32_t i = 0; i < board->rank_count && !mine && h->uid == geteuid() && *h->record; i++)
        mine = board->ranks[i].pid == r->pid || al_end_descends(r->pid, board->ranks[i].pid);
    if (!mine || *r->path)
        return;
    if (*h->record == '/')
        (void)al_str_copy(r->path, sizeof r->path, h->record);
    else
        (void)snprintf(r->path, sizeof r->path, "/proc/%d/cwd/%s", (int)h->pid, h->record);
}

bool al_profile_run_recording(pid_t pid, char *out, size_t size) {
    struct run r = {.pid = pid};
    al_boards_each(look_at_board, &r);
    char *whole = *r.path ? realpath(r.path, NULL) : NULL;
    bool found = whole && al_str_copy(out, size, whole);
    free(whole);
    return found;
}
