// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "export/smi.h"
#include "export/smi_fields.h"
#include "model/metric.h"

static const struct al_smi_field *table(enum al_smi_list list, size_t *ret_count)
{
    *ret_count = list == AL_SMI_APPS ? al_smi_app_field_count : al_smi_gpu_field_count;
    return list == AL_SMI_APPS ? al_smi_app_fields : al_smi_gpu_fields;
}

const struct al_smi_field *al_smi_field_at(enum al_smi_list list, size_t i)
{
    size_t count;
    const struct al_smi_field *fields = table(list, &count);
    return i < count ? &fields[i] : NULL;
}

const char *al_smi_field_name(const struct al_smi_field *f)
{
    return f->name;
}

const char *al_smi_field_alias(const struct al_smi_field *f)
{
    return f->alias;
}

static const struct al_smi_field *find(enum al_smi_list list, const char *name, size_t len)
{
    size_t count;
    const struct al_smi_field *fields = table(list, &count);
    for (size_t i = 0; i < count; i++) {
        const char *const names[] = {fields[i].name, fields[i].alias};
        for (size_t k = 0; k < 2; k++)
            if (names[k] && strncmp(names[k], name, len) == 0 && names[k][len] == '\0')
                return &fields[i];
    }
    return NULL;
}

static uint32_t needs(enum al_smi_list list, const struct al_smi_field *f)
{
    if (f->source == AL_SMI_METRIC)
        return al_gpu_metrics[f->id].group;
    if (f->source == AL_SMI_COMPUTED && f->id == AL_SMI_POWER_MANAGEMENT)
        return AL_GROUP_FAST;
    return list == AL_SMI_APPS ? AL_GROUP_PROCESS : 0;
}

int al_smi_query_parse(enum al_smi_list list, const char *text, struct al_smi_query *ret, char *bad, size_t size)
{
    ret->list = list;
    ret->count = 0;
    ret->groups = list == AL_SMI_APPS ? AL_GROUP_PROCESS : 0;
    // Empty items are passed over, blanks belong to the name: as nvidia-smi does.
    for (const char *at = text + strspn(text, ","); *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");
        const struct al_smi_field *f = find(list, at, len);
        if (!f) {
            (void)al_str_copy_n(bad, size, at, len);
            return AL_E_NOENT;
        }
        if (ret->count == AL_SMI_FIELDS_MAX)
            return AL_E_TOOBIG;
        ret->field[ret->count++] = f;
        ret->groups |= needs(list, f);
        at += len;
    }
    return 0;
}

int al_smi_query_format(struct al_smi_query *q, const char *text)
{
    q->header = q->units = true;
    for (const char *at = text; at && *at; at += strspn(at, ",")) {
        size_t len = strcspn(at, ",");
        if (len == 8 && strncmp(at, "noheader", len) == 0)
            q->header = false;
        else if (len == 7 && strncmp(at, "nounits", len) == 0)
            q->units = false;
        else if (len != 3 || strncmp(at, "csv", len) != 0)
            return AL_E_INVALID;
        at += len;
    }
    return 0;
}

static void text_value(struct al_attr_value *v, const char *text, uint32_t status)
{
    v->status = text[0] ? AL_STATUS_OK : status == AL_STATUS_OK ? AL_STATUS_UNSUPPORTED : status;
    (void)al_str_copy(v->text, sizeof v->text, text);
}

static void number_value(struct al_attr_value *v, double num, uint32_t status)
{
    v->num = num;
    v->status = status;
}

static void metric_value(struct al_attr_value *v, struct al_value m)
{
    number_value(v, m.num, m.status);
}

static void attr_value(const struct al_smi_view *view, uint32_t gpu, enum al_attr attr, struct al_attr_value *v)
{
    if (view->attr(view->user, gpu, attr, v) < 0 && v->status == AL_STATUS_OK)
        v->status = AL_STATUS_ERROR;
}

static void fabric_value(const struct al_smi_view *view, uint32_t gpu, enum al_attr attr, struct al_attr_value *v)
{
    struct al_attr_value state = {0};
    attr_value(view, gpu, AL_ATTR_FABRIC_STATE, &state);
    attr_value(view, gpu, attr, v);
    if (state.status == AL_STATUS_OK && state.num < 1)
        v->status = AL_STATUS_UNSUPPORTED;
}

static uint32_t physical_gpus(const struct al_snapshot *s)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->gpu_count; i++)
        count += !s->gpus[i].info.is_mig;
    return count;
}

