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

// But for URLs, of which the print hides what is secret.
static void check_round_trip(const struct al_config *config) {
    struct al_buf b = AL_BUF_INIT;
    struct al_config again;
    struct al_config_error e;
    al_config_default(&again);
    al_config_print(&b, config);
    require(!b.failed && al_config_parse(b.data, b.len, &again, &e) == 0);
    al_buf_free(&b);
    for (unsigned i = 0; i < al_setting_count; i++) {
        double a = setting(&config->settings, &al_setting_table[i]), c = setting(&again.settings, &al_setting_table[i]);
        require(fabs(a - c) <= 1e-9 * (1 + fabs(a)));
    }
    for (unsigned i = 0; i < al_text_count; i++)
        require(al_text_table[i].is_url || strcmp((const char *)&config->texts + al_text_table[i].offset,
                                                  (const char *)&again.texts + al_text_table[i].offset) == 0);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    static struct al_config config, before; // zeroed, so that the bytes behind texts compare too
    struct al_config_error e = {0};
    char *text = malloc(size + 1); // an exact size, so that a read beyond it shows
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    al_config_default(&config);
    before = config;
    int result = al_config_parse(text, size, &config, &e);
    free(text);
    if (result) {
        require(memcmp(&before, &config, sizeof config) == 0);
        require(result != AL_E_CONFIG || e.message[0]);
        return 0;
    }
    for (unsigned i = 0; i < al_setting_count; i++) {
        double value = setting(&config.settings, &al_setting_table[i]);
        require(value >= al_setting_table[i].min && value <= al_setting_table[i].max);
    }
    check_round_trip(&config);
    return 0;
}
