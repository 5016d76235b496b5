// SPDX-License-Identifier: Apache-2.0
// What the parts of the report's writer share: ,"key":value
#ifndef AL_EXPORT_REPORT_PART_H
#define AL_EXPORT_REPORT_PART_H

#include "export/report.h"

void al_report_text(struct al_buf *b, const char *key, const char *text); // null for "" and NULL
void al_report_id(struct al_buf *b, const char *key, int64_t value); // null below 0
void al_report_number(struct al_buf *b, const char *key, bool known, double value);

void al_report_useful(struct al_buf *b, const struct al_report_useful *u);
void al_report_log(struct al_buf *b, const struct al_report_log *l); // NULL: null

#endif
