// SPDX-License-Identifier: Apache-2.0
// alula report: a job's closing summary, or its metrics_report.json, again from its recording.
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/job_stored.h"
#include "cli/profile_stored.h"
#include "job/end.h"
#include "job/say.h"

static const char help[] =
    "Usage: alula report FILE [--json]\n"
    "Shows the closing summary of a job again, from the recording that alula run made of it (run.alula): its steps and where\n"
    "their time went, its GPUs, what the rules say, and why it died. Of a recording that was cut off, as far as it goes.\n\n"
    "  --json           metrics_report.json instead, as alula run wrote it\n"
    "  --verbose        every rank, and what every rule thought\n"
    "  --config FILE    judge by these settings instead of those recorded\n"
    "  --help           this text\n\n"
    "Examples:\n"
    "  alula report output/run.alula\n"
    "  alula report output/run.alula --json | jq .data_loading_time_ratio\n"
    "  alula compare old/run.alula new/run.alula      what changed between two\n"
    "\nExit status: 0; 2 bad option; 5 no such file; 6 not a recording, newer, or damaged.\n";

enum { OPT_JSON = 1, OPT_VERBOSE };
static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {"config", required_argument, NULL, AL_OPT_CONFIG},
    {"help", no_argument, NULL, AL_OPT_HELP},
    {0},
};

static void put_gpu(struct al_buf *b, const struct al_book_gpu *g) {
    al_buf_printf(b, "alula: GPU %u ", g->index);
    al_term_string(b, g->name);
    if (g->covered_ns > 0) {
        al_buf_str(b, ": utilisation mean ");
        al_buf_fixed(b, g->ratio_ns / g->covered_ns * 100, 1);
        al_buf_str(b, " %, most ");
        al_buf_fixed(b, g->max * 100, 1);
        al_buf_str(b, " %");
    } else {
        al_buf_str(b, ": utilisation not known");
    }
    if (g->memory_known) {
        al_buf_str(b, "; most memory ");
        al_buf_fixed(b, g->memory_most / 1073741824.0, 1);
        al_buf_str(b, " of ");
        al_buf_fixed(b, g->memory_total / 1073741824.0, 1);
        al_buf_str(b, " GiB");
    }
    al_buf_char(b, '\n');
}

static void put_device_view(struct al_buf *b, const struct al_cli_job *job, const char *path) {
    al_buf_str(b, "alula: ");
    al_term_string(b, path);
    al_buf_str(b, " holds no job of alula run, so nothing is known of ranks and steps; its GPUs over ");
    al_buf_fixed(b, (double)job->info.duration_ns / 1e9, 0);
    al_buf_str(b, " s:\n");
    for (uint32_t i = 0; i < job->book.gpu_count; i++)
        put_gpu(b, &job->book.gpus[i]);
    if (!job->book.gpu_count)
        al_buf_str(b, "alula: no GPU\n");
}

struct profiles {
    struct al_store *store;
    struct al_buf *b;
    uint32_t count;
};

static void put_text(struct al_buf *b, struct al_cli_job *job, const char *path, bool verbose) {
    if (!job->is_job) {
        put_device_view(b, job, path);
        return;
    }
    al_buf_str(b, "alula: ");
    al_term_string(b, job->book.job.command);
    al_buf_str(b, job->kept.finished ? "\n" : ": this recording was not closed: the job still runs, or alula was killed\n");
    al_book_post_mortem(&job->book, b);
    al_book_say_summary(&job->book, verbose, b);
}

static int put_profile(void *user, const struct al_store_profile *p) {
    struct profiles *x = user;
    if (!x->count++)
        al_buf_str(x->b, "alula: profiles (alula profile --from FILE --id N -o OUT):\n");
    al_buf_str(x->b, "alula:   ");
    al_profile_line(x->b, x->store, p);
    return 0;
}

// What alula profile added to the recording.
static void put_profiles(struct al_buf *b, const char *path) {
    struct profiles x = {.b = b};
    struct al_store_error e = {{0}};
    if (al_store_open(path, &x.store, &e))
        return; // it could be read before: its errors are told
    (void)al_store_profiles(x.store, put_profile, &x);
    al_store_free(x.store);
}

static int report(const char *path, const char *config, bool json, bool verbose) {
    struct al_cli_job job;
    struct al_buf b = AL_BUF_INIT;
    int status = al_cli_job_load(path, config, &job), result = 0;
    if (status)
        return status;
    if (json)
        result = al_cli_job_json(&job, &b);
    else
        put_text(&b, &job, path, verbose);
    if (!json && !result)
        put_profiles(&b, path);
    if (result || b.failed) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        status = al_error_exit_status(AL_E_NOMEM);
    } else {
        (void)fwrite(b.data, 1, b.len, stdout);
        status = al_cli_flush();
    }
    al_buf_free(&b);
    al_book_free(&job.book);
    return !status && job.damaged ? al_error_exit_status(AL_E_FORMAT) : status;
}

int al_cmd_report(int argc, char **argv) {
    bool json = false, verbose = false;
    const char *config = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case OPT_JSON: json = true; break;
        case OPT_VERBOSE: verbose = true; break;
        case AL_OPT_CONFIG: config = optarg; break;
        case AL_OPT_HELP:
        case 'h': fputs(help, stdout); return al_cli_flush();
        default: return al_error_exit_status(AL_E_INVALID);
        }
    }
    if (optind + 1 == argc)
        return report(argv[optind], config, json, verbose);
    if (optind < argc)
        al_cli_error("report: one recording at a time (alula compare takes two)");
    else
        al_cli_error("report: name the recording, as in alula report run.alula");
    return al_error_exit_status(AL_E_INVALID);
}
