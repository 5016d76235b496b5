// SPDX-License-Identifier: Apache-2.0
#include "cli/move.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"

#define COPY_BYTES (1u << 20)

bool al_move_name(const char *folder, unsigned number, char *out, size_t size) {
    int len = number == 1 ? snprintf(out, size, "%s/run.alula", folder) : snprintf(out, size, "%s/run-%u.alula", folder, number);
    return len > 0 && (size_t)len < size;
}

static bool copy(int from, int to) {
    char *buffer = malloc(COPY_BYTES);
    ssize_t got = -1;
    bool good = buffer;
    while (good && (got = read(from, buffer, COPY_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        good = got > 0 && al_fs_write_all(to, buffer, (size_t)got);
    }
    int error = errno;
    free(buffer);
    errno = error;
    return good;
}

// The copy is whole before it has its name: beside the place, then renamed.
static int move_across(const char *from, const char *to) {
    char beside[4400];
    if (snprintf(beside, sizeof beside, "%s.%lld.tmp", to, (long long)getpid()) >= (int)sizeof beside) {
        errno = ENAMETOOLONG;
        return AL_E_TOOBIG;
    }
    int in = open(from, O_RDONLY | O_CLOEXEC), out = -1, error;
    bool good = in >= 0;
    if (good)
        good = (out = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)) >= 0;
    if (good)
        good = copy(in, out) && fsync(out) == 0; // `from` goes away
    error = errno;
    if (in >= 0)
        (void)close(in);
    if (out >= 0 && close(out) && good) {
        good = false;
        error = errno;
    }
    if (good && !(good = rename(beside, to) == 0))
        error = errno;
    if (good)
        (void)unlink(from);
    else if (out >= 0)
        (void)unlink(beside);
    errno = error;
    return good ? 0 : error == EACCES || error == EPERM || error == EROFS ? AL_E_DENIED : AL_E_IO;
}

int al_move_file(const char *from, const char *to) {
    // An empty file takes the name first, on every file system and for every other alula.
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno == EEXIST || errno == EACCES || errno == EPERM || errno == EROFS ? AL_E_DENIED : AL_E_IO;
    (void)close(fd);
    if (rename(from, to) == 0)
        return 0;
    int result = errno == EXDEV ? move_across(from, to) : AL_E_IO, error = errno;
    if (result)
        (void)unlink(to);
    errno = error;
    return result;
}

int al_move_numbered(const char *from, const char *folder, char *ret_path, size_t size) {
    int result = AL_E_DENIED;
    for (unsigned number = 1; number <= AL_MOVE_NUMBERS; number++) {
        if (!al_move_name(folder, number, ret_path, size))
            return AL_E_TOOBIG;
        result = al_move_file(from, ret_path);
        if (!result || errno != EEXIST)
            return result;
    }
    return result;
}
