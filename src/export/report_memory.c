// SPDX-License-Identifier: Apache-2.0
#include "export/report_memory.h"

#include "export/report_part.h"

static const char *const allocator_keys[] = {
#define X(name, key) key,
    AL_ALLOCATOR_FIGURES(X)
#undef X
};
static const char *const host_keys[] = {
#define X(name, key) key,
    AL_HOST_FIGURES(X)
#undef X
};
static const char *const driver_keys[AL_DRIVER_COUNT] = {"process_used_bytes", "device_used_bytes", "device_total_bytes"};

static void last_and_most(struct al_buf *b, const char *key, bool known, double last, double most) {
    al_buf_printf(b, ",\"%s\":", key);
    if (!known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_str(b, "{\"last\":");
    al_buf_number(b, last);
    al_buf_str(b, ",\"most\":");
    al_buf_number(b, most);
    al_buf_char(b, '}');
}

static void put_driver(struct al_buf *b, const struct al_report_memory *m) {
    al_buf_str(b, ",\n         \"nvml\":{\"relation\":\"process_used = reserved + outside_torch (context, libraries, other)\"");
    for (int i = 0; i < AL_DRIVER_COUNT; i++)
        last_and_most(b, driver_keys[i], m->driver_known[i], m->driver_last[i], m->driver_most[i]);
    last_and_most(b, "outside_torch_bytes", m->outside_known, m->outside_last, m->outside_most);
    al_report_text(b, "outside_torch_from",
                   !m->outside_known ? NULL
                   : m->outside_by_process ? "the driver's figure for the process"
                                           : "the device's used memory: other processes count too (an upper bound)");
    al_buf_char(b, '}');
}

static void put_devices(struct al_buf *b, const struct al_report_rank_memory *r) {
    al_buf_str(b, ",\n       \"allocator\":[");
    for (uint32_t i = 0; i < r->device_count; i++) {
        const struct al_report_memory *m = &r->devices[i];
        al_buf_printf(b, "%s{\"device\":%d", i ? "," : "", (int)m->device);
        for (int n = 0; n < AL_ALLOCATOR_COUNT; n++)
            last_and_most(b, allocator_keys[n], m->known[n], m->last[n], m->most[n]);
        put_driver(b, m);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void put_settings(struct al_buf *b, const struct al_report_rank_memory *r) {
    al_buf_str(b, ",\n       \"allocator_settings\":");
    if (!r->settings_known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_printf(b, "{\"expandable_segments\":%s", r->expandable ? "true" : "false");
    al_report_text(b, "backend", r->backend);
    al_report_text(b, "settings", r->settings);
    al_report_text(b, "variable", r->settings[0] ? r->variable : NULL);
    al_buf_char(b, '}');
}

static void put_reading(struct al_buf *b, const char *key, const struct al_report_reading *r) {
    al_buf_printf(b, "\"%s\":", key);
    if (!r->known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_str(b, "{\"every_steps\":");
    al_buf_number(b, r->every_steps);
    al_report_number(b, "cost_ratio", true, r->cost_ratio);
    al_buf_char(b, '}');
}

static void put_epoch(struct al_buf *b, const struct al_report_epoch *e) {
    al_buf_printf(b, "{\"epoch\":%lld,\"step\":%lld,\"warm_up\":%s", (long long)e->epoch, (long long)e->step,
                  e->warm_up ? "true" : "false");
    for (int i = 0; i < AL_HOST_COUNT; i++)
        if (e->known[i])
            al_report_number(b, host_keys[i], true, e->value[i]);
    al_report_number(b, "growth_bytes", e->growth_known, e->growth);
    al_buf_char(b, '}');
}

static void put_host(struct al_buf *b, const struct al_report_rank_memory *r) {
    int count = 0;
    al_buf_str(b, ",\n       \"host_memory\":{\"source\":\"procfs\"");
    for (int i = 0; i < AL_HOST_COUNT; i++) {
        if (!r->host_known[i])
            continue;
        count++;
        al_buf_printf(b, ",\"%s\":{\"start\":", host_keys[i]);
        al_buf_number(b, r->host_first[i]);
        al_report_number(b, "most", true, r->host_most[i]);
        al_report_number(b, "last", true, r->host_last[i]);
        al_buf_char(b, '}');
    }
    if (!count)
        al_report_text(b, "missing", "not read: the job was too short, or its /proc is not readable");
    al_buf_str(b, ",\"epochs\":[");
    for (uint32_t i = 0; i < r->epoch_count; i++) {
        if (i)
            al_buf_char(b, ',');
        put_epoch(b, &r->epochs[i]);
    }
    al_buf_str(b, "]}");
}

void al_report_rank_memory(struct al_buf *b, const struct al_report_rank_memory *r) {
    put_devices(b, r);
    put_settings(b, r);
    al_buf_str(b, ",\n       \"readings\":{");
    put_reading(b, "allocator", &r->allocator);
    al_buf_char(b, ',');
    put_reading(b, "cuda_events", &r->events);
    al_buf_printf(b, "},\n       \"empty_cache\":{\"times\":%llu", (unsigned long long)r->emptied);
    al_report_number(b, "given_back_bytes", true, r->emptied_bytes);
    al_report_number(b, "seconds", true, r->emptied_seconds);
    al_buf_char(b, '}');
    put_host(b, r);
}

void al_report_oom(struct al_buf *b, const struct al_report_oom *o) {
    al_buf_str(b, ",\"out_of_memory\":");
    if (!o || !o->known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_str(b, "{\"source\":\"torch's message\"");
    al_report_text(b, "cause", o->cause);
    al_report_number(b, "device", o->device >= 0, (double)o->device);
    al_report_number(b, "tried_bytes", true, o->tried);
    al_report_number(b, "total_bytes", o->total_known, o->total);
    al_report_number(b, "free_bytes", o->free_known, o->free);
    al_report_number(b, "process_used_bytes", o->in_use_known, o->in_use);
    al_report_number(b, "allocated_bytes", o->allocated_known, o->allocated);
    al_report_number(b, "reserved_unallocated_bytes", o->unallocated_known, o->unallocated);
    al_report_number(b, "other_processes_bytes", o->others_known, o->others);
    al_report_text(b, "message", o->message);
    al_report_text(b, "advice", o->advice);
    al_buf_char(b, '}');
}
