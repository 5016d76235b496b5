// SPDX-License-Identifier: Apache-2.0
// dmon's columns of GPU performance monitors, by NVML's numbers (nvml.h, NVML_GPM_METRIC_*): nvidia-smi names all of
// them, alula reads those that it has a metric for.
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "export/smi_monitor.h"
#include "model/metric.h"

#define GPM_LAST 209 // the highest number that nvidia-smi 580 takes
#define GPM_MOST 210 // and it takes no longer list

#define MIB_PER_S (1.0 / 1048576)

static const struct read {
    uint16_t number, metric;
    const char *title;
    double scale;
} reads[] = {
    {1, AL_GPU_GPM_GRAPHICS, "gract", 100},       {2, AL_GPU_GPM_SM, "smutil", 100},
    {3, AL_GPU_GPM_OCCUPANCY, "smocc", 100},      {4, AL_GPU_GPM_INTEGER, "intutil", 100},
    {5, AL_GPU_GPM_TENSOR, "mmaact", 100},        {6, AL_GPU_GPM_DFMA, "dfmat", 100},
    {7, AL_GPU_GPM_HMMA, "hmmat", 100},           {9, AL_GPU_GPM_IMMA, "immat", 100},
    {10, AL_GPU_GPM_DRAM, "dram", 100},           {11, AL_GPU_GPM_FP64, "fp64", 100},
    {12, AL_GPU_GPM_FP32, "fp32", 100},           {13, AL_GPU_GPM_FP16, "fp16", 100},
    {20, AL_GPU_GPM_PCIE_TX, "pcitx", MIB_PER_S}, {21, AL_GPU_GPM_PCIE_RX, "pcirx", MIB_PER_S},
    {60, AL_GPU_GPM_NVLINK_RX, "nvlrx", MIB_PER_S}, {61, AL_GPU_GPM_NVLINK_TX, "nvltx", MIB_PER_S},
};

// Numbers that count through units of the GPU: from `first` on, `each` numbers a unit.
static const struct family {
    uint16_t first, last, each;
    const char *prefix;
    const char *const *suffixes;
} families[] = {
    {30, 37, 1, "nvdec", (const char *const[]){""}},
    {40, 47, 1, "nvjpg", (const char *const[]){""}},
    {50, 51, 1, "nvofa", (const char *const[]){""}},
    {62, 97, 2, "nvl", (const char *const[]){"rx", "tx"}},
    {104, 159, 4, "c2c", (const char *const[]){"ttx", "trx", "dtx", "drx"}},
    {166, 169, 1, "nvenc", (const char *const[]){""}},
    {170, 209, 5, "cs", (const char *const[]){"elp", "act", "req", "cperq", "actpt"}},
};

static const struct single {
    uint16_t number;
    const char *title;
} singles[] = {
    {100, "c2cttx"}, {101, "c2ctrx"},  {102, "c2cdtx"}, {103, "c2cdrx"}, {160, "hmhit"},
    {161, "hmmiss"}, {162, "pmhit"}, {163, "pmmiss"}, {164, "dmhit"},  {165, "dmmiss"},
};

static const char *unit(uint32_t number)
{
    static const char *const switches[] = {"GPM:#", "GPM:#", "GPM:#", "GPM:C/R", "GPM:%"};
    if (number == 0)
        return "GPM";
    if (number >= 170)
        return switches[(number - 170) % 5];
    bool rate = number == 20 || number == 21 || (number >= 60 && number <= 97) || (number >= 100 && number <= 159);
    return rate ? "GPM:MiB/s" : "GPM:%";
}

static void name(struct al_smi_column *c, uint32_t number)
{
    (void)snprintf(c->unit, sizeof c->unit, "%s", unit(number));
    (void)snprintf(c->title, sizeof c->title, "id=%u", number);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        const struct family *f = &families[i];
        if (number >= f->first && number <= f->last)
            (void)snprintf(c->title, sizeof c->title, "%s%u%s", f->prefix, (number - f->first) / f->each,
                           f->suffixes[(number - f->first) % f->each]);
    }
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        if (singles[i].number == number)
            (void)snprintf(c->title, sizeof c->title, "%s", singles[i].title);
}

static void add(struct al_smi_monitor *m, uint32_t number)
{
    struct al_smi_column c = {.group = 'g', .kind = AL_SMI_COL_NOTHING};
    name(&c, number);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        if (reads[i].number != number)
            continue;
        c.kind = AL_SMI_COL_TRUNCATED;
        c.id = reads[i].metric;
        c.scale = reads[i].scale;
        (void)snprintf(c.title, sizeof c.title, "%s", reads[i].title);
    }
    al_smi_monitor_add(m, &c);
}

int al_smi_monitor_gpm(struct al_smi_monitor *m, const char *list, char *message, size_t size)
{
    size_t odd = strspn(list, "0123456789,"), count = 0;
    if (list[odd]) {
        (void)snprintf(message, size, "Found offending character: %c", list[odd]);
        return AL_E_INVALID;
    }
    for (const char *at = list + strspn(list, ","); *at; at += strspn(at, ",")) {
        uint32_t number = 0;
        size_t len = strspn(at, "0123456789");
        for (size_t i = 0; i < len && number <= GPM_LAST; i++)
            number = number * 10 + (uint32_t)(at[i] - '0');
        if (number > GPM_LAST || ++count > GPM_MOST) {
            (void)snprintf(message, size, number > GPM_LAST ? "Metric value too high: %.*s" : "Too many metrics",
                           (int)(len < 20 ? len : 20), at);
            return AL_E_INVALID;
        }
        add(m, number);
        at += len;
    }
    return 0;
}
