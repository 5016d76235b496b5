// SPDX-License-Identifier: Apache-2.0
// Libraries opened at run time through a table of symbols, each needed or optional.
#ifndef AL_BASE_DL_H
#define AL_BASE_DL_H

#include <stdbool.h>
#include <stddef.h>

struct al_dl_symbol {
    const char *name;
    size_t offset; // of the function pointer in the caller's struct
    bool required;
};

// Opens the first of `paths` (NULL-ended) that loads; ret_path tells which (static pointer into paths). AL_E_NOLIB with
// the loader's message of the last try in error[size].
int al_dl_open(const char *const *paths, void **ret_handle, const char **ret_path, char *error, size_t size);
// Fills the function pointers of `table`. AL_E_NOSYM names the first missing required symbol in *ret_missing.
int al_dl_resolve(void *handle, const struct al_dl_symbol *symbols, size_t count, void *table,
                  const char **ret_missing);

#endif
