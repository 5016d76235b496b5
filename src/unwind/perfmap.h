// SPDX-License-Identifier: Apache-2.0
// Perf maps: /tmp/perf-PID.map, in which programs name code that they make at run time. A line a function,
// "START SIZE NAME" with hexadecimal numbers; later lines are valid where they overlap earlier ones.
#ifndef AL_UNWIND_PERFMAP_H
#define AL_UNWIND_PERFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AL_PERF_MAP_BYTES (128u << 20) // that are read of one
#define AL_PERF_MAP_MOST 4000000u      // lines that are kept

struct al_perf_entry {
    uint64_t start;
    uint32_t size, order;
    uint32_t name, length; // in text
};

struct al_perf_map {
    struct al_perf_entry *list; // by start, then order
    uint32_t count, cap, order;
    char *text;
    size_t text_len, text_cap;
    uint64_t read; // bytes of the file; what follows the last whole line is read again
    bool sorted;
};

// Reads what has come since. *ret_changed: there is more, or other. False: no such file, or another user's.
bool al_perf_map_read(struct al_perf_map *m, const char *procfs, pid_t pid, bool *ret_changed);
// Takes the whole lines of a piece; returns how many bytes those were.
size_t al_perf_map_parse(struct al_perf_map *m, const char *text, size_t size);
// NULL: none there. Its name is m->text + name, of `length` bytes.
const struct al_perf_entry *al_perf_map_find(struct al_perf_map *m, uint64_t address);
void al_perf_map_free(struct al_perf_map *m);

#endif
