// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

struct unit_word {
    const char *word;
    enum al_unit unit;
    double factor;
};

static const struct unit_word words[] = {
    {"%", AL_UNIT_RATIO, 0.01},
    {"B", AL_UNIT_BYTES, 1},
    {"kB", AL_UNIT_BYTES, 1e3},
    {"MB", AL_UNIT_BYTES, 1e6},
    {"GB", AL_UNIT_BYTES, 1e9},
    {"TB", AL_UNIT_BYTES, 1e12},
    {"KiB", AL_UNIT_BYTES, 1024.0},
    {"MiB", AL_UNIT_BYTES, 1048576.0},
    {"GiB", AL_UNIT_BYTES, 1073741824.0},
    {"TiB", AL_UNIT_BYTES, 1099511627776.0},
    {"B/s", AL_UNIT_BYTES_PER_SECOND, 1},
    {"kB/s", AL_UNIT_BYTES_PER_SECOND, 1e3},
    {"MB/s", AL_UNIT_BYTES_PER_SECOND, 1e6},
    {"GB/s", AL_UNIT_BYTES_PER_SECOND, 1e9},
    {"KiB/s", AL_UNIT_BYTES_PER_SECOND, 1024.0},
    {"MiB/s", AL_UNIT_BYTES_PER_SECOND, 1048576.0},
    {"GiB/s", AL_UNIT_BYTES_PER_SECOND, 1073741824.0},
    {"C", AL_UNIT_CELSIUS, 1},
    {"\xc2\xb0" "C", AL_UNIT_CELSIUS, 1},
    {"W", AL_UNIT_WATTS, 1},
    {"mW", AL_UNIT_WATTS, 1e-3},
    {"kW", AL_UNIT_WATTS, 1e3},
    {"J", AL_UNIT_JOULES, 1},
    {"mJ", AL_UNIT_JOULES, 1e-3},
    {"kJ", AL_UNIT_JOULES, 1e3},
    {"Hz", AL_UNIT_HERTZ, 1},
    {"kHz", AL_UNIT_HERTZ, 1e3},
    {"MHz", AL_UNIT_HERTZ, 1e6},
    {"GHz", AL_UNIT_HERTZ, 1e9},
    {"ns", AL_UNIT_SECONDS, 1e-9},
    {"us", AL_UNIT_SECONDS, 1e-6},
    {"ms", AL_UNIT_SECONDS, 1e-3},
    {"s", AL_UNIT_SECONDS, 1},
    {"min", AL_UNIT_SECONDS, 60},
    {"h", AL_UNIT_SECONDS, 3600},
    {"d", AL_UNIT_SECONDS, 86400},
    {"/s", AL_UNIT_PER_SECOND, 1},
    {"/min", AL_UNIT_PER_SECOND, 1.0 / 60},
    {"/h", AL_UNIT_PER_SECOND, 1.0 / 3600},
};

static bool bare_allowed(enum al_unit unit) {
    return unit == AL_UNIT_NONE || unit == AL_UNIT_COUNT || unit == AL_UNIT_RATIO || unit == AL_UNIT_BITS ||
           unit == AL_UNIT_STATE || unit == AL_UNIT_TIMESTAMP;
}

// Length of the number at the start of text: sign, digits, point, exponent (only when digits follow it).
static size_t number_length(const char *text) {
    size_t i = strspn(text, "+-") ? 1 : 0;
    i += strspn(text + i, "0123456789");
    if (text[i] == '.')
        i += 1 + strspn(text + i + 1, "0123456789");
    if (text[i] == 'e' || text[i] == 'E') {
        size_t sign = strspn(text + i + 1, "+-") ? 1 : 0;
        size_t digits = strspn(text + i + 1 + sign, "0123456789");
        if (digits)
            i += 1 + sign + digits;
    }
    return i;
}

static int parse_bool(const char *text, double *ret) {
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "on") == 0;
    bool no = strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "off") == 0;
    *ret = yes ? 1 : 0;
    return yes || no ? 0 : AL_E_FORMAT;
}

int al_unit_parse(const char *text, enum al_unit unit, double *ret) {
    char number[64];
    double value;
    if (unit == AL_UNIT_BOOL)
        return parse_bool(text, ret);
    size_t len = number_length(text);
    if (!len || len >= sizeof number)
        return AL_E_FORMAT;
    (void)al_str_copy_n(number, sizeof number, text, len);
    if (!al_str_double(number, &value))
        return AL_E_FORMAT;
    const char *word = text + len + strspn(text + len, " ");
    if (!*word) {
        if (!bare_allowed(unit) && value != 0)
            return AL_E_INVALID;
        *ret = value;
        return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].unit == unit && strcmp(words[i].word, word) == 0) {
            // Division keeps 20 % exactly 0.2, which multiplying by 0.01 does not for every number.
            *ret = words[i].factor < 1 ? value / (1 / words[i].factor) : value * words[i].factor;
            return 0;
        }
    return AL_E_INVALID;
}

const char *al_unit_word(enum al_unit unit) {
    switch (unit) {
    case AL_UNIT_RATIO: return "ratio";
    case AL_UNIT_BYTES: return "bytes";
    case AL_UNIT_CELSIUS: return "celsius";
    case AL_UNIT_WATTS: return "watts";
    case AL_UNIT_JOULES: return "joules";
    case AL_UNIT_HERTZ: return "hertz";
    case AL_UNIT_SECONDS:
    case AL_UNIT_TIMESTAMP: return "seconds";
    case AL_UNIT_BYTES_PER_SECOND: return "bytes_per_second";
    case AL_UNIT_PER_SECOND: return "per_second";
    default: return "";
    }
}
