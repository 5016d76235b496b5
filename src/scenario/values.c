// SPDX-License-Identifier: Apache-2.0
// The values that stand behind a scenario's words: times, numbers with units, ramps, statuses, GPU lists.
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/reader.h"

int al_read_time(struct al_reader *r, const char *text, int column, int64_t *ret_ns) {
    double seconds;
    if (al_unit_parse(text, AL_UNIT_SECONDS, &seconds) != 0)
        return al_reader_fail(r, column, "'%.40s' is no time; write 500ms, 12.5s or 2min", text);
    if (!(seconds >= 0 && seconds <= AL_SCENARIO_SECONDS_MAX))
        return al_reader_fail(r, column, "'%.40s' is not between 0s and 366d", text);
    *ret_ns = llround(seconds * 1e9);
    return 0;
}

int al_read_whole(struct al_reader *r, const char *text, int column, uint64_t max, uint64_t *ret) {
    if (!al_str_u64(text, ret) || *ret > max)
        return al_reader_fail(r, column, "'%.40s' is no whole number from 0 to %llu", text, (unsigned long long)max);
    return 0;
}

static bool hex_number(const char *text, double *ret) {
    uint64_t value = 0;
    if (strncmp(text, "0x", 2) != 0 || !text[2] || strlen(text) > 18)
        return false;
    for (const char *p = text + 2; *p; p++) {
        const char *digits = "0123456789abcdef";
        const char *hit = strchr(digits, *p >= 'A' && *p <= 'F' ? *p - 'A' + 'a' : *p);
        if (!hit)
            return false;
        value = value * 16 + (uint64_t)(hit - digits);
    }
    *ret = (double)value;
    return true;
}

int al_read_number(struct al_reader *r, const char *text, int column, enum al_unit unit, double *ret) {
    if (hex_number(text, ret))
        return 0;
    if (al_str_double(text, ret) && isfinite(*ret))
        return 0;
    int error = al_unit_parse(text, unit, ret);
    if (error == 0 && isfinite(*ret))
        return 0;
    const char *word = al_unit_word(unit);
    if (error == AL_E_INVALID)
        return al_reader_fail(r, column, "'%.40s' has a unit that does not fit here (base unit: %s)", text,
                              *word ? word : "none");
    return al_reader_fail(r, column, "'%.40s' is no number; write 0.93, 10GiB, 0..5/10s or !unsupported", text);
}

int al_read_status(struct al_reader *r, const char *text, int column, uint8_t *ret) {
    if (text[0] != '!')
        return 0;
    int status = al_status_from_word(text + 1);
    if (status < 0)
        return al_reader_fail(r, column,
                              "'%.40s' names no status; there are !unsupported !denied !lost !stale !error !timeout "
                              "!unread and more",
                              text);
    *ret = (uint8_t)status;
    return 1;
}

static int ramp(struct al_reader *r, char *text, int column, enum al_unit unit, struct al_change *ret) {
    char *dots = strstr(text, "..");
    char *slash = strrchr(dots, '/');
    if (!slash || slash[1] == 's')
        return al_reader_fail(r, column, "a ramp needs its duration; write 10GiB..120GiB/30s");
    *dots = 0;
    *slash = 0;
    int error = al_read_number(r, text, column, unit, &ret->a);
    if (!error)
        error = al_read_number(r, dots + 2, column + (int)(dots - text) + 2, unit, &ret->b);
    if (!error)
        error = al_read_time(r, slash + 1, column + (int)(slash - text) + 1, &ret->ramp_ns);
    if (!error && ret->ramp_ns == 0)
        error =
            al_reader_fail(r, column + (int)(slash - text) + 1, "a ramp lasts longer than 0s; write the value alone");
    return error;
}

int al_read_track(struct al_reader *r, const char *text, int column, enum al_unit unit, struct al_change *ret) {
    char copy[AL_WORD_MAX];
    int got = al_read_status(r, text, column, &ret->status);
    if (got)
        return got < 0 ? got : 0;
    al_str_copy(copy, sizeof copy, text);
    ret->status = AL_STATUS_OK;
    char *mark = strchr(copy, '!');
    if (mark) { // the last good reading of a sensor that went quiet
        if (strcmp(mark, "!stale") != 0)
            return al_reader_fail(r, column + (int)(mark - copy), "only !stale may stand behind a number");
        *mark = 0;
        ret->status = AL_STATUS_STALE;
        ret->b = 1; // the number is given, not the one before
    } else if (strstr(copy, "..")) {
        return ramp(r, copy, column, unit, ret);
    }
    return al_read_number(r, copy, column, unit, &ret->a);
}

