// SPDX-License-Identifier: Apache-2.0
#include "tui/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

bool al_txt_has(struct al_value v) {
    return v.status == AL_STATUS_OK || v.status == AL_STATUS_STALE;
}

static void scaled(char *out, size_t size, double v, double step, const char *const *suffixes, int count) {
    int i = 0;
    while (fabs(v) >= step * 0.9995 && i + 1 < count) {
        v /= step;
        i++;
    }
    char number[AL_TXT];
    (void)al_fmt_fixed(number, sizeof number, v, i == 0 || fabs(v) >= 99.95 ? 0 : 1);
    (void)snprintf(out, size, "%s%s", number, suffixes[i]);
}

static void bytes(char out[AL_TXT], double v, bool rate) {
    static const char *const sizes[] = {"B", "K", "M", "G", "T", "P"};
    static const char *const rates[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    scaled(out, AL_TXT, v, rate ? 1000 : 1024, rate ? rates : sizes, 6);
}

static void duration(char out[AL_TXT], double seconds) {
    long long s = seconds > 0 && seconds < 1e15 ? (long long)seconds : 0;
    if (s < 60)
        (void)snprintf(out, AL_TXT, "%llds", s);
    else if (s < 3600)
        (void)snprintf(out, AL_TXT, "%lldm%02llds", s / 60, s % 60);
    else if (s < 100 * 3600)
        (void)snprintf(out, AL_TXT, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, AL_TXT, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void number(char out[AL_TXT], enum al_unit unit, double v) {
    char digits[AL_TXT];
    switch (unit) {
    case AL_UNIT_RATIO: (void)snprintf(out, AL_TXT, "%.0f%%", v * 100); return;
    case AL_UNIT_BYTES: bytes(out, v, false); return;
    case AL_UNIT_BYTES_PER_SECOND: bytes(out, v, true); return;
    case AL_UNIT_CELSIUS: (void)snprintf(out, AL_TXT, "%.0f°C", v); return;
    case AL_UNIT_WATTS: (void)snprintf(out, AL_TXT, "%.0fW", v); return;
    case AL_UNIT_HERTZ: (void)snprintf(out, AL_TXT, "%.0fMHz", v / 1e6); return;
    case AL_UNIT_SECONDS: duration(out, v); return;
    default:
        (void)al_fmt_fixed(digits, sizeof digits, v, v == floor(v) ? 0 : 2);
        (void)snprintf(out, AL_TXT, "%s", digits);
    }
}

static void mark(char out[AL_TXT], struct al_value v) {
    size_t len = strlen(out);
    if (v.status == AL_STATUS_STALE && len + 1 < AL_TXT)
        (void)al_str_copy(out + len, AL_TXT - len, "~");
}

void al_txt_short(char out[AL_TXT], enum al_unit unit, struct al_value v) {
    if (!al_txt_has(v)) {
        (void)al_str_copy(out, AL_TXT, "-");
        return;
    }
    number(out, unit, v.num);
    mark(out, v);
}

void al_txt_long(char *out, size_t size, enum al_unit unit, struct al_value v) {
    static const char *const words[] = {
        [AL_UNIT_RATIO] = " %", [AL_UNIT_CELSIUS] = " °C",           [AL_UNIT_WATTS] = " W", [AL_UNIT_JOULES] = " J",
        [AL_UNIT_HERTZ] = " MHz", [AL_UNIT_SECONDS] = " s", [AL_UNIT_PER_SECOND] = " /s", [AL_UNIT_BOOL] = NULL,
    };
    char digits[64];
    if (!size)
        return;
    out[0] = '\0';
    if (!al_txt_has(v))
        return;
    if (unit == AL_UNIT_BYTES || unit == AL_UNIT_BYTES_PER_SECOND) {
        (void)al_fmt_bytes(digits, sizeof digits, v.num);
        (void)snprintf(out, size, "%s%s", digits, unit == AL_UNIT_BYTES ? "" : "/s");
        return;
    }
    if (unit == AL_UNIT_BITS && v.num >= 0 && v.num < 18e18) {
        (void)snprintf(out, size, "0x%llx", (unsigned long long)v.num);
        return;
    }
    double scale = unit == AL_UNIT_RATIO ? 100 : unit == AL_UNIT_HERTZ ? 1e-6 : 1;
    double shown = v.num * scale;
    (void)al_fmt_fixed(digits, sizeof digits, shown, fabs(shown - round(shown)) < 1e-9 ? 0 : 1);
    const char *word = (size_t)unit < sizeof words / sizeof words[0] ? words[unit] : NULL;
    (void)snprintf(out, size, "%s%s", digits, word ? word : "");
}

void al_txt_of(char out[AL_TXT], enum al_unit unit, struct al_value v, struct al_value of) {
    char a[AL_TXT], b[AL_TXT];
    al_txt_short(a, unit, v);
    al_txt_short(b, unit, of);
    if (!al_txt_has(v) || !al_txt_has(of)) {
        (void)al_str_copy(out, AL_TXT, a);
        return;
    }
    number(a, unit, v.num);
    number(b, unit, of.num);
    // The unit once, when it is the same.
    size_t digits = strspn(a, "0123456789."), other = strspn(b, "0123456789.");
    if (strcmp(a + digits, b + other) == 0)
        a[digits] = '\0';
    (void)snprintf(out, AL_TXT, "%.14s/%.14s", a, b);
    mark(out, v);
}

void al_txt_age(char out[AL_TXT], int64_t ns) {
    long long s = ns > 0 ? ns / AL_NS_PER_S : 0;
    if (s < 100)
        (void)snprintf(out, AL_TXT, "%llds", s);
    else if (s < 100 * 60)
        (void)snprintf(out, AL_TXT, "%lldm", s / 60);
    else if (s < 100 * 3600)
        (void)snprintf(out, AL_TXT, "%lldh", s / 3600);
    else
        (void)snprintf(out, AL_TXT, "%lldd", s / 86400);
}

void al_txt_throttle(char *out, size_t size, struct al_value reasons, bool *ret_bad) {
    // NVML's nvmlClocksEventReason* bits. Idle (0x1) and display clocks (0x100) hold nobody back.
    static const struct {
        uint32_t bit;
        bool bad;
        const char *word;
    } table[] = {
        {0x40, true, "hot (hardware)"}, {0x80, true, "power brake"}, {0x08, true, "hardware slowdown"},
        {0x20, true, "hot (software)"}, {0x04, true, "power cap"},   {0x10, false, "sync boost"},
        {0x02, false, "application clocks"},
    };
    *ret_bad = false;
    if (size)
        out[0] = '\0';
    if (!al_txt_has(reasons) || reasons.num < 0 || reasons.num > 4e9)
        return;
    uint32_t bits = (uint32_t)reasons.num;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        // The general hardware bit comes with its reason.
        if (!(bits & table[i].bit) || (table[i].bit == 0x08 && (bits & 0xc0)))
            continue;
        size_t len = strlen(out);
        (void)snprintf(out + len, size - len, "%s%s", len ? ", " : "", table[i].word);
        *ret_bad |= table[i].bad;
    }
}

const char *al_txt_gpu_name(const struct al_gpu *g) {
    if (g->info.is_mig)
        return *g->info.mig_profile ? g->info.mig_profile : "MIG";
    return al_str_starts(g->info.name, "NVIDIA ") ? g->info.name + 7 : g->info.name;
}
