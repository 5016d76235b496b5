// SPDX-License-Identifier: Apache-2.0
// dmon and pmon. A cell is right-aligned and followed by one blank, so that a number wider than its column pushes the
// rest aside instead of running into it.
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "export/smi_fields.h"
#include "export/smi_monitor.h"
#include "model/metric.h"

#define METRIC(group, title, unit, id, scale) {group, AL_SMI_COL_ROUNDED, AL_GPU_##id, scale, title, unit}
#define DMON(group, title, unit, kind, id, scale) {group, kind, id, scale, title, unit}
#define ROW(group, title, unit, kind, member, scale)                                                                   \
    {group, kind, offsetof(struct al_proc_gpu, member), scale, title, unit}

static const struct al_smi_column dmon_columns[] = {
    DMON('p', "pwr", "W", AL_SMI_COL_TRUNCATED, AL_GPU_POWER, 1),
    METRIC('p', "gtemp", "C", TEMP, 1),
    METRIC('p', "mtemp", "C", TEMP_MEM, 1),
    METRIC('u', "sm", "%", UTIL, 100),
    METRIC('u', "mem", "%", MEM_UTIL, 100),
    METRIC('u', "enc", "%", ENC_UTIL, 100),
    METRIC('u', "dec", "%", DEC_UTIL, 100),
    METRIC('u', "jpg", "%", JPG_UTIL, 100),
    METRIC('u', "ofa", "%", OFA_UTIL, 100),
    METRIC('c', "mclk", "MHz", CLOCK_MEM, 1e-6),
    METRIC('c', "pclk", "MHz", CLOCK_SM, 1e-6),
    DMON('v', "pviol", "%", AL_SMI_COL_POWER, AL_GPU_VIOL_POWER, 1),
    DMON('v', "tviol", "bool", AL_SMI_COL_THERMAL, AL_GPU_VIOL_THERMAL, 1),
    DMON('m', "fb", "MB", AL_SMI_COL_MEBI, AL_GPU_MEM_USED, 1),
    DMON('m', "bar1", "MB", AL_SMI_COL_TRUNCATED, AL_GPU_BAR1_USED, 1.0 / 1048576),
    DMON('m', "ccpm", "MB", AL_SMI_COL_PROTECTED, AL_ATTR_PROTECTED_USED, 1.0 / 1048576),
    METRIC('e', "sbecc", "errs", ECC_COR_VOL_TOTAL, 1),
    METRIC('e', "dbecc", "errs", ECC_UNC_VOL_TOTAL, 1),
    METRIC('e', "pci", "errs", PCIE_REPLAY, 1),
    DMON('t', "rxpci", "MB/s", AL_SMI_COL_TRUNCATED, AL_GPU_PCIE_RX, 1e-6),
    DMON('t', "txpci", "MB/s", AL_SMI_COL_TRUNCATED, AL_GPU_PCIE_TX, 1e-6),
};

static const struct al_smi_column pmon_columns[] = {
    ROW('u', "sm", "%", AL_SMI_COL_ROW_ROUNDED, sm_ratio, 100),
    ROW('u', "mem", "%", AL_SMI_COL_ROW_ROUNDED, memory_ratio, 100),
    ROW('u', "enc", "%", AL_SMI_COL_ROW_NONZERO, encoder_ratio, 100),
    ROW('u', "dec", "%", AL_SMI_COL_ROW_NONZERO, decoder_ratio, 100),
    ROW('u', "jpg", "%", AL_SMI_COL_ROW_NONZERO, jpeg_ratio, 100),
    ROW('u', "ofa", "%", AL_SMI_COL_ROW_NONZERO, ofa_ratio, 100),
    ROW('m', "fb", "MB", AL_SMI_COL_ROW_MEBI, memory_bytes, 1),
    ROW('m', "ccpm", "MB", AL_SMI_COL_ROW_PROTECTED, memory_bytes, 1),
};

static const struct {
    const struct al_smi_column *columns;
    size_t count;
    const char *groups, *select; // the letters there are, and the default
} kinds[] = {
    [AL_SMI_DMON] = {dmon_columns, sizeof dmon_columns / sizeof dmon_columns[0], "pucvmet", "puc"},
    [AL_SMI_PMON] = {pmon_columns, sizeof pmon_columns / sizeof pmon_columns[0], "um", "u"},
};