// One item of a GPU list: "3", "0-7", "0/1"; *text moves behind it.
static int gpu_item(struct al_reader *r, char *item, int column, struct al_gpu_mask *ret) {
    const struct al_scenario *s = r->s;
    uint64_t first, last;
    char *slash = strchr(item, '/');
    char *dash = strchr(item, '-');
    char *end = slash ? slash : dash;
    if (end)
        *end++ = 0;
    int error = al_read_whole(r, item, column, AL_GPU_MAX - 1, &first);
    last = first;
    if (!error && end)
        error = al_read_whole(r, end, column + (int)(end - item), AL_GPU_MAX - 1, &last);
    if (error)
        return error;
    if (!slash) {
        if (!r->describing && last < AL_GPU_MAX && last >= s->board_count)
            return al_reader_fail(r, column,
                                  "GPU %llu is described nowhere; add a gpu line for it above the first @ line",
                                  (unsigned long long)(first >= s->board_count ? first : s->board_count));
        if (last < first)
            return al_reader_fail(r, column, "the range runs backwards; write %llu-%llu", (unsigned long long)last,
                                  (unsigned long long)first);
        for (uint64_t g = first; g <= last; g++)
            al_gpu_mask_add(ret, (uint32_t)g);
        return 0;
    }
    for (uint32_t g = s->board_count, nth = 0; g < s->gpu_count; g++)
        if (s->info[g].parent == (int32_t)first && nth++ == last) {
            al_gpu_mask_add(ret, g);
            return 0;
        }
    return al_reader_fail(r, column, "GPU %llu has no MIG device %llu; add a mig line for it above",
                          (unsigned long long)first, (unsigned long long)last);
}

int al_read_gpus(struct al_reader *r, const char *text, int column, struct al_gpu_mask *ret) {
    char copy[AL_WORD_MAX];
    al_str_copy(copy, sizeof copy, text);
    memset(ret, 0, sizeof *ret);
    for (char *item = copy; item;) {
        char *comma = strchr(item, ',');
        if (comma)
            *comma = 0;
        int error = gpu_item(r, item, column + (int)(item - copy), ret);
        if (error)
            return error;
        item = comma ? comma + 1 : NULL;
    }
    return 0;
}

static bool digits(const char **text, int count, int *ret) {
    *ret = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *ret = *ret * 10 + (**text - '0');
    }
    return true;
}

// Days from 1970-01-01 in the Gregorian calendar, counting years from March so that February ends them.
static int64_t days_from_civil(int year, int month, int day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = y / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

bool al_scenario_date(const char *text, int64_t *ret_ns) {
    int year, month, day, hour, minute, second;
    if (!digits(&text, 4, &year) || *text++ != '-' || !digits(&text, 2, &month) || *text++ != '-' ||
        !digits(&text, 2, &day) || *text++ != 'T' || !digits(&text, 2, &hour) || *text++ != ':' ||
        !digits(&text, 2, &minute) || *text++ != ':' || !digits(&text, 2, &second))
        return false;
    if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
        second > 60)
        return false;
    int64_t fraction = 0;
    if (*text == '.') {
        int64_t scale = 100000000;
        for (text++; *text >= '0' && *text <= '9'; text++, scale /= 10)
            fraction += (*text - '0') * scale;
    }
    if (strcmp(text, "Z") != 0)
        return false;
    int64_t seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    *ret_ns = seconds * 1000000000 + fraction;
    return true;
}

// nvmlReturn_t by name, as nvml.h numbers them.
static const struct {
    const char *name;
    int code;
} results[] = {
    {"UNINITIALIZED", 1}, {"INVALID_ARGUMENT", 2}, {"NOT_SUPPORTED", 3}, {"NO_PERMISSION", 4},
    {"ALREADY_INITIALIZED", 5}, {"NOT_FOUND", 6}, {"INSUFFICIENT_SIZE", 7}, {"INSUFFICIENT_POWER", 8},
    {"DRIVER_NOT_LOADED", 9}, {"TIMEOUT", 10}, {"IRQ_ISSUE", 11}, {"LIBRARY_NOT_FOUND", 12},
    {"FUNCTION_NOT_FOUND", 13}, {"CORRUPTED_INFOROM", 14}, {"GPU_IS_LOST", 15}, {"RESET_REQUIRED", 16},
    {"OPERATING_SYSTEM", 17}, {"LIB_RM_VERSION_MISMATCH", 18}, {"IN_USE", 19}, {"MEMORY", 20}, {"NO_DATA", 21},
    {"VGPU_ECC_NOT_SUPPORTED", 22}, {"INSUFFICIENT_RESOURCES", 23}, {"FREQ_NOT_SUPPORTED", 24},
    {"ARGUMENT_VERSION_MISMATCH", 25}, {"DEPRECATED", 26}, {"NOT_READY", 27}, {"GPU_NOT_FOUND", 28},
    {"INVALID_STATE", 29}, {"RESET_TYPE_NOT_SUPPORTED", 30}, {"UNKNOWN", 999},
};

int al_scenario_result(const char *word) {
    uint64_t number;
    if (al_str_u64(word, &number))
        return number > 0 && number <= 999 ? (int)number : -1;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (strcmp(results[i].name, word) == 0)
            return results[i].code;
    return -1;
}
