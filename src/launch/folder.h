// SPDX-License-Identifier: Apache-2.0
// alula's own small folders in places that others can write to: by descriptors, no link is followed.
#ifndef AL_LAUNCH_FOLDER_H
#define AL_LAUNCH_FOLDER_H

#include <stddef.h>
#include <sys/types.h>

// Removes what lies in the folder, and in folders therein, three deep.
void al_folder_clear(int dir_fd);
// Makes the file `name` in it. AL_E_IO (errno), AL_E_NOENT.
int al_folder_write(int dir_fd, const char *name, const char *bytes, size_t length, mode_t mode);
int al_folder_copy(int dir_fd, const char *name, const char *from, mode_t mode);
// Makes it, and what lies in it, another user's.
int al_folder_give(int dir_fd, uid_t uid, gid_t gid);

#endif
