// SPDX-License-Identifier: Apache-2.0
// The job's recording, run.alula: where it is written, what goes in, and its way into the output folder at the end.
//
// A folder that the trainer may make, empty or look into first is left alone until the job is over: some refuse one that
// is not empty. Neither does SQLite write well on the network file systems that such folders lie on. In both cases the
// recording is written on a local disk and moved at the end.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/move.h"
#include "cli/run.h"
#include "export/report.h"
#include "job/keep.h"
#include "launch/output_dir.h"
#include "store/store.h"

#define ATTR_NS (200 * AL_NS_PER_MS)
#define LOCK_S 3
#define KEEP_EVERY_NS (10 * AL_NS_PER_S)

// Called from ticks. A driver that is slow to answer is not asked again: the end of the job would wait for it.
static int ask_attr(void *user, uint32_t gpu, enum al_attr attr, struct al_attr_value *ret) {
    struct al_run *r = user;
    if (!r->device.collect || r->record.slow)
        return AL_E_AGAIN;
    int result = al_collect_attr(r->device.collect, gpu, attr, ATTR_NS, ret);
    r->record.slow = result == AL_E_TIMEOUT;
    return result;
}

static bool try_writer(struct al_run *r, const char *path, struct al_store_error *e, int *ret) {
    const struct al_store_options o = {.path = path, .version = AL_VERSION, .config = r->record.config.data,
                                       .attr = ask_attr, .user = r};
    *ret = al_store_writer(&o, &r->record.store, e);
    if (!*ret)
        (void)al_str_copy(r->record.path, sizeof r->record.path, path);
    return !*ret;
}

// run.alula, or run-2.alula where there is one: an earlier run's is never touched, nor that of another that runs now.
static int open_in_folder(struct al_run *r, const char *folder, struct al_store_error *e) {
    char path[sizeof r->record.path];
    int result = AL_E_DENIED;
    for (unsigned number = 1; number <= AL_MOVE_NUMBERS; number++) {
        if (!al_move_name(folder, number, path, sizeof path))
            return AL_E_TOOBIG;
        if (access(path, F_OK) == 0)
            continue;
        // Where it came into being in between, the next number is tried.
        if (try_writer(r, path, e, &result) || access(path, F_OK) != 0)
            return result;
    }
    return result;
}

static int open_on_local_disk(struct al_run *r, struct al_store_error *e) {
    const char *own = getenv("TMPDIR");
    const char *const places[] = {own && *own == '/' ? own : NULL, "/var/tmp", "/tmp"};
    int result = AL_E_NOENT;
    (void)snprintf(e->text, sizeof e->text, "no local folder can be written (TMPDIR, /var/tmp, /tmp)");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char folder[sizeof r->record.folder], path[sizeof folder + 16];
        if (!places[i] || al_fs_remote(places[i]) ||
            snprintf(folder, sizeof folder, "%s/alula-record-XXXXXX", places[i]) >= (int)sizeof folder || !mkdtemp(folder))
            continue;
        (void)snprintf(path, sizeof path, "%s/run.alula", folder);
        if (try_writer(r, path, e, &result)) {
            (void)al_str_copy(r->record.folder, sizeof r->record.folder, folder);
            return 0;
        }
        (void)rmdir(folder);
    }
    return result;
}

static bool on_remote_disk(const char *file) {
    char folder[4200];
    const char *slash = strrchr(file, '/');
    if (!slash)
        return al_fs_remote(".");
    return al_str_copy_n(folder, sizeof folder, file, slash == file ? 1 : (size_t)(slash - file)) && al_fs_remote(folder);
}

static int open_named(struct al_run *r, struct al_store_error *e) {
    int result;
    if (!on_remote_disk(r->record.named)) {
        (void)try_writer(r, r->record.named, e, &result);
        return result;
    }
    if (access(r->record.named, F_OK) == 0) {
        (void)snprintf(e->text, sizeof e->text, "%s exists already", r->record.named);
        return AL_E_DENIED;
    }
    return open_on_local_disk(r, e);
}

