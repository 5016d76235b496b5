// SPDX-License-Identifier: Apache-2.0
// Unpacking .gnu_debugdata, the small symbol table that some distributions leave in stripped programs.
#ifndef AL_UNWIND_XZ_H
#define AL_UNWIND_XZ_H

#include "unwind/symbols.h"

#define AL_XZ_MOST (64u << 20) // bytes, packed or unpacked

// *ret: an ELF file in memory. False: no such section, liblzma is not here, or it is not what it should be.
bool al_xz_debugdata(const struct al_bytes *file, struct al_bytes *ret);

#endif
