// SPDX-License-Identifier: Apache-2.0
// Attributes, faults, Xid events, missing symbols, and the source that plays it all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "scenario/parts.h"

static void set_text(struct al_attr_value *v, const char *text) {
    v->status = text[0] ? AL_STATUS_OK : AL_STATUS_UNSUPPORTED;
    al_str_copy(v->text, sizeof v->text, text);
}

static void set_number(struct al_attr_value *v, double num) {
    v->status = AL_STATUS_OK;
    v->num = num;
}

// Attributes that follow from a GPU's identity when no attr line names them.
void al_scenario_derive(const struct al_gpu_info *i, enum al_attr attr, struct al_attr_value *ret) {
    unsigned domain = 0, bus = 0, device = 0;
    bool pci = sscanf(i->pci_bus_id, "%8x:%2x:%2x", &domain, &bus, &device) == 3;
    switch (attr) {
    case AL_ATTR_NAME:
        set_text(ret, i->name);
        break;
    case AL_ATTR_UUID:
        set_text(ret, i->uuid);
        break;
    case AL_ATTR_SERIAL:
        set_text(ret, i->serial);
        break;
    case AL_ATTR_PCI_BUS_ID:
        set_text(ret, i->pci_bus_id);
        break;
    case AL_ATTR_PCI_DOMAIN:
    case AL_ATTR_PCI_BUS:
    case AL_ATTR_PCI_DEVICE:
        if (pci)
            set_number(ret, attr == AL_ATTR_PCI_DOMAIN ? domain : attr == AL_ATTR_PCI_BUS ? bus : device);
        break;
    case AL_ATTR_MINOR:
        set_number(ret, i->minor);
        break;
    case AL_ATTR_ARCHITECTURE:
        set_number(ret, i->architecture);
        break;
    case AL_ATTR_MIG_MODE:
    case AL_ATTR_MIG_MODE_PENDING:
        if (!i->is_mig)
            set_number(ret, i->mig_enabled);
        break;
    case AL_ATTR_GPU_INSTANCE:
    case AL_ATTR_COMPUTE_INSTANCE:
        if (i->is_mig)
            set_number(ret, attr == AL_ATTR_GPU_INSTANCE ? i->gpu_instance : i->compute_instance);
        break;
    default:
        break;
    }
}

int al_scenario_gpu_attr(struct al_scenario *s, uint32_t gpu, enum al_attr attr, int64_t at_ns,
                         struct al_attr_value *ret) {
    *ret = (struct al_attr_value){.status = AL_STATUS_UNSUPPORTED};
    if (gpu >= s->gpu_count || (unsigned)attr >= AL_ATTR_COUNT)
        return AL_E_INVALID;
    uint32_t status = al_scenario_gpu_status(s, gpu, at_ns, NULL);
    const struct al_attr_track *t = &s->gpus[gpu].attr[attr];
    if (status != AL_STATUS_OK) {
        ret->status = status;
        return 0;
    }
    if (!t->set) {
        al_scenario_derive(&s->info[gpu], attr, ret);
        return 0;
    }
    ret->status = t->status;
    if (t->status == AL_STATUS_OK) {
        ret->num = t->num;
        al_str_copy(ret->text, sizeof ret->text, al_scenario_text(s, t->text));
    }
    return 0;
}

int al_scenario_attr(struct al_scenario *s, uint32_t gpu, enum al_attr attr, int64_t at_ns, struct al_attr_value *ret) {
    return al_scenario_gpu_attr(s, al_scenario_gpu_at(s, gpu, at_ns), attr, at_ns, ret);
}

static bool names(const struct al_fault_line *f, const char *function) {
    size_t len = strlen(f->function);
    if (len && f->function[len - 1] == '*')
        return strncmp(f->function, function, len - 1) == 0;
    return strcmp(f->function, function) == 0;
}

void al_scenario_fault(struct al_scenario *s, const char *function, int gpu, int64_t at_ns, int *ret_code,
                       int64_t *ret_hang_ns) {
    *ret_code = 0;
    *ret_hang_ns = 0;
    for (size_t i = 0; i < s->fault_count; i++) {
        struct al_fault_line *f = &s->faults[i];
        if (at_ns < f->at_ns || at_ns >= f->until_ns || f->calls_left == 0)
            continue;
        if (!f->any_gpu && (gpu < 0 || gpu >= AL_GPU_MAX || !al_gpu_mask_has(&f->gpus, (uint32_t)gpu)))
            continue;
        if (!names(f, function))
            continue;
        if (f->calls_left > 0)
            f->calls_left--;
        if (f->hang)
            *ret_hang_ns = f->until_ns - at_ns;
        else
            *ret_code = f->code;
    }
}

bool al_scenario_missing(const struct al_scenario *s, const char *function) {
    for (size_t i = 0; i < s->missing_count; i++) {
        size_t len = strlen(s->missing[i]);
        if (len && s->missing[i][len - 1] == '*' ? strncmp(s->missing[i], function, len - 1) == 0
                                                 : strcmp(s->missing[i], function) == 0)
            return true;
    }
    return false;
}

size_t al_scenario_xids(const struct al_scenario *s, int64_t after_ns, int64_t at_ns, struct al_scenario_xid *ret,
                        size_t max) {
    size_t low = 0, high = s->xid_count, count = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->xids[middle].at_ns > after_ns)
            high = middle;
        else
            low = middle + 1;
    }
    for (; low < s->xid_count && s->xids[low].at_ns <= at_ns && count < max; low++)
        ret[count++] = s->xids[low];
    return count;
}

struct player {
    struct al_source source;
    struct al_scenario *scenario;
};

static int play_at(struct al_source *source, int64_t after_ns, int64_t at_ns, struct al_snapshot *ret) {
    struct al_scenario *s = ((struct player *)source)->scenario;
    return at_ns > s->duration_ns ? AL_E_END : al_scenario_at(s, after_ns, at_ns, ret);
}

static int play_attr(struct al_source *source, uint32_t gpu, enum al_attr attr, int64_t at_ns,
                     struct al_attr_value *ret) {
    return al_scenario_attr(((struct player *)source)->scenario, gpu, attr, at_ns, ret);
}

static void play_free(struct al_source *source) {
    al_scenario_free(((struct player *)source)->scenario);
    free(source);
}

int al_scenario_source(struct al_scenario *s, struct al_source **ret) {
    static const struct al_source_ops ops = {"scenario", play_at, play_attr, play_free};
    struct player *p = calloc(1, sizeof *p);
    if (!p)
        return AL_E_NOMEM;
    p->source = (struct al_source){&ops, s->duration_ns, s->interval_ns, s->start_realtime_ns};
    p->scenario = s;
    *ret = &p->source;
    return 0;
}
