// SPDX-License-Identifier: Apache-2.0
// One line a tick and a few a finding, for people.
#ifndef AL_CLI_WATCH_TEXT_H
#define AL_CLI_WATCH_TEXT_H

#include "base/buf.h"
#include "model/finding.h"
#include "model/snapshot.h"

// "12:00:01.5  GPU 0  93 %  132.8/140.4 GiB  655 W  60 °C  SM 81 %  ..."; many GPUs are shortened to a few columns.
void al_watch_tick_line(struct al_buf *b, const struct al_snapshot *s, bool color);
// `whole`: with what else was considered and what to do.
void al_watch_finding_lines(struct al_buf *b, const struct al_snapshot *s, const struct al_finding *f, bool whole,
                            bool color);
// Whether it tells what processes execute (model/look.h).
bool al_watch_is_looked(const struct al_finding *f);

#endif