static uint32_t needs(const struct al_smi_column *c)
{
    switch (c->kind) {
    case AL_SMI_COL_PROTECTED:
    case AL_SMI_COL_NOTHING:
        return 0;
    case AL_SMI_COL_ROW_ROUNDED:
    case AL_SMI_COL_ROW_NONZERO:
        return AL_GROUP_PROCUTIL;
    case AL_SMI_COL_ROW_MEBI:
    case AL_SMI_COL_ROW_PROTECTED:
        return AL_GROUP_PROCESS;
    default:
        return al_gpu_metrics[c->id].group;
    }
}

void al_smi_monitor_add(struct al_smi_monitor *m, const struct al_smi_column *c)
{
    if (m->count == AL_SMI_COLUMNS_MAX)
        return;
    m->column[m->count++] = *c;
    m->groups |= needs(c);
}

int al_smi_monitor_init(struct al_smi_monitor *m, enum al_smi_monitor_kind kind, const char *select)
{
    memset(m, 0, sizeof *m);
    m->kind = kind;
    m->header = m->units = true;
    m->groups = kind == AL_SMI_PMON ? AL_GROUP_PROCESS : 0;
    if (!select)
        select = kinds[kind].select;
    for (const char *at = select; *at; at++) {
        if (!strchr(kinds[kind].groups, *at))
            return AL_E_INVALID;
        if (memchr(select, *at, (size_t)(at - select)))
            continue;
        for (size_t i = 0; i < kinds[kind].count; i++)
            if (kinds[kind].columns[i].group == *at)
                al_smi_monitor_add(m, &kinds[kind].columns[i]);
    }
    return m->count > 0 ? 0 : AL_E_INVALID;
}

int al_smi_monitor_options(struct al_smi_monitor *m, const char *letters)
{
    for (; *letters; letters++) {
        if (*letters != 'D' && *letters != 'T')
            return AL_E_INVALID;
        m->date |= *letters == 'D';
        m->time |= *letters == 'T';
    }
    return 0;
}

int al_smi_monitor_format(struct al_smi_monitor *m, const char *list, char *bad, size_t size)
{
    for (const char *at = list + strspn(list, ","); *at; at += strspn(at, ",")) {
        (void)al_str_copy_n(bad, size, at, strcspn(at, ","));
        if (strcmp(bad, "csv") == 0)
            m->csv = true;
        else if (strcmp(bad, "noheader") == 0)
            m->header = false;
        else if (strcmp(bad, "nounit") == 0)
            m->units = false;
        else
            return AL_E_INVALID;
        at += strcspn(at, ",");
    }
    return 0;
}

// The next cell of a line that already has `used` of them.
static void cell(struct al_buf *b, const struct al_smi_monitor *m, const char *text, int width, size_t used)
{
    if (m->csv)
        al_buf_printf(b, "%s%s", used > 0 ? ", " : "", text);
    else
        al_buf_printf(b, "%*s ", width, text);
}

// Date, time and index. `start` begins the line: '#' in a header, a blank before values.
static size_t line_start(struct al_buf *b, const struct al_smi_monitor *m, char start, const char *date,
                         const char *time, const char *index)
{
    size_t used = 0;
    al_buf_char(b, start);
    if (m->date)
        cell(b, m, date, -11, used++);
    if (m->time)
        cell(b, m, time, -11, used++);
    cell(b, m, index, 4, used);
    return used + 1;
}

static void header_line(struct al_buf *b, const struct al_smi_monitor *m, bool units)
{
    size_t used = units ? line_start(b, m, '#', "YYYYMMDD", "HH:MM:SS", "Idx")
                        : line_start(b, m, '#', "Date", "Time", "gpu");
    if (m->kind == AL_SMI_PMON)
        al_buf_str(b, units ? "          #    C/G " : "        pid   type ");
    for (size_t i = 0; i < m->count; i++) {
        const struct al_smi_column *c = &m->column[i];
        cell(b, m, units ? c->unit : c->title, c->group == 'g' ? 10 : 6, used++);
    }
    if (m->kind == AL_SMI_PMON)
        al_buf_str(b, units ? "   name " : "   command ");
    al_buf_char(b, '\n');
}