static void compute_cap(const struct al_smi_view *view, uint32_t gpu, struct al_attr_value *v)
{
    struct al_attr_value minor = {0};
    attr_value(view, gpu, AL_ATTR_COMPUTE_CAP_MAJOR, v);
    attr_value(view, gpu, AL_ATTR_COMPUTE_CAP_MINOR, &minor);
    if (v->status == AL_STATUS_OK && minor.status != AL_STATUS_OK)
        v->status = minor.status;
    (void)snprintf(v->text, sizeof v->text, "%.0f.%.0f", v->num, minor.num);
}

// A comma in a name would be a new cell: nvidia-smi prints '?' there, and so do we. It prints control bytes as they
// are, we do not.
static void process_name(struct al_buf *b, const struct al_proc_gpu *row)
{
    char text[sizeof row->driver_name];
    (void)al_str_copy(text, sizeof text, row->driver_name[0] ? row->driver_name : "[Not Found]");
    for (char *comma = text; (comma = strchr(comma, ',')) != NULL;)
        *comma = '?';
    al_term_string(b, text);
}

static void computed(const struct al_smi_view *view, uint32_t gpu, const struct al_proc_gpu *row, uint32_t id,
                     struct al_attr_value *v)
{
    const struct al_snapshot *s = view->s;
    const struct al_gpu *g = &s->gpus[gpu];
    v->status = AL_STATUS_OK;
    switch (id) {
    case AL_SMI_TIMESTAMP:
        al_smi_timestamp(s->realtime_ns, v->text, sizeof v->text);
        break;
    case AL_SMI_DRIVER:
        text_value(v, s->node.driver_version, AL_STATUS_UNSUPPORTED);
        break;
    case AL_SMI_COUNT:
        number_value(v, physical_gpus(s), AL_STATUS_OK);
        break;
    case AL_SMI_NAME:
        text_value(v, g->info.name, g->info.status);
        break;
    case AL_SMI_UUID:
        text_value(v, g->info.uuid, g->info.status);
        break;
    case AL_SMI_BUS_ID:
        text_value(v, g->info.pci_bus_id, g->info.status);
        break;
    case AL_SMI_INDEX:
        number_value(v, g->info.index, AL_STATUS_OK);
        break;
    case AL_SMI_COMPUTE_CAP:
        compute_cap(view, gpu, v);
        break;
    case AL_SMI_POWER_MANAGEMENT:
        number_value(v, 0, g->m[AL_GPU_POWER].status);
        (void)al_str_copy(v->text, sizeof v->text, "Enabled");
        break;
    case AL_SMI_PID:
        number_value(v, row->pid, AL_STATUS_OK);
        break;
    case AL_SMI_PROCESS_MEMORY:
        metric_value(v, row->memory_bytes);
        break;
    default:
        v->status = AL_STATUS_UNSUPPORTED;
        break;
    }
}

static void row_cells(struct al_buf *b, const struct al_smi_query *q, const struct al_smi_view *view, uint32_t gpu,
                      const struct al_proc_gpu *row)
{
    for (size_t i = 0; i < q->count; i++) {
        const struct al_smi_field *f = q->field[i];
        struct al_attr_value v = {0};
        if (i > 0)
            al_buf_str(b, ", ");
        if (f->source == AL_SMI_COMPUTED && f->id == AL_SMI_PROCESS_NAME) {
            process_name(b, row); // longer than an attribute
            continue;
        }
        if (f->source == AL_SMI_METRIC)
            metric_value(&v, view->s->gpus[gpu].m[f->id]);
        else if (f->source == AL_SMI_ATTR)
            attr_value(view, gpu, (enum al_attr)f->id, &v);
        else if (f->source == AL_SMI_FABRIC)
            fabric_value(view, gpu, (enum al_attr)f->id, &v);
        else if (f->source == AL_SMI_COMPUTED)
            computed(view, gpu, row, f->id, &v);
        else
            v.status = AL_STATUS_UNSUPPORTED;
        al_smi_cell(b, f, &v, q->units);
    }
    al_buf_char(b, '\n');
}

void al_smi_query_header(struct al_buf *b, const struct al_smi_query *q)
{
    for (size_t i = 0; i < q->count; i++) {
        const char *unit = al_smi_style_unit(q->field[i]->style);
        al_buf_printf(b, unit ? "%s%s [%s]" : "%s%s", i > 0 ? ", " : "", q->field[i]->name, unit);
    }
    al_buf_char(b, '\n');
}

bool al_smi_belongs(const struct al_snapshot *s, uint32_t position, uint32_t gpu)
{
    if (position >= s->gpu_count)
        return false;
    const struct al_gpu_info *info = &s->gpus[position].info;
    return position == gpu || (info->is_mig && info->parent >= 0 && (uint32_t)info->parent == gpu);
}

