// SPDX-License-Identifier: Apache-2.0
// Quantities with units as people write them in configs, options and scenarios: "500ms", "10GiB", "20%", "80 %".
#ifndef AL_BASE_UNITS_H
#define AL_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

enum al_unit {
    AL_UNIT_NONE,             // a plain number
    AL_UNIT_RATIO,            // 0..1; accepts "20%" and "0.2"
    AL_UNIT_BYTES,            // B kB MB GB KiB MiB GiB TiB
    AL_UNIT_CELSIUS,          // C, °C
    AL_UNIT_WATTS,            // W mW
    AL_UNIT_JOULES,           // J mJ
    AL_UNIT_HERTZ,            // Hz kHz MHz GHz
    AL_UNIT_SECONDS,          // ns us ms s min h d
    AL_UNIT_BYTES_PER_SECOND, // as bytes, with "/s"
    AL_UNIT_COUNT,
    AL_UNIT_PER_SECOND,
    AL_UNIT_BITS,  // a bit mask
    AL_UNIT_STATE, // an enumerated state as the driver numbers it
    AL_UNIT_TIMESTAMP, // seconds since the epoch
    AL_UNIT_BOOL       // false or true
};

// Parses the whole text as a quantity in `unit`'s base (seconds, bytes, hertz, ...). A bare number is taken in the base
// unit only for NONE, COUNT, RATIO, BITS, STATE; elsewhere a unit is required. Returns 0, AL_E_FORMAT (no number) or
// AL_E_INVALID (wrong or missing unit).
int al_unit_parse(const char *text, enum al_unit unit, double *ret);
const char *al_unit_word(enum al_unit unit); // "bytes", "ratio", "watts": OpenMetrics' base unit, "" for none

#endif
