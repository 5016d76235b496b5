// SPDX-License-Identifier: Apache-2.0
// A snapshot as an OTLP metrics request (opentelemetry-proto 1.x, ExportMetricsServiceRequest): OpenTelemetry's hw.*
// names where it has one (semantic conventions, hardware metrics), alula.* for the rest. docs/push.md lists them.
#ifndef AL_PUSH_OTLP_H
#define AL_PUSH_OTLP_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/snapshot.h"

struct al_otlp; // remembers since when each counter counts

int al_otlp_new(const char *version, struct al_otlp **ret);
struct al_otlp *al_otlp_free(struct al_otlp *o);
// What is not fresh is left out: unknown is never 0. AL_E_NOMEM.
int al_otlp_encode(struct al_otlp *o, const struct al_snapshot *s, const struct al_finding *findings, uint32_t count,
                   struct al_buf *b);
// Points that the receiver refused by its answer (ExportMetricsServiceResponse.partial_success); 0 also when the answer
// cannot be read. message[size] is cleaned.
uint64_t al_otlp_rejected(const char *answer, size_t len, char *message, size_t size);

#endif
