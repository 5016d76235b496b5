// SPDX-License-Identifier: Apache-2.0
#include "launch/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "launch/attach_parts.h"

int al_attach_init(struct al_attach *a) {
    *a = (struct al_attach){.control_fd = -1};
    a->processes = calloc(AL_ATTACH_MOST, sizeof *a->processes);
    return a->processes ? 0 : AL_E_NOMEM;
}

void al_attach_free(struct al_attach *a) {
    for (uint32_t i = 0; i < a->count; i++)
        if (a->processes[i].fd >= 0)
            (void)close(a->processes[i].fd);
    if (a->control_fd >= 0)
        (void)close(a->control_fd);
    free(a->processes);
    *a = (struct al_attach){.control_fd = -1};
}

static void refuse(struct al_attach_process *p, int error, const char *why) {
    p->state = AL_ATTACH_REFUSED;
    p->error = error;
    if (why)
        (void)al_str_copy(p->why, sizeof p->why, why);
}

// All attached to at once share one folder.
static void find_place(struct al_attach *a, struct al_attach_process *p) {
    struct al_place place, first;
    int result = al_attach_find_place(p->pid, &place);
    if (result) {
        refuse(p, result, result == AL_E_GONE ? "the process has ended" : "its root folder cannot be reached");
        return;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->processes[i].state != AL_ATTACH_FOUND || al_attach_find_place(a->processes[i].pid, &first))
            continue;
        if (!al_attach_same_place(&first, &place))
            refuse(p, AL_E_UNSUPPORTED, "it is in another container or of another user than the first one: attach to it alone");
        return;
    }
    a->foreign = place.foreign;
    a->uid = place.uid;
    a->gid = place.gid;
    (void)al_str_copy(a->root, sizeof a->root, place.root);
}

int al_attach_add(struct al_attach *a, pid_t pid) {
    int root;
    if (a->count == AL_ATTACH_MOST)
        return AL_E_TOOBIG;
    int result = al_fs_root("/", &root);
    if (result)
        return result;
    struct al_attach_process *p = &a->processes[a->count];
    *p = (struct al_attach_process){.pid = pid, .fd = -1};
    result = al_inject_look(root, pid, &p->how, p->why, sizeof p->why);
    (void)close(root);
    if (result)
        refuse(p, result, NULL);
    else
        find_place(a, p);
    a->count++;
    return 0;
}

int al_attach_listen(struct al_attach *a, const struct al_link *link) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (snprintf(a->control, sizeof a->control, "%s/control", link->dir) >= (int)sizeof address.sun_path)
        return AL_E_TOOBIG;
    memcpy(address.sun_path, a->control, strlen(a->control) + 1);
    a->control_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->control_fd < 0 || bind(a->control_fd, (const struct sockaddr *)&address, sizeof address) ||
        listen(a->control_fd, AL_ATTACH_MOST)) // with a time limit of the job's own, connecting does not wait for room
        return AL_E_IO;
    return 0;
}

void al_attach_ask(struct al_attach *a, const struct al_link *link) {
    struct al_buf line = AL_BUF_INIT;
    char script[160];
    al_attach_line(a, link, &line);
    (void)snprintf(script, sizeof script, "%s/line.py", link->dir + strlen(a->root));
    for (uint32_t i = 0; i < a->count; i++) {
        struct al_attach_process *p = &a->processes[i];
        if (p->state != AL_ATTACH_FOUND)
            continue;
        int result = line.failed ? AL_E_NOMEM : al_inject(&p->how, line.data, script, p->why, sizeof p->why);
        if (result)
            refuse(p, result, *p->why ? NULL : al_error_text(result));
        else
            p->state = AL_ATTACH_ASKED;
    }
    al_buf_free(&line);
}

uint32_t al_attach_poll(const struct al_attach *a, struct pollfd *ret) {
    uint32_t count = 0;
    if (a->control_fd >= 0)
        ret[count++] = (struct pollfd){.fd = a->control_fd, .events = POLLIN};
    for (uint32_t i = 0; i < a->count; i++)
        if (a->processes[i].fd >= 0)
            ret[count++] = (struct pollfd){.fd = a->processes[i].fd, .events = POLLIN};
    return count;
}

// The kernel tells who connects.
static void accept_all(struct al_attach *a) {
    struct sockaddr_un from;
    socklen_t length = sizeof from;
    int fd;
    while (a->control_fd >= 0 && (fd = accept4(a->control_fd, (struct sockaddr *)&from, &length, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred who = {0};
        socklen_t size = sizeof who;
        length = sizeof from;
        struct al_attach_process *found = NULL;
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
        for (uint32_t i = 0; i < a->count && !found; i++)
            if (a->processes[i].pid == who.pid && a->processes[i].state == AL_ATTACH_ASKED && a->processes[i].fd < 0)
                found = &a->processes[i];
        if (found) {
            found->fd = fd;
            found->heard = true;
        } else {
            (void)close(fd);
        }
    }
}

// "there …", "no …" with the reason, "left …".
static void take_word(struct al_attach_process *p) {
    (void)al_str_clean(p->word);
    if (p->state == AL_ATTACH_ASKED && al_str_starts(p->word, "there")) {
        p->state = AL_ATTACH_THERE;
        al_inject_clean(&p->how); // the line has been run
    } else if (p->state == AL_ATTACH_ASKED && al_str_starts(p->word, "no ")) {
        refuse(p, AL_E_UNSUPPORTED, p->word + 3);
        al_inject_clean(&p->how);
    } else if (al_str_starts(p->word, "left")) {
        p->state = AL_ATTACH_LEFT;
    }
}

static void hear(struct al_attach_process *p) {
    ssize_t n = recv(p->fd, p->word, sizeof p->word - 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        p->word[n] = '\0';
        p->word[strcspn(p->word, "\n")] = '\0';
        take_word(p);
    }
    if (n > 0 && p->state != AL_ATTACH_REFUSED)
        return;
    if (p->state == AL_ATTACH_ASKED)
        refuse(p, AL_E_IO, "the hook could not be loaded");
    else if (p->state == AL_ATTACH_THERE || p->state == AL_ATTACH_LEAVING)
        p->state = AL_ATTACH_ENDED;
    (void)close(p->fd);
    p->fd = -1;
}

void al_attach_hear(struct al_attach *a) {
    accept_all(a);
    for (uint32_t i = 0; i < a->count; i++)
        if (a->processes[i].fd >= 0)
            hear(&a->processes[i]);
}

uint32_t al_attach_count(const struct al_attach *a, enum al_attach_state state) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->count; i++)
        count += a->processes[i].state == state;
    return count;
}

void al_attach_give_up(struct al_attach *a) {
    for (uint32_t i = 0; i < a->count; i++) {
        struct al_attach_process *p = &a->processes[i];
        if (p->state != AL_ATTACH_ASKED)
            continue;
        refuse(p, AL_E_TIMEOUT, NULL);
        if (p->fd >= 0)
            (void)close(p->fd);
        p->fd = -1;
    }
}

void al_attach_leave(struct al_attach *a) {
    al_attach_give_up(a);
    for (uint32_t i = 0; i < a->count; i++) {
        struct al_attach_process *p = &a->processes[i];
        if (p->state == AL_ATTACH_THERE) {
            (void)send(p->fd, "leave\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL);
            p->state = AL_ATTACH_LEAVING;
        }
    }
}
