// SPDX-License-Identifier: Apache-2.0
// Any bytes as a metrics_report.json: compared with itself nothing is better or worse.
#include <stdlib.h>

#include "job/compare.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static struct al_side s;
    struct al_json_document d;
    struct al_compare_row rows[AL_COMPARE_ROWS];
    struct al_buf b = AL_BUF_INIT;
    if (al_json_parse((const char *)data, size, &d, NULL))
        return 0;
    if (al_side_read(&d, "fuzz", &s)) {
        uint32_t count = al_compare(&s, &s, rows);
        for (uint32_t i = 0; i < count; i++)
            if (rows[i].change == AL_CHANGE_BETTER || rows[i].change == AL_CHANGE_WORSE)
                abort();
        al_compare_text(&b, &s, &s);
        al_compare_json(&b, &s, &s);
        al_buf_free(&b);
    }
    al_json_free(&d);
    return 0;
}
