// SPDX-License-Identifier: Apache-2.0
// The part "communication" of metrics_report.json.
#ifndef AL_EXPORT_REPORT_COMMUNICATION_H
#define AL_EXPORT_REPORT_COMMUNICATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/collective.h"

#define AL_REPORT_COMMUNICATORS 8

struct al_report_communicator {
    uint64_t id;
    int32_t ranks, nodes, rank; // -1: null
    char name[32];              // "": null
};

struct al_report_calls {
    const char *word;
    uint64_t calls, bytes;
};

struct al_report_communication {
    bool known;            // false: null
    bool profiled, counted; // NCCL told of itself, and of its calls
    int64_t rank;  // whose calls these are; -1: null
    char nccl[24]; // "": null
    const char *transport, *confidence;
    char words[96], why[160];
    uint32_t communicators_made, communicator_count;
    struct al_report_communicator communicators[AL_REPORT_COMMUNICATORS];
    uint32_t call_count;
    struct al_report_calls calls[AL_COLLECTIVE_COUNT];
};

void al_report_communication(struct al_buf *b, const struct al_report_communication *c);

#endif
