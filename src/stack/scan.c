// SPDX-License-Identifier: Apache-2.0
#include "stack/scan.h"

#include <stdlib.h>

#include "stack/core/text.h"
#include "stack/find.h"

#define BLOCK 65536u
#define SCAN_MOST (64u << 20) // bytes that are looked at in all

typedef bool at_fn(void *user, const unsigned char *bytes, size_t size, uint64_t address, uint64_t *ret);

static const struct al_area *file_of(const struct al_areas *a, const struct al_area *area) {
    while (area > a->list && !area->path)
        area--;
    return area;
}

// Calls `at` for each block of the writable parts of mapped files, .bss included.
static const struct al_area *scan(const struct al_memory *m, const struct al_areas *a, at_fn *at, void *user,
                                  uint64_t *ret) {
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

// "\0003.9.18\0": digits and dots and nothing else.
static uint32_t version_at(const unsigned char *at, const unsigned char *end) {
    unsigned numbers[2] = {0, 0};
    // A linker may have made it the end of a path: ".../Python-3.9.18".
    if (end - at < 10 || (at[0] && at[0] != '/' && at[0] != '-') || at[1] != '3' || at[2] != '.')
        return 0;
    at += 3;
    for (int i = 0; i < 2; i++) {
        const unsigned char *first = at;
        for (; at < end && *at >= '0' && *at <= '9' && at - first < 2; at++)
            numbers[i] = numbers[i] * 10 + (*at - '0');
        if (at == first || at >= end || *at != (i ? '\0' : '.'))
            return 0;
        at++;
    }
    return numbers[0] >= 8 && numbers[0] <= 12 ? 0x030000f0u | numbers[0] << 16 | numbers[1] << 8 : 0;
}

static uint32_t version_in(const struct al_memory *m, const struct al_area *area, unsigned char *block,
                           uint64_t *left) {
    // Blocks overlap by the length of such a text.
    for (uint64_t at = area->start; at < area->end && *left; at += BLOCK - 16) {
        uint32_t size = (uint32_t)(area->end - at < BLOCK ? area->end - at : BLOCK);
        if (!al_memory_get(m, at, block, size))
            return 0;
        *left -= *left < size ? *left : size;
        for (const unsigned char *p = block + 1; (p = memmem(p, (size_t)(block + size - p), "3.", 2)); p++) {
            uint32_t version = version_at(p - 1, block + size);
            if (version)
                return version;
        }
    }
    return 0;
}

uint32_t al_scan_version(const struct al_memory *m, const struct al_areas *a, const char *path) {
    unsigned char *block = malloc(BLOCK);
    uint64_t left = SCAN_MOST;
    uint32_t version = 0;
    for (size_t i = 0; block && i < a->count && !version; i++)
        if (a->list[i].readable && !a->list[i].writable && a->list[i].path &&
            strcmp(al_area_path(a, &a->list[i]), path) == 0)
            version = version_in(m, &a->list[i], block, &left);
    free(block);
    return version;
}

struct guess {
    const struct al_memory *memory;
    uint32_t machine, version;
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

// The first frame's code object must have a file name, and so on: otherwise it is another pair that points at each
// other.
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

// Behind the head of the list stand its main interpreter and the next one's number.
static bool is_list(const unsigned char *bytes) {
    uint64_t main = al_u64(bytes + 8), next_id = al_u64(bytes + 16);
    return al_address_ok(main, 8) && next_id >= 1 && next_id < 1u << 31;
}

static bool runtime_at(void *user, const unsigned char *bytes, size_t size, uint64_t address, uint64_t *ret) {
    const struct guess *g = user;
    for (size_t i = 0; i + 24 <= size; i += 8) {
        uint64_t interp = al_u64(bytes + i);
        if (!al_address_ok(interp, 8) || !is_list(bytes + i) || !mapped(g->areas, interp))
            continue;
        for (size_t k = al_layout_tables_count; k-- > 0;) {
            const struct al_layout *l = &al_layout_tables[k];
            if ((!g->machine || l->machine == g->machine) && (!g->version || l->version == g->version >> 16) &&
                al_runtime_check(g->memory, l, address + i - l->runtime_interpreters) > 0 && fits(g, l, interp)) {
                *g->layout = *l;
                *ret = address + i - l->runtime_interpreters;
                return true;
            }
        }
    }
    return false;
}

const struct al_area *al_scan_runtime(const struct al_memory *m, const struct al_areas *a, uint32_t machine,
                                      uint32_t version, struct al_layout *ret, uint64_t *ret_runtime) {
    struct guess g = {m, machine, version, ret, a};
    return scan(m, a, runtime_at, &g, ret_runtime);
}
