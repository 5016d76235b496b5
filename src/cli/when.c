// SPDX-License-Identifier: Apache-2.0
#include "cli/when.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "store/store.h"

#define DAY_NS (86400 * AL_NS_PER_S)

static bool seconds_of(const char *text, double *ret) {
    return (al_unit_parse(text, AL_UNIT_SECONDS, ret) == 0 || al_str_double(text, ret)) && *ret >= 0 && *ret <= 1e9;
}

int al_cli_span(const char *option, const char *text, int64_t *ret_ns) {
    double seconds;
    if (!seconds_of(text, &seconds) || seconds <= 0) {
        al_cli_error("--%s %s: expected a time such as 90s, 10min, 2h or 7d", option, text);
        return al_error_exit_status(AL_E_INVALID);
    }
    *ret_ns = (int64_t)(seconds * 1e9);
    return 0;
}

// Two digits each: "12:30" or "12:30:15" with nothing behind but an optional Z.
static bool clock_of(const char *text, int64_t *ret_ns) {
    unsigned hour, minute, second = 0;
    int used = 0;
    if (sscanf(text, "%2u:%2u%n", &hour, &minute, &used) != 2)
        return false;
    int more = 0;
    if (sscanf(text + used, ":%2u%n", &second, &more) == 1)
        used += more;
    if (strcmp(text + used, "") != 0 && strcmp(text + used, "Z") != 0)
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    *ret_ns = ((int64_t)hour * 3600 + minute * 60 + second) * AL_NS_PER_S;
    return true;
}

static bool date_of(const char *text, int64_t *ret_ns) {
    struct tm t = {0};
    int used = 0;
    int64_t clock;
    if (sscanf(text, "%4d-%2d-%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &used) != 3)
        return false;
    if ((text[used] != 'T' && text[used] != ' ') || !clock_of(text + used + 1, &clock))
        return false;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    *ret_ns = (int64_t)timegm(&t) * AL_NS_PER_S + clock;
    return true;
}

static bool place_of(const char *text, const struct al_store_info *info, int64_t *ret_ns) {
    double seconds;
    int64_t at;
    if (*text == '-' && seconds_of(text + 1, &seconds)) {
        *ret_ns = info->duration_ns - (int64_t)(seconds * 1e9);
        if (*ret_ns < 0)
            *ret_ns = 0; // longer than the recording: all of it
        return true;
    }
    if (seconds_of(text, &seconds)) {
        *ret_ns = (int64_t)(seconds * 1e9);
        return true;
    }
    if (date_of(text, &at)) {
        *ret_ns = at - info->start_realtime_ns;
        return true;
    }
    if (!clock_of(text, &at))
        return false;
    *ret_ns = at - info->start_realtime_ns % DAY_NS;
    if (*ret_ns < 0) // the first time that this hour comes
        *ret_ns += DAY_NS;
    return true;
}

int al_cli_when(const char *option, const char *text, struct al_store *store, int64_t *ret_ns) {
    struct al_store_info info;
    al_store_info(store, &info);
    if (!place_of(text, &info, ret_ns)) {
        al_cli_error("--%s %s: expected a time from the start (10min), from the end (-10min), of the day (12:30, UTC) or "
                     "2026-11-29T12:30:15", option, text);
        return al_error_exit_status(AL_E_INVALID);
    }
    if (*ret_ns >= 0 && *ret_ns <= info.duration_ns)
        return 0;
    char length[32];
    (void)al_fmt_duration(length, sizeof length, (double)info.duration_ns / 1e9);
    al_cli_error("--%s %s: outside the recording, which lasts %s", option, text, length);
    return al_error_exit_status(AL_E_INVALID);
}
