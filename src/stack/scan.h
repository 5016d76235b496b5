// SPDX-License-Identifier: Apache-2.0
// Looking for the interpreter in the writable memory of a program's files, when no symbol or section names it.
#ifndef AL_STACK_SCAN_H
#define AL_STACK_SCAN_H

#include "stack/core/layout.h"
#include "stack/core/memory.h"
#include "stack/maps.h"

// The area (with the path of its file) that holds the cookie of 3.13 on; NULL: none.
const struct al_area *al_scan_cookie(const struct al_memory *m, const struct al_areas *a, uint64_t *ret_runtime);
// PY_VERSION_HEX by the version's text ("3.9.18") in the constants of the file that is mapped as `path`. 0: none.
uint32_t al_scan_version(const struct al_memory *m, const struct al_areas *a, const char *path);
// A place that is laid out as _PyRuntime of 3.8 to 3.12: its interpreter's first thread points back, and runs frames
// whose code objects have names. version: PY_VERSION_HEX when known, else 0.
const struct al_area *al_scan_runtime(const struct al_memory *m, const struct al_areas *a, uint32_t machine,
                                      uint32_t version, struct al_layout *ret, uint64_t *ret_runtime);

#endif
