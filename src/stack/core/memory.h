// SPDX-License-Identifier: Apache-2.0
// Memory that is read by pieces: another process's, or this one's own. No piece is believed.
#ifndef AL_STACK_CORE_MEMORY_H
#define AL_STACK_CORE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct al_piece {
    uint64_t address;
    uint32_t size;
    uint32_t at; // where it goes in the caller's buffer
};

// Reads pieces[0..count) in their order, in as few calls as it takes. Returns how many from the first on are complete.
typedef size_t al_memory_gather_fn(void *user, const struct al_piece *pieces, size_t count, void *buffer);

struct al_memory {
    al_memory_gather_fn *gather;
    void *user;
};

static inline bool al_memory_get(const struct al_memory *m, uint64_t address, void *out, uint32_t size) {
    struct al_piece piece = {address, size, 0};
    return m->gather(m->user, &piece, 1, out) == 1;
}

static inline bool al_memory_u64(const struct al_memory *m, uint64_t address, uint64_t *ret) {
    return al_memory_get(m, address, ret, sizeof *ret);
}

// Unaligned reads of what was copied.
static inline uint64_t al_u64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t al_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Whether it can be an object's address: user half, not the first page, aligned.
static inline bool al_address_ok(uint64_t address, uint64_t alignment) {
    return address >= 4096 && address < (1ULL << 56) && (address & (alignment - 1)) == 0;
}

#endif
