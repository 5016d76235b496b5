// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a whole message, for comparing secrets of any length in constant time.
#ifndef AL_SERVE_SHA256_H
#define AL_SERVE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_SHA256_SIZE 32

void al_sha256(const void *data, size_t len, uint8_t ret[AL_SHA256_SIZE]);
// Takes as long whatever the bytes are.
bool al_sha256_equal(const uint8_t a[AL_SHA256_SIZE], const uint8_t b[AL_SHA256_SIZE]);
// 64 hexadecimal digits, of either case; false for anything else.
bool al_sha256_from_hex(const char *text, uint8_t ret[AL_SHA256_SIZE]);

#endif