void al_smi_monitor_header(struct al_buf *b, const struct al_smi_monitor *m)
{
    if (m->header)
        header_line(b, m, false);
    if (m->units)
        header_line(b, m, true);
}

static size_t row_start(struct al_buf *b, const struct al_smi_monitor *m, const struct al_snapshot *s, uint32_t gpu)
{
    time_t seconds = (time_t)(s->realtime_ns / AL_NS_PER_S);
    struct tm tm;
    char date[16] = "-", time[16] = "-", index[16];
    if (localtime_r(&seconds, &tm)) {
        (void)strftime(date, sizeof date, "%Y%m%d", &tm);
        (void)strftime(time, sizeof time, "%H:%M:%S", &tm);
    }
    (void)snprintf(index, sizeof index, "%u", s->gpus[gpu].info.index);
    return line_start(b, m, ' ', date, time, index);
}

// Share of the time between two readings of a violation counter (seconds) that it grew by, or its status.
static struct al_value violation(struct al_value v, struct al_value last)
{
    double wall = (double)(v.at_ns - last.at_ns) / (double)AL_NS_PER_S;
    if (v.status == AL_STATUS_OK)
        v.num = last.status != AL_STATUS_OK || wall <= 0 ? 0 : fmin(fmax((v.num - last.num) / wall, 0), 1);
    return v;
}

static void number(struct al_buf *b, const struct al_smi_monitor *m, struct al_value v, const struct al_smi_column *c,
                   size_t used)
{
    char text[32] = "-";
    if (v.status == AL_STATUS_OK && isfinite(v.num)) {
        long long whole;
        double scaled = fmin(fmax(v.num * c->scale, -9e12), 9e12);
        if (c->kind == AL_SMI_COL_MEBI || c->kind == AL_SMI_COL_ROW_MEBI)
            whole = (long long)al_smi_mib(fmin(v.num, 9e15));
        else if (c->kind == AL_SMI_COL_TRUNCATED || c->kind == AL_SMI_COL_PROTECTED)
            whole = llround(scaled * 1e6) / 1000000;
        else
            whole = llround(scaled);
        if (c->kind != AL_SMI_COL_ROW_NONZERO || whole != 0)
            (void)snprintf(text, sizeof text, "%lld", whole);
    }
    cell(b, m, text, c->group == 'g' ? 10 : 6, used);
}

static struct al_value attr_number(const struct al_smi_view *view, uint32_t gpu, enum al_attr attr)
{
    struct al_attr_value v = {0};
    if (view->attr(view->user, gpu, attr, &v) < 0 || v.status != AL_STATUS_OK)
        return al_value_none(AL_STATUS_UNSUPPORTED);
    return al_value_ok(v.num, 0);
}

static struct al_value gpu_value(const struct al_smi_monitor *m, const struct al_smi_view *view, uint32_t gpu,
                                 const struct al_smi_column *c)
{
    const struct al_value *metrics = view->s->gpus[gpu].m;
    struct al_value v;
    switch (c->kind) {
    case AL_SMI_COL_NOTHING:
        return al_value_none(AL_STATUS_UNSUPPORTED);
    case AL_SMI_COL_PROTECTED:
        return attr_number(view, gpu, (enum al_attr)c->id);
    case AL_SMI_COL_POWER:
        v = violation(metrics[c->id], m->last_power[gpu]);
        v.num *= 100;
        return v;
    case AL_SMI_COL_THERMAL:
        v = violation(metrics[c->id], m->last_thermal[gpu]);
        v.num = v.num > 0;
        return v;
    default:
        return metrics[c->id];
    }
}

static void dmon_row(struct al_buf *b, const struct al_smi_monitor *m, const struct al_smi_view *view, uint32_t gpu)
{
    size_t used = row_start(b, m, view->s, gpu);
    for (size_t i = 0; i < m->count; i++)
        number(b, m, gpu_value(m, view, gpu, &m->column[i]), &m->column[i], used++);
    al_buf_char(b, '\n');
}

