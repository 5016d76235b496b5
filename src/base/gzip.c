// SPDX-License-Identifier: Apache-2.0
#include "base/gzip.h"

#ifdef AL_HAVE_ZLIB

#include <limits.h>
#include <pthread.h>
#include <zlib.h>

#include "base/dl.h"

#define AL_ZLIB(X) X(deflateInit2_) X(deflateBound) X(deflate) X(deflateEnd)
struct zlib_table {
#define X(name) __typeof__(&name) name;
    AL_ZLIB(X)
#undef X
};

static struct zlib_table zlib;
static bool zlib_ready;

static void load_library(void) {
    static const char *const paths[] = {"libz.so.1", NULL};
    static const struct al_dl_symbol symbols[] = {
#define X(name) {#name, offsetof(struct zlib_table, name), true},
        AL_ZLIB(X)
#undef X
    };
    const char *path, *missing;
    char why[160];
    void *library;
    zlib_ready = al_dl_open(paths, &library, &path, why, sizeof why) == 0 &&
                 al_dl_resolve(library, symbols, sizeof symbols / sizeof *symbols, &zlib, &missing) == 0;
}

bool al_gzip(struct al_buf *b) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_library);
    z_stream z = {0};
    // Level 1: what is packed here repeats itself a lot; 15 + 16: the largest window, a gzip header.
    if (!zlib_ready || b->failed || !b->len || b->len > UINT_MAX / 2 ||
        zlib.deflateInit2_(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION, (int)sizeof z) != Z_OK)
        return false;
    struct al_buf out = AL_BUF_INIT;
    al_buf_pad(&out, 0, zlib.deflateBound(&z, b->len));
    bool ok = !out.failed;
    if (ok) {
        z.next_in = (Bytef *)b->data;
        z.avail_in = (uInt)b->len;
        z.next_out = (Bytef *)out.data;
        z.avail_out = (uInt)out.len;
        ok = zlib.deflate(&z, Z_FINISH) == Z_STREAM_END;
        out.len = z.total_out;
    }
    (void)zlib.deflateEnd(&z);
    if (!ok) {
        al_buf_free(&out);
        return false;
    }
    al_buf_free(b);
    *b = out;
    return true;
}

#else

bool al_gzip(struct al_buf *b) {
    (void)b;
    return false;
}

#endif
