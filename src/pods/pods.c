// SPDX-License-Identifier: Apache-2.0
#include "pods/pods.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "pods/h2.h"
#include "pods/list.h"

#define SECOND INT64_C(1000000000)
#define ASK_NS (15 * SECOND)
#define ANSWER_NS (10 * SECOND) // for an answer; at least STEPS ticks, however far apart
#define KEEP_NS (60 * SECOND)
enum { STEPS = 3, READ_MAX = 16 }; // READ_MAX: pieces of 16 KiB read in one tick

struct al_pods {
    struct al_sink sink; // first
    struct sockaddr_un address;
    int fd; // -1: no call under way
    struct al_h2 call;
    int64_t asked_ns; // 0: never
    int steps;
    struct al_pod_use *fresh; // AL_POD_USES_MAX, being decoded

    pthread_mutex_t lock; // of what follows
    struct al_pod_use *uses;
    size_t count;
    int64_t answered_ns; // 0: never
    bool up;
};

static void hang_up(struct al_pods *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    al_h2_free(&p->call);
    p->call = (struct al_h2){.settings = false};
}

static void answered(struct al_pods *p, size_t count, int64_t now) {
    struct al_pod_use *old = p->uses;
    pthread_mutex_lock(&p->lock);
    p->uses = p->fresh;
    p->count = count;
    p->answered_ns = now;
    p->up = true;
    pthread_mutex_unlock(&p->lock);
    p->fresh = old;
}

static void failed(struct al_pods *p) {
    pthread_mutex_lock(&p->lock);
    p->up = false;
    pthread_mutex_unlock(&p->lock);
}

static int call(struct al_pods *p) {
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&p->address, sizeof p->address))
        return AL_E_IO; // EAGAIN among them: the kubelet's queue is full; asked again later
    al_h2_start(&p->call, "/v1.PodResourcesLister/List");
    return 0;
}

static int send_out(struct al_pods *p) {
    struct al_buf *out = &p->call.out;
    if (out->failed)
        return AL_E_NOMEM;
    if (!out->len)
        return 0;
    ssize_t n = send(p->fd, out->data, out->len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : AL_E_IO;
    memmove(out->data, out->data + n, out->len - (size_t)n);
    out->len -= (size_t)n;
    return 0;
}

// 0: the answer is whole; AL_E_AGAIN.
static int read_in(struct al_pods *p) {
    char piece[16384];
    for (int i = 0; i < READ_MAX; i++) {
        ssize_t n = recv(p->fd, piece, sizeof piece, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? AL_E_AGAIN : AL_E_IO;
        if (n == 0)
            return AL_E_IO;
        int result = al_h2_take(&p->call, piece, (size_t)n);
        if (result != AL_E_AGAIN)
            return result;
    }
    return AL_E_AGAIN;
}

static int step(struct al_pods *p, int64_t now) {
    int result = send_out(p);
    if (!result)
        result = read_in(p);
    if (result == AL_E_AGAIN) // acknowledgements need not wait for the next tick
        return send_out(p) ? AL_E_IO : ++p->steps > STEPS && now - p->asked_ns > ANSWER_NS ? AL_E_TIMEOUT : AL_E_AGAIN;
    if (result)
        return result;
    size_t count;
    result = al_pods_decode(p->call.message.data + 5, p->call.message.len - 5, p->fresh, AL_POD_USES_MAX, &count);
    if (!result)
        answered(p, count, now);
    return result;
}

static int on_tick(struct al_sink *sink, const struct al_snapshot *s) {
    struct al_pods *p = (struct al_pods *)sink;
    int64_t now = al_monotonic_ns(); // not the snapshot's: a played session has a clock of its own
    int result = 0;
    (void)s;
    if (p->fd < 0) {
        if (p->asked_ns && now - p->asked_ns < ASK_NS)
            return 0;
        p->asked_ns = now;
        p->steps = 0;
        result = call(p);
    }
    if (!result)
        result = step(p, now);
    if (result == AL_E_AGAIN)
        return 0;
    hang_up(p);
    if (result)
        failed(p);
    return 0; // no session ends for a kubelet
}

static const struct al_sink_ops ops = {.name = "pods", .tick = on_tick};

int al_pods_new(const char *socket, struct al_pods **ret) {
    struct al_pods *p = calloc(1, sizeof *p);
    *ret = NULL;
    if (!p)
        return AL_E_NOMEM;
    p->sink.ops = &ops;
    p->fd = -1;
    p->address.sun_family = AF_UNIX;
    pthread_mutex_init(&p->lock, NULL);
    p->uses = calloc(AL_POD_USES_MAX, sizeof *p->uses);
    p->fresh = calloc(AL_POD_USES_MAX, sizeof *p->fresh);
    bool fits = al_str_copy(p->address.sun_path, sizeof p->address.sun_path, socket);
    if (!fits || !p->uses || !p->fresh) {
        al_pods_free(p);
        return fits ? AL_E_NOMEM : AL_E_INVALID;
    }
    *ret = p;
    return 0;
}

struct al_sink *al_pods_sink(struct al_pods *p) {
    return &p->sink;
}

size_t al_pods_read(void *pods, struct al_pod_use *ret, size_t max, bool *ret_up) {
    struct al_pods *p = pods;
    size_t count = 0;
    pthread_mutex_lock(&p->lock);
    *ret_up = p->up;
    if (p->answered_ns && al_monotonic_ns() - p->answered_ns < KEEP_NS)
        count = p->count < max ? p->count : max;
    memcpy(ret, p->uses, count * sizeof *ret);
    pthread_mutex_unlock(&p->lock);
    return count;
}

struct al_pods *al_pods_free(struct al_pods *p) {
    if (!p)
        return NULL;
    hang_up(p);
    pthread_mutex_destroy(&p->lock);
    free(p->uses);
    free(p->fresh);
    free(p);
    return NULL;
}