static const char *type_word(uint32_t type)
{
    bool compute = type & (AL_PROC_COMPUTE | AL_PROC_MPS), graphics = type & AL_PROC_GRAPHICS;
    return compute && graphics ? "C+G" : graphics ? "G" : "C";
}

// The last part of the process's path, cut to the column.
static void command(struct al_buf *b, const char *driver_name)
{
    struct al_buf clean = AL_BUF_INIT;
    const char *name = strrchr(driver_name, '/');
    char cut[16];
    al_term_string(&clean, name ? name + 1 : driver_name);
    (void)al_str_copy(cut, sizeof cut, clean.len > 0 && !clean.failed ? clean.data : "-");
    al_buf_printf(b, "   %-15s", cut);
    al_buf_free(&clean);
}

static struct al_value row_value(const struct al_smi_view *view, uint32_t gpu, const struct al_proc_gpu *row,
                                 const struct al_smi_column *c)
{
    struct al_value v;
    memcpy(&v, (const char *)row + c->id, sizeof v);
    // The driver has no sample of a process that was idle: that is 0 to alula and '-' to nvidia-smi.
    bool utilization = c->kind == AL_SMI_COL_ROW_ROUNDED || c->kind == AL_SMI_COL_ROW_NONZERO;
    if (utilization && row->sm_ratio.num <= 0 && row->memory_ratio.num <= 0 && v.num <= 0)
        return al_value_none(AL_STATUS_UNREAD);
    if (c->kind != AL_SMI_COL_ROW_PROTECTED || v.status != AL_STATUS_OK)
        return v;
    // The driver's figure per process is not read. Where the GPU has no protected memory at all, it can only be 0.
    struct al_value total = attr_number(view, gpu, AL_ATTR_PROTECTED_TOTAL);
    return total.status == AL_STATUS_OK && total.num <= 0 ? al_value_ok(0, 0) : al_value_none(AL_STATUS_UNSUPPORTED);
}

static void pmon_row(struct al_buf *b, const struct al_smi_monitor *m, const struct al_smi_view *view, uint32_t gpu,
                     const struct al_proc_gpu *row)
{
    size_t used = row_start(b, m, view->s, gpu);
    if (row)
        al_buf_printf(b, "%10d %5s ", (int)row->pid, type_word(row->type));
    else
        al_buf_printf(b, "%10s %5s ", "-", "-");
    for (size_t i = 0; i < m->count; i++) {
        struct al_value none = al_value_none(AL_STATUS_UNSUPPORTED);
        number(b, m, row ? row_value(view, gpu, row, &m->column[i]) : none, &m->column[i], used++);
    }
    command(b, row ? row->driver_name : "");
    al_buf_char(b, '\n');
}

static void pmon_rows(struct al_buf *b, const struct al_smi_monitor *m, const struct al_smi_view *view, uint32_t gpu)
{
    const struct al_snapshot *s = view->s;
    bool any = false;
    for (uint32_t i = 0; i < s->row_count; i++) {
        if (!al_smi_belongs(s, s->rows[i].gpu, gpu))
            continue;
        pmon_row(b, m, view, gpu, &s->rows[i]);
        any = true;
    }
    if (!any)
        pmon_row(b, m, view, gpu, NULL);
}

static void remember(struct al_smi_monitor *m, const struct al_snapshot *s)
{
    for (uint32_t i = 0; i < s->gpu_count && i < AL_GPU_MAX; i++) {
        m->last_power[i] = s->gpus[i].m[AL_GPU_VIOL_POWER];
        m->last_thermal[i] = s->gpus[i].m[AL_GPU_VIOL_THERMAL];
    }
}

void al_smi_monitor_rows(struct al_buf *b, struct al_smi_monitor *m, const struct al_smi_view *view)
{
    for (uint32_t i = 0; i < view->gpu_count; i++) {
        if (m->kind == AL_SMI_PMON)
            pmon_rows(b, m, view, view->gpu[i]);
        else
            dmon_row(b, m, view, view->gpu[i]);
    }
    remember(m, view->s);
}
