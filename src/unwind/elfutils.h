// SPDX-License-Identifier: Apache-2.0
// What is used of elfutils, opened at run time: one library (libdw, which brings libelf).
#ifndef AL_UNWIND_ELFUTILS_H
#define AL_UNWIND_ELFUTILS_H

#include <elfutils/libdw.h>
#include <libelf.h>

#include "unwind/unwind.h"

#define AL_ELFUTILS(X)                                                                                                 \
    X(elf_version)                                                                                                     \
    X(elf_begin)                                                                                                       \
    X(elf_memory)                                                                                                      \
    X(elf_end)                                                                                                         \
    X(dwarf_begin_elf)                                                                                                 \
    X(dwarf_setalt)                                                                                                    \
    X(dwarf_end)                                                                                                       \
    X(dwarf_getcfi)                                                                                                    \
    X(dwarf_getcfi_elf)                                                                                                \
    X(dwarf_cfi_end)                                                                                                   \
    X(dwarf_cfi_addrframe)                                                                                             \
    X(dwarf_frame_info)                                                                                                \
    X(dwarf_frame_cfa)                                                                                                 \
    X(dwarf_frame_register)                                                                                            \
    X(dwarf_addrdie)                                                                                                   \
    X(dwarf_nextcu)                                                                                                    \
    X(dwarf_offdie)                                                                                                    \
    X(dwarf_haspc)                                                                                                     \
    X(dwarf_attr)                                                                                                      \
    X(dwarf_whatform)                                                                                                  \
    X(dwarf_getsrc_die)                                                                                                \
    X(dwarf_linesrc)                                                                                                   \
    X(dwarf_lineno)

struct al_elfutils {
#define X(name) __typeof__(&name) name;
    AL_ELFUTILS(X)
#undef X
};

// The same table for all callers; never closed. AL_E_UNSUPPORTED with the package that is missing.
int al_elfutils_open(const struct al_elfutils **ret, struct al_unwind_error *error);

#endif