static void app_rows(struct al_buf *b, const struct al_smi_query *q, const struct al_smi_view *view, uint32_t gpu)
{
    for (uint32_t i = 0; i < view->s->row_count; i++) {
        const struct al_proc_gpu *row = &view->s->rows[i];
        if (al_smi_belongs(view->s, row->gpu, gpu) && (row->type & (AL_PROC_COMPUTE | AL_PROC_MPS)))
            row_cells(b, q, view, gpu, row);
    }
}

void al_smi_query_rows(struct al_buf *b, const struct al_smi_query *q, const struct al_smi_view *view)
{
    static const struct al_proc_gpu no_process; // a GPU's row has none, and no field that looks at it
    for (uint32_t i = 0; i < view->gpu_count; i++) {
        if (q->list == AL_SMI_APPS)
            app_rows(b, q, view, view->gpu[i]);
        else
            row_cells(b, q, view, view->gpu[i], &no_process);
    }
}

void al_smi_query_help(struct al_buf *b, enum al_smi_list list)
{
    size_t count;
    const struct al_smi_field *fields = table(list, &count);
    al_buf_printf(b, "Fields of --query-%s, each with its other name and its meaning:\n",
                  list == AL_SMI_APPS ? "compute-apps" : "gpu");
    for (size_t i = 0; i < count; i++) {
        const struct al_smi_field *f = &fields[i];
        const char *help = f->help ? f->help
                           : f->source == AL_SMI_METRIC ? al_gpu_metrics[f->id].help
                                                        : al_attrs[f->id].help;
        al_buf_printf(b, f->alias ? "\n\"%s\" or \"%s\"\n" : "\n\"%s\"\n", f->name, f->alias);
        al_buf_printf(b, "%s.\n", help);
    }
}

// Is `item` (an index, UUID, PCI id or serial) this GPU?
static bool names(const struct al_gpu_info *info, const char *item)
{
    uint64_t index;
    if (al_str_u64(item, &index))
        return index == info->index || (info->serial[0] && strcmp(info->serial, item) == 0);
    if (strcmp(info->uuid, item) == 0 || strcasecmp(info->pci_bus_id, item) == 0)
        return true;
    // 0000:83:00.0 and 83:00.0 name 00000000:83:00.0 too.
    size_t len = strlen(item), have = strlen(info->pci_bus_id);
    return len >= 7 && len < have && strcasecmp(info->pci_bus_id + have - len, item) == 0;
}

static void select_one(struct al_smi_view *view, const char *item)
{
    for (uint32_t i = 0; i < view->s->gpu_count; i++)
        if (!view->s->gpus[i].info.is_mig && names(&view->s->gpus[i].info, item))
            view->wanted[i] = true;
}

int al_smi_select(struct al_smi_view *view, const char *list)
{
    memset(view->wanted, list == NULL, sizeof view->wanted);
    for (const char *at = list; at && *at; at += strspn(at, ", ")) {
        char item[AL_UUID_MAX];
        size_t len = strcspn(at, ", ");
        // What is longer than any name is none.
        if (al_str_copy_n(item, sizeof item, at, len))
            select_one(view, item);
        at += len;
    }
    view->gpu_count = 0;
    for (uint32_t i = 0; i < view->s->gpu_count && i < AL_GPU_MAX; i++)
        if (view->wanted[i] && !view->s->gpus[i].info.is_mig)
            view->gpu[view->gpu_count++] = i;
    return view->gpu_count > 0 ? 0 : AL_E_NOENT;
}

static void list_mig(struct al_buf *b, const struct al_snapshot *s, uint32_t gpu)
{
    unsigned device = 0;
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        const struct al_gpu_info *mig = &s->gpus[i].info;
        if (mig->is_mig && mig->parent >= 0 && (uint32_t)mig->parent == gpu)
            al_buf_printf(b, "  MIG %-11s Device %2u: (UUID: %s)\n", mig->mig_profile, device++, mig->uuid);
    }
}

int al_smi_list_gpus(struct al_buf *b, const struct al_smi_view *view)
{
    int result = 0;
    for (uint32_t i = 0; i < view->gpu_count; i++) {
        const struct al_gpu_info *info = &view->s->gpus[view->gpu[i]].info;
        if (info->status == AL_STATUS_LOST) {
            // Here the domain has four digits.
            const char *bus = strlen(info->pci_bus_id) == 16 ? info->pci_bus_id + 4 : info->pci_bus_id;
            al_buf_printf(b, "Unable to determine the device handle for gpu %s: GPU is lost.  Reboot the system to "
                             "recover this GPU\n\n\n", bus);
            result = AL_E_LOST;
            continue;
        }
        al_buf_printf(b, "GPU %u: ", info->index);
        al_term_string(b, info->name);
        al_buf_printf(b, " (UUID: %s)\n", info->uuid);
        list_mig(b, view->s, view->gpu[i]);
    }
    return result;
}
