// SPDX-License-Identifier: Apache-2.0
// The YAML config: sections and keys of detect/settings.h, every value with its unit, and the words of config/texts.h.
#ifndef AL_CONFIG_CONFIG_H
#define AL_CONFIG_CONFIG_H

#include <stddef.h>

#include "config/texts.h"
#include "detect/settings.h"

struct al_buf;

struct al_config {
    struct al_settings settings;
    struct al_texts texts;
};
void al_config_default(struct al_config *ret);

struct al_config_error {
    int line, column; // from 1; 0 when the place is not known
    char message[256];
};

// Overlays `config` (already filled) with the text. On an error nothing of it is taken. AL_E_CONFIG with the place and
// reason: unknown section or key (with the nearest known one), missing or wrong unit, value out of bounds, a key given
// twice, broken YAML. AL_E_TOOBIG over 1 MiB.
int al_config_parse(const char *text, size_t len, struct al_config *config, struct al_config_error *reterr_error);
int al_config_load(const char *path, struct al_config *config, struct al_config_error *reterr_error);
// The whole config with its current values and a comment for each key: what `alula check-config --print` shows.
void al_config_print(struct al_buf *b, const struct al_config *config);
// A value as it is written in the config: "20 %", "500 ms", "1 GiB", "true".
void al_config_print_value(struct al_buf *b, const struct al_setting_info *info, double value);

#endif
