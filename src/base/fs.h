// SPDX-License-Identifier: Apache-2.0
// Reading small files below a root descriptor ("/" in life, a made tree in tests), whose links are not followed out of
// it; and what else is done with files in several places.
#ifndef AL_BASE_FS_H
#define AL_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Opens the root folder; negative al_error on failure.
int al_fs_root(const char *path, int *ret_fd);
// Reads a whole small file (relative to root_fd, no leading '/') into out[size] with a NUL behind; longer files are cut.
// Returns the number of bytes, or AL_E_NOENT / AL_E_DENIED / AL_E_GONE / AL_E_IO.
ssize_t al_fs_read(int root_fd, const char *path, char *out, size_t size);
ssize_t al_fs_readf(int root_fd, char *out, size_t size, const char *format, ...) __attribute__((format(printf, 4, 5)));
// The beginning of a file by its whole path, by one read as /proc gives it, with a NUL behind in any case; -1 with errno.
ssize_t al_fs_head(const char *path, char *out, size_t size);
// Yama's kernel.yama.ptrace_scope below a root, or (-1) of this machine; 0 where the kernel has none.
int al_fs_ptrace_scope(int root_fd);
// Target text of a symbolic link, likewise.
ssize_t al_fs_link(int root_fd, const char *path, char *out, size_t size);
int al_fs_u64(int root_fd, const char *path, uint64_t *ret);
// Reads a whole file by ordinary path into malloc'ed memory of at most max bytes (AL_E_TOOBIG beyond). NUL behind.
int al_fs_slurp(const char *path, size_t max, char **ret_data, size_t *ret_len);
// Makes a folder and those above it that are missing (mkdir -p). 0 also when it is there already.
int al_fs_make_folder(const char *path, mode_t mode);
// All of it, however often a signal or a full pipe cuts a write short; false with errno.
bool al_fs_write_all(int fd, const char *data, size_t len);
// Whether it lies on a network or FUSE file system, whose locks and shared memory cannot be relied on.
bool al_fs_remote(const char *path);

#endif
