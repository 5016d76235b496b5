// SPDX-License-Identifier: Apache-2.0
#include "export/openmetrics_write.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

void al_om_escape(struct al_buf *b, const char *text) {
    const unsigned char *t = (const unsigned char *)text, *end = t + strlen(text);
    while (t < end) {
        size_t len = al_utf8_len(t, (size_t)(end - t));
        if (!len) {
            al_buf_str(b, "\xef\xbf\xbd");
            t++;
        } else if (*t == '\\' || *t == '"') {
            al_buf_char(b, '\\');
            al_buf_char(b, (char)*t++);
        } else if (*t == '\n') {
            al_buf_str(b, "\\n");
            t++;
        } else if (*t < 0x20 || *t == 0x7f) {
            al_buf_char(b, '?');
            t++;
        } else {
            al_buf_add(b, (const char *)t, len);
            t += len;
        }
    }
}

static void meta(struct al_om *o, const char *what, const char *suffix) {
    al_buf_str(o->b, what);
    al_buf_str(o->b, o->family);
    al_buf_str(o->b, suffix);
    al_buf_char(o->b, ' ');
}

void al_om_family(struct al_om *o, const char *name, enum al_om_type type, const char *unit, const char *help) {
    (void)al_str_copy(o->family, sizeof o->family, name);
    o->type = type;
    o->unit = unit;
    o->help = help;
    o->pending = true;
}

static void family_head(struct al_om *o) {
    static const char *const types[] = {"gauge", "counter", "info"};
    static const char *const suffixes[] = {"", "_total", "_info"};
    // Prometheus text names the samples; OpenMetrics names the family, and knows an info type.
    const char *suffix = o->openmetrics ? "" : suffixes[o->type];
    o->pending = false;
    meta(o, "# HELP ", suffix);
    for (const char *h = o->help; *h; h++) {
        if (*h == '\\' || (*h == '"' && o->openmetrics))
            al_buf_char(o->b, '\\');
        al_buf_char(o->b, *h);
    }
    al_buf_char(o->b, '\n');
    meta(o, "# TYPE ", suffix);
    al_buf_str(o->b, o->type == AL_OM_INFO && !o->openmetrics ? "gauge" : types[o->type]);
    al_buf_char(o->b, '\n');
    size_t len = strlen(o->family), unit_len = strlen(o->unit);
    if (o->openmetrics && unit_len && len > unit_len + 1 && o->family[len - unit_len - 1] == '_' &&
        al_str_ends(o->family, o->unit)) {
        meta(o, "# UNIT ", "");
        al_buf_str(o->b, o->unit);
        al_buf_char(o->b, '\n');
    }
}

void al_om_begin(struct al_om *o) {
    if (o->pending)
        family_head(o);
    al_buf_str(o->b, o->family);
    if (o->type == AL_OM_COUNTER)
        al_buf_add(o->b, "_total", 6);
    else if (o->type == AL_OM_INFO)
        al_buf_add(o->b, "_info", 5);
}

static void label_start(struct al_om *o) {
    char last = o->b->len ? o->b->data[o->b->len - 1] : '\n';
    al_buf_char(o->b, last == '"' ? ',' : '{');
}

void al_om_label(struct al_om *o, const char *name, const char *value) {
    label_start(o);
    al_buf_str(o->b, name);
    al_buf_add(o->b, "=\"", 2);
    al_om_escape(o->b, value);
    al_buf_char(o->b, '"');
}

void al_om_label_number(struct al_om *o, const char *name, int64_t value) {
    char text[24];
    (void)al_fmt_fixed(text, sizeof text, (double)value, 0);
    al_om_label(o, name, text);
}

void al_om_gpu_labels(struct al_om *o, uint32_t gpu) {
    label_start(o);
    al_buf_add(o->b, o->labels.data + o->label_at[gpu], o->label_at[gpu + 1] - o->label_at[gpu]);
}

void al_om_end(struct al_om *o, double value) {
    if (o->b->len && o->b->data[o->b->len - 1] == '"')
        al_buf_char(o->b, '}');
    al_buf_char(o->b, ' ');
    if (isfinite(value))
        al_buf_number(o->b, value);
    else
        al_buf_str(o->b, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
    al_buf_char(o->b, '\n');
}

void al_om_value(struct al_om *o, double value) {
    al_om_begin(o);
    al_om_end(o, value);
}

void al_om_gpu_value(struct al_om *o, uint32_t gpu, double value) {
    al_om_begin(o);
    al_om_gpu_labels(o, gpu);
    al_om_end(o, value);
}

void al_om_gpus(struct al_om *o, const struct al_snapshot *s) {
    for (uint32_t i = 0; i < s->gpu_count && i < AL_GPU_MAX; i++) {
        o->label_at[i] = (uint32_t)o->labels.len;
        al_buf_printf(&o->labels, "gpu=\"%u\",uuid=\"", s->gpus[i].info.index);
        al_om_escape(&o->labels, s->gpus[i].info.uuid);
        al_buf_char(&o->labels, '"');
        o->label_at[i + 1] = (uint32_t)o->labels.len;
    }
}
