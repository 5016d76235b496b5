// SPDX-License-Identifier: Apache-2.0
// Columns of numbers as bytes that compress well. Pure.
#ifndef AL_STORE_COLUMN_H
#define AL_STORE_COLUMN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct al_bytes {
    const uint8_t *p, *end;
};

void al_put_varint(struct al_buf *b, uint64_t v);
int al_get_varint(struct al_bytes *in, uint64_t *ret); // AL_E_FORMAT at the end or beyond 64 bits
uint64_t al_zigzag(int64_t v);
int64_t al_unzigzag(uint64_t v);

// Integers: differences of order 0, 1 or 2 (whichever is smallest), zigzag, in byte planes. AL_E_NOMEM.
int al_column_put(struct al_buf *b, const int64_t *v, uint32_t count);
int al_column_get(struct al_bytes *in, int64_t *ret, uint32_t count);
// Doubles, exactly: as integers where a decimal scale and a common divisor allow, else XOR with the one before.
int al_numbers_put(struct al_buf *b, const double *v, uint32_t count);
int al_numbers_get(struct al_bytes *in, double *ret, uint32_t count);

#endif
