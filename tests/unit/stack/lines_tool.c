// SPDX-License-Identifier: Apache-2.0
// lines-tool FORMAT: for each line "FIRST BYTES HEX" of its input (format 0, 1, 2 as enum al_lines_format; HEX "-":
// empty) the positions of the instructions at 0, 2, ... below BYTES, as "line,end_line,column,end_column ...".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack/core/lines.h"

static int nibble(char c) {
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

int main(int argc, char **argv) {
    char *text = NULL;
    size_t cap = 0;
    enum al_lines_format format = (enum al_lines_format)(argc > 1 ? atoi(argv[1]) : 0);
    while (getline(&text, &cap, stdin) > 0) {
        char *at;
        long first = strtol(text, &at, 10), bytes = strtol(at, &at, 10);
        at++;
        size_t length = *at == '-' ? 0 : strcspn(at, "\n") / 2;
        unsigned char *table = malloc(length + 1);
        for (size_t i = 0; i < length; i++)
            table[i] = (unsigned char)(nibble(at[2 * i]) << 4 | nibble(at[2 * i + 1]));
        for (long offset = 0; offset < bytes; offset += 2) {
            struct al_position p;
            (void)al_lines_find(format, table, length, (int32_t)first, offset, &p);
            printf("%d,%d,%d,%d ", (int)p.line, (int)p.end_line, (int)p.column, (int)p.end_column);
        }
        putchar('\n');
        free(table);
    }
    free(text);
    return 0;
}