void al_run_record_open(struct al_run *r) {
    struct al_store_error e = {{0}};
    const char *trained_in = al_output_dir(r->argv), *named = r->record.named;
    int result;
    if (r->record.off || (!al_store_built() && !named))
        return;
    pthread_mutex_init(&r->record.lock, NULL);
    al_cli_print_settings(&r->record.config, &r->book.settings);
    if (named)
        result = open_named(r, &e);
    else if (r->output_dir && !(trained_in && strcmp(r->output_dir, trained_in) == 0) && !al_fs_remote(r->output_dir))
        result = open_in_folder(r, r->output_dir, &e);
    else
        result = open_on_local_disk(r, &e);
    r->record.opened = !result;
    if (result)
        al_cli_error("%s: %s%s%s; the job runs unrecorded", r->name, named ? "--record: " : "recording: ",
                     *e.text ? e.text : al_error_text(result), named ? "" : " (--no-record: none is tried)");
}

static void stop(struct al_run *r, const char *what) {
    struct al_store_error e = {{0}};
    (void)al_str_copy(e.text, sizeof e.text, al_store_why(r->record.store));
    al_cli_error("%s: %s: %s; recording stopped, what was written before is kept", r->name, r->record.path,
                 *e.text ? e.text : what);
    r->record.failed = true;
}

static bool works(const struct al_run *r) {
    return r->record.store && !r->record.failed;
}

// What is known of the job now, so that a recording that is cut off tells it too.
static int keep(struct al_run *r, bool finished) {
    struct al_buf b = AL_BUF_INIT;
    struct al_book_kept k = {.origin_ns = r->record.origin_ns,
                             .finished = finished,
                             .written_realtime_ns = al_realtime_ns(),
                             .runtime_seconds = (double)(al_monotonic_ns() - r->book.job.start_ns) / 1e9};
    const char *source = NULL;
    pthread_mutex_lock(&r->lock);
    (void)al_run_output_dir(r, &source);
    (void)al_str_copy(k.output_dir_source, sizeof k.output_dir_source, source ? source : "");
    al_book_keep(&b, &r->book, &k);
    pthread_mutex_unlock(&r->lock);
    int result = b.failed ? AL_E_NOMEM : al_store_note_meta(r->record.store, AL_BOOK_KEY, b.data);
    al_buf_free(&b);
    return result;
}

void al_run_record_note(struct al_run *r, const struct al_finding *f) {
    if (!works(r) || r->record.queued == AL_STEPS_VERDICTS)
        return;
    struct al_finding *own = &r->record.queue[r->record.queued++];
    *own = *f;
    own->phase = AL_PHASE_BEGAN;
    own->began_ns = own->updated_ns = al_monotonic_ns();
    own->began_realtime_ns = al_realtime_ns();
}

// What the rules on steps found since the last tick.
static int put_queue(struct al_run *r, const struct al_snapshot *s) {
    int result = 0;
    for (uint32_t i = 0; i < AL_STEPS_VERDICTS && !result; i++) {
        pthread_mutex_lock(&r->lock);
        bool more = i < r->record.queued;
        if (!more)
            r->record.queued = 0;
        pthread_mutex_unlock(&r->lock);
        if (!more)
            break;
        result = r->record.store->ops->finding(r->record.store, s, &r->record.queue[i]);
    }
    return result;
}

static void put_tick(struct al_run *r, const struct al_snapshot *s) {
    if (!r->record.origin_ns)
        r->record.origin_ns = s->monotonic_ns;
    int result = r->record.store->ops->tick(r->record.store, s);
    if (!result)
        result = put_queue(r, s);
    if (!result && s->monotonic_ns >= r->record.keep_ns) {
        r->record.keep_ns = s->monotonic_ns + KEEP_EVERY_NS;
        result = keep(r, false);
    }
    if (result)
        stop(r, al_error_text(result));
}

void al_run_record_tick(struct al_run *r, const struct al_snapshot *s) {
    if (!r->record.opened)
        return;
    pthread_mutex_lock(&r->record.lock);
    if (works(r))
        put_tick(r, s);
    pthread_mutex_unlock(&r->record.lock);
}

void al_run_record_finding(struct al_run *r, const struct al_snapshot *s, const struct al_finding *f) {
    if (!r->record.opened)
        return;
    pthread_mutex_lock(&r->record.lock);
    if (works(r) && r->record.store->ops->finding(r->record.store, s, f))
        stop(r, "a finding could not be written");
    pthread_mutex_unlock(&r->record.lock);
}

