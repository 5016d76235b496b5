// SPDX-License-Identifier: Apache-2.0
// alula compare: two jobs side by side.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/job_stored.h"
#include "job/compare.h"

#define REPORT_MOST (256u << 20) // bytes of a metrics_report.json; one of 1024 ranks has some 5 MB

static const char help[] =
    "Usage: alula compare A B [--json]\n"
    "Says what changed from job A to job B: GPU utilisation, throughput, MFU, shares of waiting and communication, each phase\n"
    "in ms a step, peak memory; whether that is better or worse, or no more than the steps' own spread; and where the rest of\n"
    "the step goes. A and B are recordings of alula run (run.alula) or metrics_report.json files. alula diff is the same.\n\n"
    "  --json           one JSON document\n"
    "  --help           this text\n\n"
    "Examples:\n"
    "  alula compare before/run.alula after/run.alula\n"
    "  alula compare before/metrics_report.json after/run.alula --json | jq '.figures[] | select(.verdict == \"worse\")'\n"
    "\nExit status: 0; 2 bad option; 5 no such file; 6 neither a recording nor a report, newer, or damaged.\n";

enum { OPT_JSON = 1 };
static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, AL_OPT_HELP},
    {0},
};

static int parse(const char *path, const char *bytes, size_t len, struct al_side *ret) {
    struct al_json_document d;
    size_t at = 0;
    int result = al_json_parse(bytes, len, &d, &at);
    if (result) {
        al_cli_error("%s: no JSON document, from byte %zu on", path, at);
        return al_error_exit_status(result);
    }
    bool good = al_side_read(&d, path, ret);
    al_json_free(&d);
    if (good)
        return 0;
    al_cli_error("%s: is neither a recording nor a metrics_report.json", path);
    return al_error_exit_status(AL_E_FORMAT);
}

static bool is_json(const char *path) {
    char head[64] = "";
    FILE *f = fopen(path, "re");
    size_t got = f ? fread(head, 1, sizeof head - 1, f) : 0;
    if (f)
        (void)fclose(f);
    head[got] = '\0';
    return head[strspn(head, " \t\r\n")] == '{';
}

static int read_report(const char *path, struct al_side *ret) {
    char *data = NULL;
    size_t len = 0;
    int result = al_fs_slurp(path, REPORT_MOST, &data, &len);
    if (result) {
        al_cli_error("%s: %s", path, al_error_text(result));
        return al_error_exit_status(result);
    }
    int status = parse(path, data, len, ret);
    free(data);
    return status;
}

// By way of the report that it would have written: one reader for both.
static int read_recording(const char *path, struct al_side *ret) {
    struct al_cli_job job;
    struct al_buf b = AL_BUF_INIT;
    int status = al_cli_job_load(path, NULL, &job);
    if (status)
        return status;
    if (!job.is_job) {
        al_cli_error("%s: holds no job of alula run, so there are no steps to compare", path);
        status = al_error_exit_status(AL_E_FORMAT);
    } else {
        int result = al_cli_job_json(&job, &b);
        status = result ? al_error_exit_status(result) : parse(path, b.data, b.len, ret);
    }
    al_buf_free(&b);
    al_book_free(&job.book);
    return status;
}

static int compare(char *const *paths, bool json) {
    static struct al_side sides[2];
    struct al_buf b = AL_BUF_INIT;
    for (int i = 0; i < 2; i++) {
        int status = is_json(paths[i]) ? read_report(paths[i], &sides[i]) : read_recording(paths[i], &sides[i]);
        if (status)
            return status;
    }
    if (json)
        al_compare_json(&b, &sides[0], &sides[1]);
    else
        al_compare_text(&b, &sides[0], &sides[1]);
    (void)fwrite(b.data, 1, b.len, stdout);
    al_buf_free(&b);
    return al_cli_flush();
}

int al_cmd_compare(int argc, char **argv) {
    bool json = false;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case OPT_JSON: json = true; break;
        case AL_OPT_HELP:
        case 'h': fputs(help, stdout); return al_cli_flush();
        default: return al_error_exit_status(AL_E_INVALID);
        }
    }
    if (optind + 2 == argc)
        return compare(argv + optind, json);
    al_cli_error("compare: name two jobs, as in alula compare before/run.alula after/run.alula");
    return al_error_exit_status(AL_E_INVALID);
}
