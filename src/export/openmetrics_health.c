// SPDX-License-Identifier: Apache-2.0
// alula's own state: printed also when there is nothing else to tell.
#include "export/openmetrics.h"
#include "export/openmetrics_write.h"

static void gauge(struct al_om *o, const char *name, const char *unit, const char *help, double value) {
    al_om_family(o, name, AL_OM_GAUGE, unit, help);
    al_om_value(o, value);
}

static void counter(struct al_om *o, const char *name, const char *unit, const char *help, double value) {
    al_om_family(o, name, AL_OM_COUNTER, unit, help);
    al_om_value(o, value);
}

static void sampling(struct al_om *o, const struct al_om_page *p) {
    const struct al_om_health *h = &p->health;
    gauge(o, "alula_up", "", "1 while the driver answers in time and samples are fresh", h->up);
    if (h->age_seconds >= 0)
        gauge(o, "alula_sample_age_seconds", "seconds", "Age of the last sample", h->age_seconds);
    gauge(o, "alula_sampling_interval_seconds", "seconds", "Time between two samples", h->interval_seconds);
    counter(o, "alula_ticks", "", "Samples taken", (double)h->ticks);
    counter(o, "alula_ticks_late", "", "Samples for which the driver did not answer in time", (double)h->late);
    counter(o, "alula_ticks_skipped", "", "Samples left out because the one before took too long", (double)h->skipped);
    gauge(o, "alula_tick_delay_mean_seconds", "seconds", "How late samples began, mean", h->delay_mean_seconds);
    gauge(o, "alula_tick_delay_max_seconds", "seconds", "How late samples began, at most", h->delay_max_seconds);
}

static void hang(struct al_om *o, const struct al_snapshot *s) {
    bool hung = s && s->hung_call[0];
    gauge(o, "alula_driver_call_hung", "", "1 while a driver call has not come back", hung);
    if (!hung)
        return;
    al_om_family(o, "alula_driver_call_hung_seconds", AL_OM_GAUGE, "seconds", "For how long it has not");
    al_om_begin(o);
    al_om_label(o, "call", s->hung_call);
    al_om_end(o, (double)(s->monotonic_ns - s->hung_since_ns) / 1e9);
}

static double call_seconds(const struct al_call_stat *c) {
    return (double)c->total_ns / 1e9;
}
static double call_count(const struct al_call_stat *c) {
    return (double)c->calls;
}
static double call_errors(const struct al_call_stat *c) {
    return (double)c->errors;
}
static double call_max(const struct al_call_stat *c) {
    return (double)c->max_ns / 1e9;
}

static void calls(struct al_om *o, const struct al_om_health *h) {
    static const struct {
        const char *name, *unit, *help;
        enum al_om_type type;
        double (*get)(const struct al_call_stat *c);
    } families[] = {
        {"alula_driver_calls", "", "Calls into the driver", AL_OM_COUNTER, call_count},
        {"alula_driver_call_errors", "", "Calls that the driver answered with an error", AL_OM_COUNTER, call_errors},
        {"alula_driver_call_seconds", "seconds", "Time spent in them", AL_OM_COUNTER, call_seconds},
        {"alula_driver_call_max_seconds", "seconds", "The longest of them", AL_OM_GAUGE, call_max},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families && h->call_count; f++) {
        al_om_family(o, families[f].name, families[f].type, families[f].unit, families[f].help);
        for (size_t i = 0; i < h->call_count; i++) {
            al_om_begin(o);
            al_om_label(o, "call", h->calls[i].name);
            al_om_end(o, families[f].get(&h->calls[i]));
        }
    }
}

static void pushes(struct al_om *o, const struct al_om_health *h) {
    static const struct {
        const char *name, *unit, *help;
        enum al_om_type type;
        size_t offset;
    } families[] = {
        {"alula_push_sent", "", "Messages that the receiver took", AL_OM_COUNTER, offsetof(struct al_om_push, sent)},
        {"alula_push_retried", "", "Failed attempts that are repeated", AL_OM_COUNTER, offsetof(struct al_om_push, retried)},
        {"alula_push_dropped", "", "Messages given up: refused, or no room", AL_OM_COUNTER, offsetof(struct al_om_push, dropped)},
        {"alula_push_refused_points", "", "Points that the receiver refused", AL_OM_COUNTER,
         offsetof(struct al_om_push, refused_points)},
        {"alula_push_queued", "", "Messages that wait", AL_OM_GAUGE, offsetof(struct al_om_push, queued)},
        {"alula_push_queued_bytes", "bytes", "Their size", AL_OM_GAUGE, offsetof(struct al_om_push, queued_bytes)},
    };
    for (size_t f = 0; f < sizeof families / sizeof *families && h->push_count; f++) {
        al_om_family(o, families[f].name, families[f].type, families[f].unit, families[f].help);
        for (size_t i = 0; i < h->push_count; i++) {
            al_om_begin(o);
            al_om_label(o, "receiver", h->pushes[i].receiver);
            al_om_end(o, (double)*(const uint64_t *)((const char *)&h->pushes[i] + families[f].offset));
        }
    }
}

static void self(struct al_om *o, const struct al_om_health *h) {
    static const char *const classes[] = {NULL, NULL, "2xx", "3xx", "4xx", "5xx"};
    counter(o, "alula_self_cpu_seconds", "seconds", "CPU time of alula itself", h->cpu_seconds);
    gauge(o, "alula_self_resident_bytes", "bytes", "Memory of alula itself", h->resident_bytes);
    al_om_family(o, "alula_http_requests", AL_OM_COUNTER, "", "Requests answered, by class of the code");
    for (int i = 2; i < 6; i++) {
        al_om_begin(o);
        al_om_label(o, "code", classes[i]);
        al_om_end(o, (double)h->requests[i]);
    }
    gauge(o, "alula_http_connections", "", "Open connections", (double)h->connections);
    counter(o, "alula_http_connections_cut", "", "Connections closed by a limit of number or time",
            (double)h->connections_refused);
}

void al_om_health_print(struct al_om *o, const struct al_om_page *p) {
    al_om_family(o, "alula_build", AL_OM_INFO, "", "This alula");
    al_om_begin(o);
    al_om_label(o, "version", p->health.version ? p->health.version : "");
    al_om_end(o, 1);
    sampling(o, p);
    hang(o, p->s);
    calls(o, &p->health);
    self(o, &p->health);
    pushes(o, &p->health);
}
