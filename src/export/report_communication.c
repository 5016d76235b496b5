// SPDX-License-Identifier: Apache-2.0
#include "export/report_communication.h"

#include <stdio.h>

#include "base/str.h"

static void text(struct al_buf *b, const char *key, const char *value) {
    al_buf_printf(b, ",\"%s\":", key);
    if (value && *value)
        al_json_string(b, value);
    else
        al_buf_str(b, "null");
}

static void number(struct al_buf *b, const char *key, int64_t value) {
    if (value < 0)
        al_buf_printf(b, ",\"%s\":null", key);
    else
        al_buf_printf(b, ",\"%s\":%lld", key, (long long)value);
}

static void communicators(struct al_buf *b, const struct al_report_communication *c) {
    al_buf_str(b, ",\"communicators\":[");
    for (uint32_t i = 0; i < c->communicator_count; i++) {
        const struct al_report_communicator *row = &c->communicators[i];
        // 64 bits do not fit a JSON number of every reader.
        al_buf_printf(b, "%s{\"id\":\"%016llx\"", i ? "," : "", (unsigned long long)row->id);
        text(b, "name", row->name);
        number(b, "ranks", row->ranks);
        number(b, "nodes", row->nodes);
        number(b, "rank", row->rank);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void calls(struct al_buf *b, const struct al_report_communication *c) {
    al_buf_str(b, ",\"calls\":");
    if (!c->counted) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_char(b, '{');
    for (uint32_t i = 0; i < c->call_count; i++)
        al_buf_printf(b, "%s\"%s\":{\"count\":%llu,\"bytes\":%llu}", i ? "," : "", c->calls[i].word,
                      (unsigned long long)c->calls[i].calls, (unsigned long long)c->calls[i].bytes);
    al_buf_char(b, '}');
}

void al_report_communication(struct al_buf *b, const struct al_report_communication *c) {
    if (!c->known) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_str(b, "{\"transport\":");
    al_json_string(b, c->transport);
    text(b, "transport_words", c->words);
    text(b, "transport_source", c->why);
    text(b, "transport_confidence", c->confidence);
    text(b, "nccl", c->nccl);
    number(b, "rank", c->rank);
    if (c->profiled)
        number(b, "communicators_made", c->communicators_made);
    else
        al_buf_str(b, ",\"communicators_made\":null");
    communicators(b, c);
    calls(b, c);
    al_buf_char(b, '}');
}
