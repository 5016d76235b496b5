// SPDX-License-Identifier: Apache-2.0
// metrics_report.json: where it goes, and its writing.
#include <errno.h>
#include <string.h>

#include "alula-version.h"
#include "base/fs.h"
#include "base/str.h"
#include "cli/run.h"
#include "export/report.h"
#include "job/fill.h"
#include "launch/output_dir.h"

const char *al_run_trainer_dir(const struct al_run *r, const char **ret_source) {
    const struct al_book_rank *leader = al_book_leader(&r->book);
    *ret_source = "the trainer";
    if (!r->elsewhere && leader && leader->tally.text[AL_TEXT_OUTPUT_DIR][0])
        return leader->tally.text[AL_TEXT_OUTPUT_DIR];
    *ret_source = "the command's arguments";
    const char *named = al_output_dir(r->argv);
    if (!named)
        *ret_source = NULL;
    return named;
}

const char *al_run_output_dir(const struct al_run *r, const char **ret_source) {
    *ret_source = "--output-dir";
    return r->output_dir ? r->output_dir : al_run_trainer_dir(r, ret_source);
}

static void write_report(struct al_run *r, const struct al_buf *b, const char *folder, bool finished) {
    int result = al_report_write(b, folder);
    // A trainer that saved nothing has made no folder.
    if (result == AL_E_NOENT && finished && al_fs_make_folder(folder, 0777) == 0)
        result = al_report_write(b, folder);
    if (result && finished)
        al_cli_error("%s: %s/metrics_report.json: %s", r->name, folder, errno ? strerror(errno) : al_error_text(result));
    if (!result)
        (void)al_str_copy(r->written, sizeof r->written, folder);
}

void al_run_report(struct al_run *r, bool finished) {
    struct al_book_report report = {.version = AL_VERSION,
                                    .finished = finished && !r->goes_on,
                                    .written_realtime_ns = al_realtime_ns(),
                                    .runtime_seconds = (double)(al_monotonic_ns() - r->book.job.start_ns) / 1e9};
    struct al_buf b = AL_BUF_INIT;
    const char *folder = al_run_output_dir(r, &report.output_dir_source);
    if (!folder)
        return;
    pthread_mutex_lock(&r->lock);
    int result = al_book_report_json(&r->book, &report, &b);
    pthread_mutex_unlock(&r->lock);
    // A network file system may take its time: nobody waits for the lock meanwhile.
    if (!result)
        write_report(r, &b, folder, finished);
    else if (finished)
        al_cli_error("%s: metrics_report.json: %s", r->name, al_error_text(result));
    al_buf_free(&b);
}
