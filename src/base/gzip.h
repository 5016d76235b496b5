// SPDX-License-Identifier: Apache-2.0
// gzip by zlib, which is opened with the first call.
#ifndef AL_BASE_GZIP_H
#define AL_BASE_GZIP_H

#include "base/buf.h"

// Replaces the content by its gzip form. False, and nothing changed, where zlib is missing or memory is out.
bool al_gzip(struct al_buf *b);

#endif
