// SPDX-License-Identifier: Apache-2.0
// The mappings of a process, as far as an injection needs them, and reading its memory.
#ifndef AL_LAUNCH_INJECT_MAPS_H
#define AL_LAUNCH_INJECT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct al_map {
    uint64_t start, end;
    bool readable, executable, private, header; // header: begins with the first byte of a file
    bool python;                                // "python" is part of the file's name
};

struct al_maps {
    struct al_map *maps; // in order of addresses; only files' mappings
    size_t count, cap;
};

// Of /proc/PID/maps as text. AL_E_NOMEM, AL_E_FORMAT.
int al_maps_parse(struct al_maps *m, const char *text);
void al_maps_free(struct al_maps *m);
// The mapping that holds [address, address + size); NULL none.
const struct al_map *al_maps_find(const struct al_maps *m, uint64_t address, uint64_t size);
// al_elf_read_fn; user: const pid_t *.
bool al_memory_read(void *user, uint64_t address, void *out, size_t size);
bool al_memory_write(pid_t pid, uint64_t address, const void *bytes, size_t size);

#endif
