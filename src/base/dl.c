// SPDX-License-Identifier: Apache-2.0
#include "base/dl.h"

#include <dlfcn.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

int al_dl_open(const char *const *paths, void **ret_handle, const char **ret_path, char *error, size_t size) {
    if (size)
        error[0] = '\0';
    for (; *paths; paths++) {
        void *handle = dlopen(*paths, RTLD_NOW | RTLD_LOCAL);
        if (handle) {
            *ret_handle = handle;
            *ret_path = *paths;
            return 0;
        }
        const char *why = dlerror();
        if (size)
            (void)al_str_copy(error, size, why ? why : "unknown reason");
    }
    return AL_E_NOLIB;
}

int al_dl_resolve(void *handle, const struct al_dl_symbol *symbols, size_t count, void *table,
                  const char **ret_missing) {
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && symbols[i].required) {
            *ret_missing = symbols[i].name;
            return AL_E_NOSYM;
        }
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return 0;
}
