// SPDX-License-Identifier: Apache-2.0
// What libdw is given: it makes room for each register number that a table names, and for each state that a table sets
// aside. A table that asks for more than any compiler does is refused before libdw sees it.
#ifndef AL_UNWIND_CFI_CHECK_H
#define AL_UNWIND_CFI_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_CFI_REGISTERS 256u // aarch64's vector registers have the highest numbers
#define AL_CFI_STATES 64u     // set aside at once
#define AL_CFI_ENTRY_MOST 65536u

struct al_cfi_shape { // what an FDE takes from its CIE
    unsigned pointer; // bytes of an address; 0: not known
    bool augmented;
};

// An entry with its length in front; eh: of .eh_frame, else of .debug_frame.
bool al_cfi_cie_ok(const unsigned char *entry, size_t size, bool eh, struct al_cfi_shape *ret);
bool al_cfi_fde_ok(const unsigned char *entry, size_t size, const struct al_cfi_shape *shape);
// A whole section.
bool al_cfi_section_ok(const unsigned char *section, size_t size, bool eh);

#endif
