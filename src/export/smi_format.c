// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "export/smi_fields.h"
#include "model/status.h"

#define MIB 1048576.0

enum kind { TEXT, INTEGER, FIXED2, HEX, MEBI, STATE, WORDS, BIT, BITS };

static const char *const enabled[] = {"Disabled", "Enabled"};
static const char *const yes[] = {"No", "Yes"};
static const char *const capable[] = {"Not Supported", "Supported"};
static const char *const checksum[] = {"invalid", "valid"};
static const char *const addressing[] = {"None", "HMM", "ATS"};
static const char *const driver_model[] = {"WDDM", "TCC", "MCDM"};
static const char *const recovery[] = {"None",      "GPU Reset",       "Node Reboot",
                                       "Drain P2P", "Drain and Reset", "Recover IMEX Domain"};
static const char *const gom[] = {"All On", "Compute", "Low Double Precision"};
static const char *const compute_mode[] = {"Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"};
static const char *const fabric_state[] = {"N/A", "Not Started", "In Progress", "Completed"};
static const char *const fabric_status[] = {"Success"};
static const char *const fabric_summary[] = {"N/A", "Healthy", "Unhealthy", "Limited Capacity"};
static const char *const health_bandwidth[] = {"N/A", "Degraded", "Full"};
static const char *const health_flag[] = {"N/A", "True", "False"};
static const char *const health_config[] = {
    "N/A",          "None",                 "Incorrect SystemGuid", "Incorrect Chassis Serial Number",
    "No Partition", "Insufficient Nvlinks", "Incompatible GPU FW",  "Invalid Location",
    "GPU State Invalid"};
static const char *const peer[] = {"Direct Connected", "Switch Connected"};

// The order of enum al_smi_style. `scale` turns the base unit into the printed one; a HEX has `digits` at least; BITS
// looks at `digits` bits.
static const struct style {
    uint8_t kind;
    uint8_t digits;
    double scale;
    const char *unit;
    const char *const *words;
    size_t word_count;
} styles[AL_SMI_STYLE_COUNT] = {
#define WORD_STYLE(list) {WORDS, 0, 1, NULL, list, sizeof(list) / sizeof(list)[0]}
#define BITS_STYLE(list, bits) {BITS, bits, 1, NULL, list, sizeof(list) / sizeof(list)[0]}
    [AL_SMI_TEXT] = {TEXT, 0, 1, NULL, NULL, 0},
    [AL_SMI_INT] = {INTEGER, 0, 1, NULL, NULL, 0},
    [AL_SMI_HEX1] = {HEX, 1, 1, NULL, NULL, 0},
    [AL_SMI_HEX2] = {HEX, 2, 1, NULL, NULL, 0},
    [AL_SMI_HEX4] = {HEX, 4, 1, NULL, NULL, 0},
    [AL_SMI_HEX8] = {HEX, 8, 1, NULL, NULL, 0},
    [AL_SMI_HEX16] = {HEX, 16, 1, NULL, NULL, 0},
    [AL_SMI_MIB] = {MEBI, 0, 1, "MiB", NULL, 0},
    [AL_SMI_PERCENT] = {INTEGER, 0, 100, "%", NULL, 0},
    [AL_SMI_WATTS] = {FIXED2, 0, 1, "W", NULL, 0},
    [AL_SMI_MHZ] = {INTEGER, 0, 1e-6, "MHz", NULL, 0},
    [AL_SMI_MS] = {INTEGER, 0, 1e3, "ms", NULL, 0},
    [AL_SMI_US] = {INTEGER, 0, 1e6, "us", NULL, 0},
    [AL_SMI_PSTATE] = {STATE, 0, 1, NULL, NULL, 0},
    [AL_SMI_REASON] = {BIT, 0, 1, NULL, NULL, 0},
    [AL_SMI_ENABLED] = WORD_STYLE(enabled),
    [AL_SMI_YES] = WORD_STYLE(yes),
    [AL_SMI_CAPABLE] = WORD_STYLE(capable),
    [AL_SMI_CHECKSUM] = WORD_STYLE(checksum),
    [AL_SMI_ADDRESSING] = WORD_STYLE(addressing),
    [AL_SMI_DRIVER_MODEL] = WORD_STYLE(driver_model),
    [AL_SMI_RECOVERY] = WORD_STYLE(recovery),
    [AL_SMI_GOM] = WORD_STYLE(gom),
    [AL_SMI_COMPUTE_MODE] = WORD_STYLE(compute_mode),
    [AL_SMI_FABRIC_STATE] = WORD_STYLE(fabric_state),
    [AL_SMI_FABRIC_STATUS] = WORD_STYLE(fabric_status),
    [AL_SMI_FABRIC_SUMMARY] = WORD_STYLE(fabric_summary),
    [AL_SMI_HEALTH_BANDWIDTH] = BITS_STYLE(health_bandwidth, 2),
    [AL_SMI_HEALTH_FLAG] = BITS_STYLE(health_flag, 2),
    [AL_SMI_HEALTH_CONFIG] = BITS_STYLE(health_config, 4),
    [AL_SMI_PEER] = WORD_STYLE(peer),
};

