// SPDX-License-Identifier: Apache-2.0
#include "stack/scan.h"

#include <stdlib.h>

#include "stack/core/text.h"

#define BLOCK 65536u
#define SCAN_MOST (64u << 20) // bytes that are looked at in all

typedef bool at_fn(void *user, const unsigned char *bytes, size_t size, uint64_t address, uint64_t *ret);

static const struct al_area *file_of(const struct al_areas *a, const struct al_area *area) {
    while (area > a->list && !area->path)
        area--;
    return area;
}

// Calls `at` for each block of the writable parts of mapped files, .bss included.
static const struct al_area *scan(const struct al_memory *m, const struct al_areas *a, at_fn *at, void *user, uint64_t *ret) {
    unsigned char *block = malloc(BLOCK);
    uint64_t left = SCAN_MOST;
    const struct al_area *found = NULL;
    for (size_t i = 0; block && i < a->count && !found; i++) {
        const struct al_area *area = &a->list[i];
        if (!area->writable || !area->readable || (!area->inode && !area->after_file))
            continue;
        for (uint64_t address = area->start; address < area->end && left && !found; address += BLOCK) {
            uint32_t size = (uint32_t)(area->end - address < BLOCK ? area->end - address : BLOCK);
            if (!al_memory_get(m, address, block, size))
                break;
            left -= left < size ? left : size;
            if (at(user, block, size, address, ret))
                found = file_of(a, area);
        }
    }
    free(block);
    return found;
}

static bool cookie_at(void *user, const unsigned char *bytes, size_t size, uint64_t address, uint64_t *ret) {
    (void)user;
    // A section of its own: 8-byte aligned; the text alone occurs in programs that look for it, as this one.
    for (size_t i = 0; i + 24 <= size; i += 8) {
        if (!al_layout_cookie(bytes + i, size - i) || al_u64(bytes + i + 8) >> 24 != 3 || al_u64(bytes + i + 16) > 1)
            continue;
        *ret = address + i;
        return true;
    }
    return false;
}

const struct al_area *al_scan_cookie(const struct al_memory *m, const struct al_areas *a, uint64_t *ret_runtime) {
    return scan(m, a, cookie_at, NULL, ret_runtime);
}

struct guess {
    const struct al_memory *memory;
    uint32_t machine;
    struct al_layout *layout;
    const struct al_areas *areas;
};

static bool mapped(const struct al_areas *a, uint64_t address) {
    size_t low = 0, high = a->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (a->list[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < a->count && address >= a->list[low].start && a->list[low].writable;
}

// The first frame's code object must have a file name, and so on: otherwise it is another pair that points at each other.
static bool runs_code(const struct guess *g, const struct al_layout *l, uint64_t thread) {
    uint64_t frame, code, name;
    char text[256];
    if (!al_memory_u64(g->memory, thread + l->thread_frame, &frame) ||
        (l->cframe_frame != AL_LAYOUT_NONE && !al_memory_u64(g->memory, frame + l->cframe_frame, &frame)))
        return false;
    return al_memory_u64(g->memory, frame + l->frame_code, &code) &&
           al_memory_u64(g->memory, code + l->code_filename, &name) &&
           al_text_read(g->memory, l, name, text, sizeof text) && text[0] &&
           al_memory_u64(g->memory, code + l->code_name, &name) &&
           al_text_read(g->memory, l, name, text, sizeof text) && text[0];
}

static bool fits(const struct guess *g, const struct al_layout *l, uint64_t interp) {
    uint64_t thread, back;
    return al_memory_u64(g->memory, interp + l->interp_threads, &thread) && al_address_ok(thread, 8) &&
           al_memory_u64(g->memory, thread + l->thread_interp, &back) && back == interp && runs_code(g, l, thread);
}

static bool runtime_at(void *user, const unsigned char *bytes, size_t size, uint64_t address, uint64_t *ret) {
    const struct guess *g = user;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t interp = al_u64(bytes + i);
        if (!al_address_ok(interp, 8) || !mapped(g->areas, interp))
            continue;
        for (size_t k = al_layout_tables_count; k-- > 0;) {
            const struct al_layout *l = &al_layout_tables[k];
            if ((!g->machine || l->machine == g->machine) && fits(g, l, interp)) {
                *g->layout = *l;
                *ret = address + i - l->runtime_interpreters;
                return true;
            }
        }
    }
    return false;
}

const struct al_area *al_scan_runtime(const struct al_memory *m, const struct al_areas *a, uint32_t machine,
                                      struct al_layout *ret, uint64_t *ret_runtime) {
    struct guess g = {m, machine, ret, a};
    return scan(m, a, runtime_at, &g, ret_runtime);
}
