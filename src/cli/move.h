// SPDX-License-Identifier: Apache-2.0
// A finished file's way into a folder, across file systems too, over nothing that is there.
#ifndef AL_CLI_MOVE_H
#define AL_CLI_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#define AL_MOVE_NUMBERS 9999

// FOLDER/run.alula for 1, FOLDER/run-N.alula for others. False when it does not fit.
bool al_move_name(const char *folder, unsigned number, char *out, size_t size);
// 0, AL_E_DENIED when `to` exists, AL_E_IO and the like (errno tells more); `from` is then left.
int al_move_file(const char *from, const char *to);
// To the first such name that is free, which *ret_path gets.
int al_move_numbered(const char *from, const char *folder, char *ret_path, size_t size);

#endif
