// SPDX-License-Identifier: Apache-2.0
#include "export/report_communication.h"

#include "base/str.h"
#include "export/report_part.h"

static void communicators(struct al_buf *b, const struct al_report_communication *c) {
    al_buf_str(b, ",\"communicators\":[");
    for (uint32_t i = 0; i < c->communicator_count; i++) {
        const struct al_report_communicator *row = &c->communicators[i];
        // 64 bits do not fit a JSON number of every reader.
        al_buf_printf(b, "%s{\"id\":\"%016llx\"", i ? "," : "", (unsigned long long)row->id);
        al_report_text(b, "name", row->name);
        al_report_id(b, "ranks", row->ranks);
        al_report_id(b, "nodes", row->nodes);
        al_report_id(b, "rank", row->rank);
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
    al_report_text(b, "transport_words", c->words);
    al_report_text(b, "transport_source", c->why);
    al_report_text(b, "transport_confidence", c->confidence);
    al_report_text(b, "nccl", c->nccl);
    al_report_id(b, "rank", c->rank);
    if (c->profiled)
        al_report_id(b, "communicators_made", c->communicators_made);
    else
        al_buf_str(b, ",\"communicators_made\":null");
    communicators(b, c);
    calls(b, c);
    al_buf_char(b, '}');
}
