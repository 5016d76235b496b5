// SPDX-License-Identifier: Apache-2.0
// alula doctor: why does it not work here, or what will not be shown? Looks only; changes nothing.
#include "cli/doctor.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alula-version.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/str.h"

static const char help[] =
    "Usage: alula doctor [--json] [options]\n"
    "Checks what alula stands on: driver library and kernel driver, device nodes and rights, what each group of metrics\n"
    "answers and costs, processes and their names, other boards. Each check says what was found and what to do.\n"
    "Nothing is changed.\n\n"
    "  --json              one JSON object\n\n";

static const char examples[] = "\nExamples:\n"
                               "  alula doctor\n"
                               "  alula doctor --json | jq '.checks[] | select(.result==\"problem\")'\n"
                               "\nExit status: 0 no problem; 1 a problem was found; 2 bad option.\n";

static const char *const words[] = {"ok", "note", "problem", "unknown"};

void al_doctor_add(struct al_doctor *d, enum al_check_result result, const char *name, const char *todo,
                   const char *format, ...) {
    if (d->count == AL_CHECKS_MAX)
        return;
    struct al_check *c = &d->check[d->count++];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->found, sizeof c->found, format, args);
    va_end(args);
    (void)al_str_clean(c->found);
    (void)al_str_copy(c->name, sizeof c->name, name);
    c->result = result;
    c->todo = todo;
}

void al_doctor_list_add(struct al_doctor_list *l, const char *item) {
    size_t len = strlen(l->text), need = strlen(item) + 2;
    l->count++;
    // Room is kept for "and N more", and once something did not fit, nothing that follows is shown.
    if (l->shown + 1 != l->count || (l->most && l->count > l->most) || len + need + 24 > sizeof l->text)
        return;
    (void)snprintf(l->text + len, sizeof l->text - len, "%s%s", len ? ", " : "", item);
    l->shown++;
}

const char *al_doctor_list_text(struct al_doctor_list *l) {
    size_t len = strlen(l->text);
    if (l->shown < l->count)
        (void)snprintf(l->text + len, sizeof l->text - len, " and %u more", l->count - l->shown);
    l->shown = l->count;
    return l->text;
}

bool al_doctor_exists(const struct al_doctor *d, const char *path) {
    return faccessat(d->root_fd, path, F_OK, 0) == 0;
}

static void print_text(const struct al_doctor *d, struct al_buf *b, bool color) {
    static const char *const colors[] = {"\033[32m", "\033[33m", "\033[31;1m", "\033[2m"};
    uint32_t counts[4] = {0};
    for (uint32_t i = 0; i < d->count; i++) {
        const struct al_check *c = &d->check[i];
        counts[c->result]++;
        al_buf_printf(b, "%s%-8s%s %-20s ", color ? colors[c->result] : "", words[c->result], color ? "\033[0m" : "",
                      c->name);
        al_term_string(b, c->found);
        al_buf_char(b, '\n');
        if (c->todo)
            al_buf_printf(b, "%30sdo: %s\n", "", c->todo);
    }
    al_buf_printf(b, "\n%u ok, %u note%s, %u problem%s, %u unknown\n", counts[0], counts[1], counts[1] == 1 ? "" : "s",
                  counts[2], counts[2] == 1 ? "" : "s", counts[3]);
}

static void print_json(const struct al_doctor *d, struct al_buf *b) {
    uint32_t problems = 0;
    al_buf_str(b, "{\"type\":\"doctor\",\"alula_version\":\"" AL_VERSION "\",\"checks\":[");
    for (uint32_t i = 0; i < d->count; i++) {
        const struct al_check *c = &d->check[i];
        problems += c->result == AL_CHECK_PROBLEM;
        al_buf_printf(b, "%s{\"name\":", i ? "," : "");
        al_json_string(b, c->name);
        al_buf_printf(b, ",\"result\":\"%s\",\"found\":", words[c->result]);
        al_json_string(b, c->found);
        al_buf_str(b, ",\"do\":");
        if (c->todo)
            al_json_string(b, c->todo);
        else
            al_buf_str(b, "null");
        al_buf_char(b, '}');
    }
    al_buf_printf(b, "],\"problems\":%u}\n", problems);
}

static int print(const struct al_doctor *d, bool json) {
    struct al_buf b = AL_BUF_INIT;
    if (json)
        print_json(d, &b);
    else
        print_text(d, &b, al_cli_use_color(&d->options, stdout));
    int status = b.failed ? al_error_exit_status(AL_E_NOMEM) : 0;
    (void)fwrite(b.data ? b.data : "", 1, b.len, stdout);
    al_buf_free(&b);
    if (!status)
        status = al_cli_flush();
    for (uint32_t i = 0; i < d->count && !status; i++)
        status = d->check[i].result == AL_CHECK_PROBLEM;
    return status;
}

static int check_source(struct al_doctor *d) {
    const char *source = d->options.source ? d->options.source : getenv("ALULA_SOURCE");
    d->options.source = source && *source ? source : "nvml";
    d->scenario = al_str_starts(d->options.source, "scenario:") || al_str_starts(d->options.source, "replay:");
    d->standin = !d->scenario && getenv("ALULA_SCENARIO") && getenv("ALULA_NVML_LIBRARY");
    if (d->scenario || strcmp(d->options.source, "nvml") == 0)
        return 0;
    al_cli_error("--source %s: expected nvml, scenario:FILE or replay:FILE", d->options.source);
    return al_error_exit_status(AL_E_INVALID);
}

static int examine(struct al_doctor *d, bool json) {
    int status = check_source(d);
    if (status)
        return status;
    d->root = getenv("ALULA_HOST_ROOT");
    if (!d->root || !*d->root)
        d->root = "/";
    int result = al_fs_root(d->root, &d->root_fd);
    if (result) {
        al_cli_error("%s: %s", d->root, al_error_text(result));
        return al_error_exit_status(result);
    }
    al_doctor_place(d);
    if (!d->scenario)
        al_doctor_driver(d);
    al_doctor_bus(d);
    status = al_doctor_session(d);
    if (!status) {
        al_doctor_host(d);
        al_doctor_holders(d);
        status = print(d, json);
    }
    (void)close(d->root_fd);
    if (d->session_open) {
        d->session.hang_status = status;
        al_cli_close(&d->session);
    }
    return status;
}

// -1 go on, otherwise an exit status.
static int take_options(int argc, char **argv, struct al_cli_options *o, bool *ret_json) {
    static const struct option long_options[] = {{"json", no_argument, NULL, 'j'}, AL_CLI_COMMON_OPTIONS, {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == AL_OPT_HELP || option == 'h') {
            printf("%s%s%s", help, al_cli_common_help, examples);
            return al_cli_flush();
        }
        if (option == 'j') {
            *ret_json = true;
            continue;
        }
        int status = al_cli_common(o, option, optarg);
        if (status)
            return status < 0 ? al_error_exit_status(AL_E_INVALID) : status;
    }
    if (optind == argc)
        return -1;
    al_cli_error("doctor: unexpected argument %s (see alula doctor --help)", argv[optind]);
    return al_error_exit_status(AL_E_INVALID);
}

int al_cmd_doctor(int argc, char **argv) {
    struct al_cli_options options = AL_CLI_OPTIONS_INIT;
    bool json = false;
    int status = take_options(argc, argv, &options, &json);
    if (status >= 0)
        return status;
    struct al_doctor *d = calloc(1, sizeof *d); // some 70 KiB: too much for a stack
    if (!d)
        return al_error_exit_status(AL_E_NOMEM);
    d->options = options;
    status = examine(d, json);
    free(d);
    return status;
}
