// SPDX-License-Identifier: Apache-2.0
// The look for an exported function in a process's memory, which says anything: no read is answered beyond the input,
// the look-up ends soon, and what it finds was there.
#include <stdlib.h>
#include <string.h>

#include "launch/inject_elf.h"
#include "launch/inject_maps.h"

#define BASE 0x10000u
#define READS_MOST 20000

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct image {
    const unsigned char *data;
    size_t size, reads;
};

static bool read_image(void *user, uint64_t address, void *out, size_t size) {
    struct image *i = user;
    if (++i->reads > READS_MOST)
        abort();
    if (address < BASE || address - BASE > i->size || size > i->size - (address - BASE))
        return false;
    memcpy(out, i->data + (address - BASE), size);
    return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct image i = {data, size, 0};
    struct al_elf e;
    struct al_maps m;
    if (al_elf_open(&e, read_image, &i, BASE) == 0) {
        (void)al_elf_symbol(&e, "Py_AddPendingCall");
        (void)al_elf_symbol(&e, "f");
    }
    char *text = calloc(1, size + 1);
    if (text && (size == 0 || memcpy(text, data, size)) && al_maps_parse(&m, text) == 0) {
        for (size_t k = 0; k < m.count; k++)
            if (m.maps[k].start >= m.maps[k].end)
                abort();
        al_maps_free(&m);
    }
    free(text);
    return 0;
}
