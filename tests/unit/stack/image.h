// SPDX-License-Identifier: Apache-2.0
// A made memory: one block at a made address, which may change at a chosen piece of a reading.
#ifndef AL_TESTS_STACK_IMAGE_H
#define AL_TESTS_STACK_IMAGE_H

#include "stack/core/memory.h"

#define IMAGE_BASE 0x100000u
#define IMAGE_SIZE 65536u

struct image {
    unsigned char bytes[IMAGE_SIZE];
    size_t gathers, pieces;
    void (*change)(struct image *i); // called before each piece; NULL none
};

static inline void image_u64(struct image *i, uint64_t address, uint64_t value) {
    memcpy(i->bytes + (address - IMAGE_BASE), &value, 8);
}

static inline size_t image_gather(void *user, const struct al_piece *pieces, size_t count, void *buffer) {
    struct image *i = user;
    i->gathers++;
    for (size_t k = 0; k < count; k++) {
        i->pieces++;
        if (i->change)
            i->change(i);
        const struct al_piece *p = &pieces[k];
        if (p->address < IMAGE_BASE || p->address - IMAGE_BASE > IMAGE_SIZE ||
            p->size > IMAGE_SIZE - (p->address - IMAGE_BASE))
            return k;
        memcpy((char *)buffer + p->at, i->bytes + (p->address - IMAGE_BASE), p->size);
    }
    return count;
}

#endif
