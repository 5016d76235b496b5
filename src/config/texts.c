// SPDX-License-Identifier: Apache-2.0
#include "config/texts.h"

#include <stddef.h>

enum kind { TEXT, LIST, URL, URLS };

const struct al_text_info al_text_table[] = {
#define X(section, key, kind, def, help)                                                                               \
    {#section, #key, kind == LIST || kind == URLS, kind == URL || kind == URLS, def, help,                                  \
     (uint32_t)offsetof(struct al_texts, section##_##key)},
    AL_TEXTS(X)
#undef X
};

const unsigned al_text_count = sizeof al_text_table / sizeof *al_text_table;
