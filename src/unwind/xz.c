// SPDX-License-Identifier: Apache-2.0
#include "unwind/xz.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/dl.h"

#define MEMORY_MOST (128u << 20) // of the unpacker
#define ENDED 0                  // lzma_ret: LZMA_OK
#define FULL 10                  // LZMA_BUF_ERROR

// lzma_stream_buffer_decode, part of liblzma's stable interface.
typedef int decode_fn(uint64_t *memory, uint32_t flags, const void *allocator, const uint8_t *in, size_t *in_at,
                      size_t in_size, uint8_t *out, size_t *out_at, size_t out_size);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static decode_fn *decode;

static void open_once(void) {
    static const char *const paths[] = {"liblzma.so.5", NULL};
    static const struct al_dl_symbol symbol = {"lzma_stream_buffer_decode", 0, false};
    const char *path;
    void *handle;
    if (al_dl_open(paths, &handle, &path, NULL, 0) == 0)
        (void)al_dl_resolve(handle, &symbol, 1, &decode, &path);
}

static bool unpack(const unsigned char *in, size_t size, struct al_bytes *ret) {
    for (size_t room = 8 * size + 65536; room <= AL_XZ_MOST; room *= 4) {
        uint64_t memory = MEMORY_MOST;
        size_t in_at = 0, out_at = 0;
        unsigned char *out = malloc(room);
        if (!out)
            return false;
        int result = decode(&memory, 0, NULL, in, &in_at, size, out, &out_at, room);
        if (result == ENDED) {
            *ret = (struct al_bytes){-1, out, out_at};
            return true;
        }
        free(out);
        if (result != FULL)
            return false;
    }
    return false;
}

bool al_xz_debugdata(const struct al_bytes *file, struct al_bytes *ret) {
    Elf64_Shdr s;
    if (!al_bytes_section(file, SHT_PROGBITS, ".gnu_debugdata", &s, NULL) || !s.sh_size || s.sh_size > AL_XZ_MOST / 8)
        return false;
    pthread_once(&once, open_once);
    unsigned char *packed = decode ? malloc(s.sh_size) : NULL;
    bool ok = packed && al_bytes_read(file, s.sh_offset, packed, s.sh_size) && unpack(packed, s.sh_size, ret);
    free(packed);
    return ok;
}
