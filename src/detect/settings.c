// SPDX-License-Identifier: Apache-2.0
#include "detect/settings.h"

#include <stddef.h>
#include <string.h>

const struct al_setting_info al_setting_table[] = {
#define X(section, key, unit, def, min, max, help)                                                                     \
    {#section, #key, AL_UNIT_##unit, AL_UNIT_##unit == AL_UNIT_BOOL, def, min, max, help,                              \
     (uint32_t)offsetof(struct al_settings, section##_##key)},
    AL_SETTINGS(X)
#undef X
};

const unsigned al_setting_count = sizeof al_setting_table / sizeof *al_setting_table;

void al_settings_default(struct al_settings *s)
{
    for (unsigned i = 0; i < al_setting_count; i++)
        memcpy((char *)s + al_setting_table[i].offset, &al_setting_table[i].def, sizeof(double));
}

double al_memory_limit(const struct al_settings *s)
{
    const double sizes[] = {7, 13, 32, 70};
    const double limits[] = {s->memory_limit_7b, s->memory_limit_13b, s->memory_limit_32b, s->memory_limit_70b};
    double size = s->memory_model_size;
    if (!(size > 0))
        return s->memory_used_above;
    if (size <= sizes[0])
        return limits[0];
    for (int i = 1; i < 4; i++)
        if (size <= sizes[i])
            return limits[i - 1] + (limits[i] - limits[i - 1]) * (size - sizes[i - 1]) / (sizes[i] - sizes[i - 1]);
    return limits[3];
}
