// SPDX-License-Identifier: Apache-2.0
// The config reader on any bytes: an error has a place and a reason and takes nothing over; what is accepted lies within
// its bounds and reads back from its own print as the same settings.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static double setting(const struct al_settings *s, const struct al_setting_info *info) {
    double value;
    memcpy(&value, (const char *)s + info->offset, sizeof value);
    return value;
}

static void require(int condition) {
    if (!condition)
        abort();
}

static void check_round_trip(const struct al_settings *settings) {
    struct al_buf b = AL_BUF_INIT;
    struct al_settings again;
    struct al_config_error e;
    al_settings_default(&again);
    al_config_print(&b, settings);
    require(!b.failed && al_config_parse(b.data, b.len, &again, &e) == 0);
    al_buf_free(&b);
    for (unsigned i = 0; i < al_setting_count; i++) {
        double a = setting(settings, &al_setting_table[i]), c = setting(&again, &al_setting_table[i]);
        require(fabs(a - c) <= 1e-9 * (1 + fabs(a)));
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_settings settings, before;
    struct al_config_error e = {0};
    char *text = malloc(size + 1); // an exact size, so that a read beyond it shows
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    al_settings_default(&settings);
    before = settings;
    int result = al_config_parse(text, size, &settings, &e);
    free(text);
    if (result) {
        require(memcmp(&before, &settings, sizeof settings) == 0);
        require(result != AL_E_CONFIG || e.message[0]);
        return 0;
    }
    for (unsigned i = 0; i < al_setting_count; i++) {
        double value = setting(&settings, &al_setting_table[i]);
        require(value >= al_setting_table[i].min && value <= al_setting_table[i].max);
    }
    check_round_trip(&settings);
    return 0;
}
