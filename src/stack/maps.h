// SPDX-License-Identifier: Apache-2.0
// A process's mappings, as /proc/PID/maps lists them.
#ifndef AL_STACK_MAPS_H
#define AL_STACK_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct al_area {
    uint64_t start, end, offset, inode;
    bool readable, writable, executable;
    bool after_file; // nameless and right behind a file's mapping: its .bss
    uint32_t path;   // in texts; 0: none
};

struct al_areas {
    struct al_area *list;
    size_t count, cap;
    char *texts; // paths, as the target sees them
    size_t texts_len, texts_cap;
};

#define AL_AREAS_MOST 1000000u
#define AL_AREAS_BYTES (256u << 20)

int al_areas_read(struct al_areas *a, const char *procfs, pid_t pid); // AL_E_GONE, AL_E_DENIED, AL_E_NOMEM, AL_E_FORMAT
int al_areas_parse(struct al_areas *a, const char *text);
void al_areas_free(struct al_areas *a);
const char *al_area_path(const struct al_areas *a, const struct al_area *area); // "" none

#endif