static struct al_store_process who(const struct al_book_rank *k) {
    int64_t rank = k->tally.rank, world = k->tally.world;
    return (struct al_store_process){k->pid, k->start_ticks, rank >= 0 && rank <= INT32_MAX ? (int32_t)rank : -1, -1,
                                     world >= 0 && world <= INT32_MAX ? (int32_t)world : -1};
}

void al_run_record_marks(struct al_run *r, const struct al_book_rank *k, const struct al_mark *marks, size_t count) {
    const struct al_store_process p = who(k);
    if (works(r) && count)
        (void)al_store_marks(r->record.store, &p, marks, count); // an error shows at the next tick
}

void al_run_record_text(struct al_run *r, const struct al_book_rank *k, int64_t at_ns, uint16_t code, const char *text,
                        size_t len) {
    const struct al_store_process p = who(k);
    if (works(r))
        (void)al_store_mark_text(r->record.store, &p, at_ns, code, text, len);
}

// ---- the end ----

static int put_verdicts(struct al_run *r, const struct al_snapshot *s) {
    const struct al_steps_verdict *verdicts;
    uint32_t count = al_book_judge(&r->book, false, &verdicts);
    int result = put_queue(r, s);
    for (uint32_t i = 0; i < count && !result; i++)
        result = al_store_verdict(r->record.store, verdicts[i].rule, verdicts[i].finding.key,
                                  al_book_verdict_word(verdicts[i].verdict), verdicts[i].finding.message);
    return result;
}

// The last words, by the main thread: the collecting one is gone, or waits for the driver.
static int put_end(struct al_run *r) {
    struct al_store_stats st;
    struct al_snapshot s = {.monotonic_ns = al_monotonic_ns(), .realtime_ns = al_realtime_ns()};
    s.interval_ns = AL_NS_PER_S / 2;
    al_store_stats(r->record.store, &st);
    int result = 0;
    if (!st.ticks) { // over before the driver had answered
        r->record.origin_ns = s.monotonic_ns;
        result = r->record.store->ops->tick(r->record.store, &s);
    }
    if (!result)
        result = put_verdicts(r, &s);
    return result ? result : keep(r, !r->goes_on);
}

static void say_place(struct al_run *r, const char *path) {
    struct al_buf b = AL_BUF_INIT;
    if (r->quiet)
        return;
    al_buf_str(&b, "alula: recording: ");
    al_term_string(&b, path);
    al_buf_char(&b, '\n');
    al_run_print(&b);
}

static void remove_local(struct al_run *r) {
    (void)unlink(r->record.path);
    (void)rmdir(r->record.folder);
}

static void move_to_its_place(struct al_run *r) {
    char path[sizeof r->record.path];
    const char *source, *folder = al_run_output_dir(r, &source);
    int result;
    if (!r->record.named && !folder) { // nobody knows where it belongs
        remove_local(r);
        return;
    }
    if (r->record.named)
        result = al_move_file(r->record.path, r->record.named);
    else
        result = al_move_numbered(r->record.path, folder, path, sizeof path);
    if (result) {
        al_cli_error("%s: recording: %s: %s; it stays at %s", r->name, r->record.named ? r->record.named : folder,
                     errno ? strerror(errno) : al_error_text(result), r->record.path);
        return;
    }
    (void)rmdir(r->record.folder);
    say_place(r, r->record.named ? r->record.named : path);
}

void al_run_record_close(struct al_run *r) {
    struct al_store_error e = {{0}};
    if (!r->record.store)
        return;
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LOCK_S;
    if (pthread_mutex_timedlock(&r->record.lock, &until)) {
        al_cli_error("%s: the disk does not answer: the recording is left as it is at %s", r->name, r->record.path);
        return;
    }
    bool was_good = works(r);
    if (was_good && put_end(r))
        stop(r, "the end could not be written");
    int result = al_store_close(r->record.store, &e);
    r->record.store = NULL;
    pthread_mutex_unlock(&r->record.lock);
    if (result && !r->record.failed)
        al_cli_error("%s: %s: %s; what was written before is kept", r->name, r->record.path, e.text);
    if (*r->record.folder)
        move_to_its_place(r);
    else
        say_place(r, r->record.path);
    al_buf_free(&r->record.config);
}
