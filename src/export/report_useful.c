// SPDX-License-Identifier: Apache-2.0
// metrics_report.json: throughput with MFU, and the trainer's own log.
#include <math.h>

#include "base/str.h"
#include "export/report_part.h"

static void key_known(struct al_buf *b, const char *key, double value) {
    al_report_number(b, key, !isnan(value), value);
}

void al_report_useful(struct al_buf *b, const struct al_report_useful *u) {
    al_buf_str(b, ",\n    \"throughput\": {\"confidence\":\"inferred\"");
    al_report_number(b, "tokens", u->tokens_known, u->tokens);
    al_report_number(b, "tokens_per_second", u->tokens_known, u->tokens_per_second);
    key_known(b, "parameters", u->parameters);
    key_known(b, "trainable_parameters", u->trainable);
    al_report_number(b, "model_flops_per_second", u->flops_known, u->flops_per_second);
    al_report_number(b, "peak_flops_per_second", u->peak > 0, u->peak);
    al_report_number(b, "mfu_ratio", u->mfu_known, u->mfu);
    al_report_text(b, "mfu_formula", u->formula);
    al_report_text(b, "missing", u->missing);
    al_buf_char(b, '}');
}

void al_report_log(struct al_buf *b, const struct al_report_log *l) {
    al_buf_str(b, ",\n    \"trainer_log\": ");
    if (!l) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_printf(b, "{\"lines\":%llu,\"damaged_lines\":%llu", (unsigned long long)l->lines, (unsigned long long)l->damaged);
    al_report_text(b, "path", l->path);
    al_report_text(b, "writer", l->writer);
    al_report_text(b, "speed_key", l->speed_key);
    al_report_number(b, "step", l->step >= 0, (double)l->step);
    al_report_number(b, "steps_of_all", l->steps_of_all >= 0, (double)l->steps_of_all);
    key_known(b, "elapsed_seconds", l->elapsed_seconds);
    key_known(b, "steps_per_second", l->steps_per_second);
    key_known(b, "measured_steps_per_second", l->measured_steps_per_second);
    key_known(b, "difference_ratio", l->difference);
    al_report_text(b, "explanation", l->explanation);
    key_known(b, "memory_gib", l->memory_gib);
    al_report_text(b, "memory_is", isnan(l->memory_gib) ? NULL : AL_REPORT_LOG_MEMORY);
    al_buf_char(b, '}');
}
