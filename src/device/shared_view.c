// SPDX-License-Identifier: Apache-2.0
// The device half of a snapshot as bytes, for another process of the same program.
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "device/shared.h"

#define MAGIC "alulaGPU"
#define ROWS_MOST 16384
#define FIRST_VERSION 1

struct file_head {
    char magic[8];
    uint32_t version, groups;
    uint64_t layout; // of the structs behind
    int64_t written_ns;
    uint32_t gpu_count, row_count;
    char driver_version[sizeof((struct al_node *)0)->driver_version];
    char nvml_version[sizeof((struct al_node *)0)->nvml_version];
    char cuda_version[sizeof((struct al_node *)0)->cuda_version];
};

// FNV-1a over what gives the numbers their places: another build is refused.
static uint64_t layout(void) {
    uint64_t h = 14695981039346656037u;
    const uint64_t sizes[] = {sizeof(struct al_gpu), sizeof(struct al_proc_gpu), sizeof(struct al_value), AL_FRESH_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        h = (h ^ sizes[i]) * 1099511628211u;
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        for (const char *c = al_gpu_metrics[m].name; *c; c++)
            h = (h ^ (unsigned char)*c) * 1099511628211u;
    return h;
}

void al_shared_format(struct al_buf *b, const struct al_shared_head *head, const struct al_snapshot *s) {
    struct file_head h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, MAGIC, sizeof h.magic);
    h.version = FIRST_VERSION;
    h.groups = head->groups;
    h.layout = layout();
    h.written_ns = head->written_ns;
    h.gpu_count = s->gpu_count;
    h.row_count = s->row_count < ROWS_MOST ? s->row_count : ROWS_MOST;
    (void)al_str_copy(h.driver_version, sizeof h.driver_version, s->node.driver_version);
    (void)al_str_copy(h.nvml_version, sizeof h.nvml_version, s->node.nvml_version);
    (void)al_str_copy(h.cuda_version, sizeof h.cuda_version, s->node.cuda_version);
    al_buf_add(b, (const char *)&h, sizeof h);
    al_buf_add(b, (const char *)s->gpus, h.gpu_count * sizeof *s->gpus);
    al_buf_add(b, (const char *)s->rows, h.row_count * sizeof *s->rows);
}

// ---- back ----

static void end_text(char *text, size_t size) {
    text[size - 1] = '\0';
    (void)al_str_clean(text);
}

static void check_value(struct al_value *v) {
    if (v->status >= AL_STATUS_COUNT || !isfinite(v->num) || v->at_ns < 0)
        *v = al_value_none(AL_STATUS_ERROR);
}

// A bool of another byte than 0 and 1 must not be read as one.
static bool flag(const void *at) {
    unsigned char byte;
    memcpy(&byte, at, 1);
    return byte != 0;
}

static void check_info(struct al_gpu_info *i, uint32_t gpu_count) {
    end_text(i->uuid, sizeof i->uuid);
    end_text(i->name, sizeof i->name);
    end_text(i->pci_bus_id, sizeof i->pci_bus_id);
    end_text(i->serial, sizeof i->serial);
    end_text(i->mig_profile, sizeof i->mig_profile);
    bool enabled = flag(&i->mig_enabled), mig = flag(&i->is_mig), unified = flag(&i->unified_memory);
    i->mig_enabled = enabled;
    i->is_mig = mig;
    i->unified_memory = unified;
    if (i->parent < -1 || i->parent >= (int32_t)gpu_count)
        i->parent = -1;
    if (i->status >= AL_STATUS_COUNT)
        i->status = AL_STATUS_ERROR;
}

static void check_gpu(struct al_gpu *g, uint32_t gpu_count) {
    check_info(&g->info, gpu_count);
    for (int m = 0; m < AL_GPU_METRIC_COUNT; m++)
        check_value(&g->m[m]);
    g->xid_count = g->xid_count < AL_XID_CODES ? g->xid_count : AL_XID_CODES;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->fresh_count && i < AL_FRESH_MAX; i++)
        if (isfinite(g->fresh[i].ratio) && g->fresh[i].at_ns >= 0)
            g->fresh[kept++] = g->fresh[i];
    g->fresh_count = kept;
    if (g->process_status >= AL_STATUS_COUNT)
        g->process_status = AL_STATUS_ERROR;
    if (g->procutil_status >= AL_STATUS_COUNT)
        g->procutil_status = AL_STATUS_ERROR;
}

static void check_row(struct al_proc_gpu *r) {
    end_text(r->driver_name, sizeof r->driver_name);
    check_value(&r->memory_bytes);
    check_value(&r->sm_ratio);
    check_value(&r->memory_ratio);
    check_value(&r->encoder_ratio);
    check_value(&r->decoder_ratio);
    check_value(&r->jpeg_ratio);
    check_value(&r->ofa_ratio);
}

static int take_all(const char *bytes, const struct file_head *h, struct al_snapshot *s) {
    for (uint32_t i = 0; i < h->gpu_count; i++, bytes += sizeof(struct al_gpu)) {
        struct al_gpu *g = al_snapshot_add_gpu(s);
        if (!g)
            return AL_E_NOMEM;
        memcpy(g, bytes, sizeof *g);
        check_gpu(g, h->gpu_count);
    }
    for (uint32_t i = 0; i < h->row_count; i++, bytes += sizeof(struct al_proc_gpu)) {
        struct al_proc_gpu *r = al_snapshot_add_row(s);
        if (!r)
            return AL_E_NOMEM;
        memcpy(r, bytes, sizeof *r);
        check_row(r);
        if (r->pid <= 0 || r->gpu >= h->gpu_count)
            s->row_count--;
    }
    return 0;
}

int al_shared_parse(const char *bytes, size_t len, struct al_shared_head *ret_head, struct al_snapshot *s) {
    struct file_head h;
    if (len < sizeof h)
        return AL_E_FORMAT;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0 || h.gpu_count > AL_GPU_MAX || h.row_count > ROWS_MOST || h.written_ns < 0)
        return AL_E_FORMAT;
    if (h.version != FIRST_VERSION || h.layout != layout())
        return AL_E_UNSUPPORTED;
    if (len != sizeof h + h.gpu_count * sizeof(struct al_gpu) + h.row_count * sizeof(struct al_proc_gpu))
        return AL_E_FORMAT;
    end_text(h.driver_version, sizeof h.driver_version);
    end_text(h.nvml_version, sizeof h.nvml_version);
    end_text(h.cuda_version, sizeof h.cuda_version);
    al_snapshot_clear(s);
    memcpy(s->node.driver_version, h.driver_version, sizeof h.driver_version);
    memcpy(s->node.nvml_version, h.nvml_version, sizeof h.nvml_version);
    memcpy(s->node.cuda_version, h.cuda_version, sizeof h.cuda_version);
    *ret_head = (struct al_shared_head){h.written_ns, h.groups};
    return take_all(bytes + sizeof h, &h, s);
}
