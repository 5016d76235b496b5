// SPDX-License-Identifier: Apache-2.0
// Line tables of code objects: which line an instruction belongs to. The tables are another process's bytes.
#ifndef AL_STACK_CORE_LINES_H
#define AL_STACK_CORE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack/core/layout.h"

#define AL_LINES_MOST (16u << 20) // bytes of a line table that are read; generated code has tables of more than 1 MiB

struct al_position {
    int32_t line, end_line;     // 0: none
    int32_t column, end_column; // bytes from 0; -1: none
};

// offset: of the instruction in bytes from the first one; negative: not begun (the first line). False: the table does
// not reach there, or is damaged: *ret is "none".
bool al_lines_find(enum al_lines_format format, const unsigned char *table, size_t size, int32_t first_line,
                   int64_t offset, struct al_position *ret);

#endif
