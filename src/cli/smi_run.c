// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/smi.h"

#define ATTR_TIMEOUT_NS (5 * AL_NS_PER_S)

// nvidia-smi's exit statuses where alula has none of that meaning.
enum { NO_DEVICES = 6, FAILED = 255 };

static const struct option common_options[] = {AL_CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0}};

static bool looks_like_option(const char *text)
{
    return text[0] == '-' && text[1] != '\0' && !(text[1] >= '0' && text[1] <= '9');
}

// "--id=0" is "--id" with the value "0".
static bool named(struct al_smi_args *a, const char *name)
{
    size_t len = strlen(name);
    if (strncmp(a->token, name, len) != 0 || (a->token[len] != '\0' && a->token[len] != '='))
        return false;
    a->value = a->token[len] == '=' ? a->token + len + 1 : NULL;
    return true;
}

static void take_next_as_value(struct al_smi_args *a)
{
    if (!a->value && a->at < a->argc && !looks_like_option(a->argv[a->at]))
        a->value = a->argv[a->at++];
}

static int next_common(struct al_smi_args *a)
{
    if (strncmp(a->token, "--", 2) != 0)
        return AL_SMI_UNKNOWN;
    const char *token = a->token;
    for (const struct option *o = common_options; o->name; o++) {
        a->token = token + 2;
        bool hit = named(a, o->name);
        a->token = token;
        if (!hit)
            continue;
        if (o->has_arg == required_argument) {
            take_next_as_value(a);
            if (!a->value)
                return AL_SMI_MISSING;
        } else if (a->value) {
            return AL_SMI_UNKNOWN;
        }
        if (o->val == AL_OPT_HELP)
            return AL_OPT_HELP;
        a->status = al_cli_common(a->common, o->val, a->value);
        return a->status ? AL_SMI_FAILED : 0;
    }
    return AL_SMI_UNKNOWN;
}

int al_smi_next(struct al_smi_args *a)
{
    while (a->at < a->argc) {
        a->token = a->argv[a->at++];
        for (const struct al_smi_option *o = a->options; o->name; o++) {
            if (!named(a, o->name))
                continue;
            if (o->value == AL_SMI_NO_VALUE)
                return a->value ? AL_SMI_UNKNOWN : o->id;
            take_next_as_value(a);
            return o->value == AL_SMI_VALUE && !a->value ? AL_SMI_MISSING : o->id;
        }
        int id = next_common(a);
        if (id != 0)
            return id;
    }
    return AL_SMI_END;
}

// What nvidia-smi says on stdout when there is no driver to speak to; alula's own line on stderr says more.
static int no_session(int status)
{
    if (status == al_error_exit_status(AL_E_NODRIVER))
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
               "Make sure that the latest NVIDIA driver is installed and running.\n\n");
    else if (status == al_error_exit_status(AL_E_NOLIB))
        printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
               "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
               "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n");
    else if (status == al_error_exit_status(AL_E_DENIED))
        printf("Failed to initialize NVML: Insufficient Permissions\n");
    (void)al_cli_flush();
    return status;
}

static int attr(void *user, uint32_t gpu, enum al_attr id, struct al_attr_value *ret)
{
    const struct al_cli_session *s = user;
    return al_collect_attr(s->collect, gpu, id, ATTR_TIMEOUT_NS, ret);
}

static int open_file(struct al_smi_run *r)
{
    r->out = r->file ? fopen(r->file, "we") : stdout;
    if (r->out)
        return 0;
    printf("Failed to create log file %s\n\n", r->file);
    (void)al_cli_flush();
    return FAILED;
}

static int write_out(struct al_smi_run *r, struct al_buf *b)
{
    if (b->failed) {
        al_cli_error("%s", al_error_text(AL_E_NOMEM));
        return al_error_exit_status(AL_E_NOMEM);
    }
    if (b->len > 0)
        (void)fwrite(b->data, 1, b->len, r->out);
    if (r->out == stdout)
        return al_cli_flush();
    if (fflush(r->out) == 0)
        return 0;
    al_cli_error("cannot write %s", r->file);
    return al_error_exit_status(AL_E_IO);
}

static int tick(struct al_smi_run *r, struct al_buf *b, uint64_t number)
{
    int status = al_cli_once(&r->session, 0, &r->view.s);
    if (status)
        return status;
    if (al_smi_select(&r->view, r->ids) < 0 && !r->none_is_fine) {
        printf("No devices were found\n");
        (void)al_cli_flush();
        return NO_DEVICES;
    }
    al_buf_clear(b);
    r->print(r->user, b, &r->view, number);
    return write_out(r, b);
}

// A replay ends with its recording.
static bool at_end(const struct al_cli_session *s)
{
    return s->source && s->clock.virtual_time &&
           al_clock_now(&s->clock) - s->clock.virtual_start_ns > s->source->duration_ns;
}

static int ticks(struct al_smi_run *r)
{
    struct al_clock *clock = &r->session.clock;
    struct al_buf b = AL_BUF_INIT;
    int64_t next = al_clock_now(clock);
    int status = 0;
    for (int64_t n = 0; !al_cli_stop && !at_end(&r->session); n++) {
        status = tick(r, &b, (uint64_t)n);
        if (status || r->period_ns == 0 || (r->ticks > 0 && n + 1 >= r->ticks))
            break;
        int64_t now = al_clock_now(clock);
        next = next + r->period_ns > now ? next + r->period_ns : now;
        while (!al_cli_stop && al_clock_now(clock) < next)
            (void)al_clock_sleep_until(clock, next);
    }
    al_buf_free(&b);
    return status;
}

int al_smi_run(struct al_smi_run *r, const struct al_cli_options *common, uint32_t groups)
{
    int status = al_cli_open(common, groups, false, &r->session);
    if (status)
        return no_session(status);
    r->view.attr = attr;
    r->view.user = &r->session;
    al_cli_signals();
    status = open_file(r);
    if (!status)
        status = ticks(r);
    if (r->out && r->out != stdout && fclose(r->out) != 0 && !status)
        status = al_error_exit_status(AL_E_IO);
    al_cli_close(&r->session);
    return status;
}