const char *al_smi_style_unit(uint32_t style)
{
    return style < AL_SMI_STYLE_COUNT ? styles[style].unit : NULL;
}

uint64_t al_smi_mib(double bytes)
{
    return bytes > 0 ? (uint64_t)ceil(bytes / MIB) : 0;
}

void al_smi_timestamp(int64_t realtime_ns, char *out, size_t size)
{
    time_t seconds = (time_t)(realtime_ns / AL_NS_PER_S);
    int ms = (int)(realtime_ns % AL_NS_PER_S / AL_NS_PER_MS);
    struct tm tm;
    char date[32];
    if (!localtime_r(&seconds, &tm) || strftime(date, sizeof date, "%Y/%m/%d %H:%M:%S", &tm) == 0) {
        (void)al_str_copy(out, size, "[N/A]");
        return;
    }
    (void)snprintf(out, size, "%s.%03d", date, ms);
}

// A state that the tables do not know (a newer driver's) is named by its number rather than by a wrong word.
static void word(struct al_buf *b, const struct style *st, uint64_t index)
{
    if (index < st->word_count)
        al_buf_str(b, st->words[index]);
    else
        al_buf_printf(b, "%" PRIu64, index);
}

static void known(struct al_buf *b, const struct style *st, const struct al_smi_field *f, const struct al_attr_value *v)
{
    // Masks and counters arrive as doubles, exact up to 2^53; what is outside of 64 bits would be undefined to convert.
    double num = v->num * st->scale;
    uint64_t bits = num >= 0 && num < 18446744073709549568.0 ? (uint64_t)llround(fmin(num, 9.2e18)) : 0;
    switch (st->kind) {
    case TEXT:
        al_term_string(b, v->text);
        break;
    case FIXED2:
        // nvidia-smi counts watts in single precision: 77.715 W are 77.71, 77.705 W are 77.71 too.
        al_buf_fixed(b, (float)num, 2);
        break;
    case HEX:
        al_buf_printf(b, "0x%0*" PRIX64, (int)st->digits, bits);
        break;
    case MEBI:
        al_buf_printf(b, "%" PRIu64, al_smi_mib(num));
        break;
    case STATE:
        al_buf_printf(b, "P%" PRIu64, bits);
        break;
    case WORDS:
        word(b, st, bits);
        break;
    case BIT:
        al_buf_str(b, bits & f->mask ? "Active" : "Not Active");
        break;
    case BITS:
        word(b, st, bits >> f->mask & ((1U << st->digits) - 1));
        break;
    default:
        al_buf_printf(b, "%lld", llround(fmax(fmin(num, 9.2e18), -9.2e18)));
        break;
    }
}

void al_smi_cell(struct al_buf *b, const struct al_smi_field *f, const struct al_attr_value *v, bool units)
{
    const struct style *st = &styles[f->style];
    if (v->status != AL_STATUS_OK || !isfinite(v->num)) {
        bool lacks = v->status == AL_STATUS_UNSUPPORTED || v->status == AL_STATUS_UNREAD;
        al_buf_str(b, f->missing && lacks ? f->missing
                                          : al_status_smi(v->status == AL_STATUS_OK ? AL_STATUS_ERROR : v->status));
        return;
    }
    known(b, st, f, v);
    if (units && st->unit) {
        al_buf_char(b, ' ');
        al_buf_str(b, st->unit);
    }
}
