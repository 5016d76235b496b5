// SPDX-License-Identifier: Apache-2.0
#include "unwind/elfutils.h"

#include <pthread.h>
#include <stdio.h>

#include "base/dl.h"
#include "base/err.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct al_elfutils table;
static int result;
static char why[256];

static const struct al_dl_symbol symbols[] = {
#define X(name) {#name, offsetof(struct al_elfutils, name), true},
    AL_ELFUTILS(X)
#undef X
};

static void open_once(void) {
    static const char *const paths[] = {"libdw.so.1", NULL};
    const char *path, *missing = "";
    void *handle;
    result = al_dl_open(paths, &handle, &path, why, sizeof why);
    if (result)
        return;
    result = al_dl_resolve(handle, symbols, sizeof symbols / sizeof *symbols, &table, &missing);
    if (result)
        snprintf(why, sizeof why, "it lacks %s", missing);
    else if (table.elf_version(EV_CURRENT) == EV_NONE) {
        result = AL_E_NOSYM;
        snprintf(why, sizeof why, "its libelf is of another version");
    }
}

int al_elfutils_open(const struct al_elfutils **ret, struct al_unwind_error *error) {
    pthread_once(&once, open_once);
    *ret = &table;
    if (!result)
        return 0;
    snprintf(error->text, sizeof error->text,
             "native frames need elfutils' libdw.so.1 (Debian, Ubuntu: apt install libdw1; Fedora, RHEL: dnf install "
             "elfutils-libs): %s",
             why);
    return AL_E_UNSUPPORTED;
}
