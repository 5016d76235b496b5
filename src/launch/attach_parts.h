// SPDX-License-Identifier: Apache-2.0
// Between the files of attach.h.
#ifndef AL_LAUNCH_ATTACH_PARTS_H
#define AL_LAUNCH_ATTACH_PARTS_H

#include "base/buf.h"
#include "launch/attach.h"

#define AL_ATTACH_PROBE "libalula-probe.so" // its copy in the link's folder

struct al_place {
    bool foreign; // another root than alula's, or another user
    uid_t uid;
    gid_t gid;
    dev_t dev; // of its root
    ino_t ino;
    char mounts[64]; // its mount namespace
    char root[32];   // prefix to its root; "" when it is ours
};

int al_attach_find_place(pid_t pid, struct al_place *ret);
bool al_attach_same_place(const struct al_place *a, const struct al_place *b);
int al_attach_listen(struct al_attach *a, const struct al_link *link);

// attach_script.c. The line and the script that it runs into the link's folder; sets script_size, which the line holds.
int al_attach_put_scripts(struct al_attach *a, const struct al_link *link, const char *hook, const char *probe);
void al_attach_line(const struct al_attach *a, const struct al_link *link, struct al_buf *b);

#endif
