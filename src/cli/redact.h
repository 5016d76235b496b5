// SPDX-License-Identifier: Apache-2.0
// Takes out of a snapshot what names machines, people and their work; the same name becomes the same word everywhere.
#ifndef AL_CLI_REDACT_H
#define AL_CLI_REDACT_H

#include "model/attr.h"
#include "model/finding.h"
#include "model/snapshot.h"

struct al_redact;

struct al_redact *al_redact_new(void);
struct al_redact *al_redact_free(struct al_redact *r);
// UUIDs, serials, host, boot id, users, containers, pods, job ids become words with numbers; command lines, cgroups and
// folders go. False when memory is out.
bool al_redact_snapshot(struct al_redact *r, struct al_snapshot *s);
// After the snapshot that it belongs to: names seen so far are replaced in its texts, and folders cut.
bool al_redact_finding(struct al_redact *r, struct al_finding *f);
// Any other text, likewise.
void al_redact_text(const struct al_redact *r, char *text, size_t size);
bool al_redact_attr(struct al_redact *r, enum al_attr attr, struct al_attr_value *v);

#endif
