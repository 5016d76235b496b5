// SPDX-License-Identifier: Apache-2.0
// Names of users, each asked once: a directory service may answer slowly.
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "host/procfs.h"

// "name:x:1000:…" below the root, since the made tree's users are not this machine's.
static bool from_passwd(struct al_procfs *p, uid_t uid, char *out, size_t size) {
    ssize_t len = al_procfs_read(p, p->root_fd, "etc/passwd", p->scratch, AL_HOST_SCRATCH);
    if (len <= 0)
        return false;
    for (const char *line = p->scratch; *line;) {
        const char *end = strchrnul(line, '\n');
        const char *a = memchr(line, ':', (size_t)(end - line));
        const char *b = a ? memchr(a + 1, ':', (size_t)(end - a - 1)) : NULL;
        const char *c = b ? memchr(b + 1, ':', (size_t)(end - b - 1)) : NULL;
        char number[16];
        uint64_t value;
        if (c && a > line && al_str_copy_n(number, sizeof number, b + 1, (size_t)(c - b - 1)) &&
            al_str_u64(number, &value) && value == uid) {
            al_str_copy_n(out, size, line, (size_t)(a - line));
            return true;
        }
        line = *end ? end + 1 : end;
    }
    return false;
}

static bool from_system(uid_t uid, char *out, size_t size) {
    char buffer[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || !found || !found->pw_name[0])
        return false;
    al_str_copy(out, size, found->pw_name);
    return true;
}

const char *al_procfs_user(struct al_procfs *p, uid_t uid) {
    for (unsigned i = 0; i < p->user_count; i++)
        if (p->user[i].uid == uid)
            return p->user[i].name;
    unsigned at = p->user_count < AL_HOST_USERS ? p->user_count++ : p->user_next++ % AL_HOST_USERS;
    char *name = p->user[at].name;
    p->user[at].uid = uid;
    if (!(p->real_root ? from_system(uid, name, sizeof p->user[at].name)
                       : from_passwd(p, uid, name, sizeof p->user[at].name)))
        (void)snprintf(name, sizeof p->user[at].name, "%u", (unsigned)uid);
    return al_str_clean(name);
}
