// SPDX-License-Identifier: Apache-2.0
#include "stack/remote.h"

#include <errno.h>
#include <sys/uio.h>

#include "base/err.h"

#define BATCH 1024u // IOV_MAX of Linux
#define SPENT_MOST (1u << 22) // 2 to 4 s
#define UNIT 4096

// Neighbours in the buffer are one piece here.
static size_t local_pieces(const struct al_piece *pieces, size_t count, char *buffer, struct iovec *own) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        char *at = buffer + pieces[i].at;
        if (n && (char *)own[n - 1].iov_base + own[n - 1].iov_len == at)
            own[n - 1].iov_len += pieces[i].size;
        else
            own[n++] = (struct iovec){at, pieces[i].size};
    }
    return n;
}

static size_t complete(const struct al_piece *pieces, size_t count, ssize_t bytes) {
    size_t i = 0;
    for (; i < count && bytes >= (ssize_t)pieces[i].size; i++)
        bytes -= (ssize_t)pieces[i].size;
    return i;
}

size_t al_remote_gather(void *user, const struct al_piece *pieces, size_t count, void *buffer) {
    struct al_remote *r = user;
    struct iovec own[BATCH], other[BATCH];
    for (size_t done = 0; done < count;) {
        if (r->spent > SPENT_MOST)
            return done;
        size_t n = count - done < BATCH ? count - done : BATCH;
        for (size_t i = 0; i < n; i++)
            other[i] = (struct iovec){(void *)(uintptr_t)pieces[done + i].address, pieces[done + i].size};
        size_t locals = local_pieces(pieces + done, n, buffer, own);
        ssize_t bytes = process_vm_readv(r->pid, own, locals, other, n, 0);
        r->reads++;
        r->spent += 1 + (uint32_t)(bytes > 0 ? bytes / UNIT : 0);
        if (bytes < 0) {
            if (errno != EFAULT)
                r->error = errno;
            return done;
        }
        size_t whole = complete(pieces + done, n, bytes);
        if (whole < n)
            return done + whole;
        done += n;
    }
    return count;
}

int al_remote_error(const struct al_remote *r) {
    switch (r->error) {
    case ESRCH: return AL_E_GONE;
    case EPERM: return AL_E_DENIED;
    case ENOMEM: return AL_E_NOMEM;
    default: return AL_E_FORMAT;
    }
}
