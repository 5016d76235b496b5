// SPDX-License-Identifier: Apache-2.0
// What the config's sections push and webhook ask for, opened beside a session.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alula-version.h"
#include "base/str.h"
#include "cli/cli.h"
#include "push/push.h"

static int64_t ns(double seconds) {
    return (int64_t)(seconds * 1e9 + 0.5);
}

// The state folder of the service manager, or of the user (XDG base directories).
static void default_spool(char *out, size_t size) {
    const char *service = getenv("STATE_DIRECTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    out[0] = '\0';
    if (service && service[0] == '/')
        (void)snprintf(out, size, "%.*s/push", (int)strcspn(service, ":"), service);
    else if (state && state[0] == '/')
        (void)snprintf(out, size, "%s/alula/push", state);
    else if (home && home[0] == '/')
        (void)snprintf(out, size, "%s/.local/state/alula/push", home);
}

static void say(void *user, const char *text) {
    (void)user;
    al_cli_error("%s", text);
}

static void fill_options(const struct al_cli_session *s, const char *spool, struct al_push_options *o) {
    const struct al_settings *set = &s->settings;
    const struct al_texts *t = &s->texts;
    *o = (struct al_push_options){
        .collect = s->collect,
        .version = AL_VERSION,
        .spool = spool,
        .spool_max = (uint64_t)set->push_spool_max,
        .timeout_ns = ns(set->push_timeout),
        .retry_min_ns = ns(set->push_retry_min),
        .retry_max_ns = ns(set->push_retry_max),
        .flush_ns = ns(set->push_flush),
        .ca_file = t->push_ca_file,
        .certificate = t->push_client_certificate,
        .key = t->push_client_key,
        .endpoint = t->push_endpoint,
        .headers_file = t->push_headers_file,
        .period_ns = ns(set->push_period),
        .gzip = set->push_gzip != 0,
        .webhook_urls = t->webhook_urls,
        .webhook_urls_file = t->webhook_urls_file,
        .webhook_headers_file = t->webhook_headers_file,
        .webhook_format = strcmp(t->webhook_format, "alertmanager") == 0 ? AL_ALERT_ALERTMANAGER : AL_ALERT_JSON,
        .webhook_level = (enum al_level)al_level_from_word(t->webhook_level),
        .webhook_repeat_ns = ns(set->webhook_repeat),
        .log = say,
    };
}

int al_cli_push(const struct al_cli_session *s, struct al_push **ret) {
    char spool[3072], error[512];
    struct al_push_options o;
    *ret = NULL;
    if (strcmp(s->texts.push_spool, "none") == 0)
        spool[0] = '\0';
    else if (*s->texts.push_spool)
        (void)al_str_copy(spool, sizeof spool, s->texts.push_spool);
    else
        default_spool(spool, sizeof spool);
    fill_options(s, spool, &o);
    if (!al_push_wanted(&o))
        return 0;
    if (s->source && !s->demo && s->settings.push_replay == 0) {
        al_cli_error("this is no live session: nothing is pushed (push.replay: true in the config insists)");
        return 0;
    }
    int result = al_push_new(&o, ret, error, sizeof error);
    if (result) {
        al_cli_error("%s", error);
        return al_error_exit_status(result);
    }
    (void)al_collect_add_sink(s->collect, al_push_sink(*ret));
    return 0;
}
