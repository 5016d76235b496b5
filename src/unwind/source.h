// SPDX-License-Identifier: Apache-2.0
// Source lines by DWARF, of one file.
#ifndef AL_UNWIND_SOURCE_H
#define AL_UNWIND_SOURCE_H

#include "unwind/elfutils.h"
#include "unwind/symbols.h"

struct al_source {
    struct al_bytes file, alt_file; // alt: what several files share
    Elf *elf, *alt_elf;
    Dwarf *dwarf, *alt;
    Dwarf_CFI *frames; // .debug_frame
    bool frames_tried;
    bool info_ends; // the last text that stands in .debug_info itself ends there
};

// Opens l->file. False: no DWARF there, or more than is worth it.
bool al_source_begin(const struct al_elfutils *e, struct al_source *l);
// *ret_file is good while l lives. False: not known.
bool al_source_find(const struct al_elfutils *e, const struct al_source *l, uint64_t address, const char **ret_file, int *ret_line);
void al_source_free(const struct al_elfutils *e, struct al_source *l); // closes the files too

#endif
