// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "model/event.h"
#include "probe/handover.h"
#include "ring/layout.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 // Linux 4.14
#endif

#define SECOND_NS ((int64_t)1000000000)
#define RETRY_FIRST_NS SECOND_NS
#define RETRY_MOST_NS (30 * SECOND_NS)
#define SAID_CODES 7
#define GATE_TRIES 500 // ms
#define SAID_MOST 512 // bytes of a description that is kept for a later collector

_Static_assert((int)AL_EVENT_TEXT == (int)AL_RING_TEXT, "the ring knows one kind by its number");

// All of the probe's memory but the ring. Only `gate`'s holder changes what is not atomic.
static struct {
    atomic_flag gate;
    _Atomic int ready;          // 1: the ring may be written
    _Atomic int inert;
    _Atomic(atomic_int *) alive; // a page that reads as 0 in a fork child
    _Atomic int64_t next_try_ns; // no look at the socket before
    int64_t retry_ns;
    struct al_ring_writer ring;
    uint64_t start_ticks;
    struct al_probe_fd memfd, socket;
    char path[108];
    _Atomic int64_t steps;
    _Atomic uint32_t ring_number; // raised when the ring is another one
    struct al_ring_record hello; // said again to a later collector; kind 0 none
    struct {
        uint16_t length;
        char bytes[SAID_MOST];
    } said[SAID_CODES];
} probe = {.gate = ATOMIC_FLAG_INIT, .memfd = {.fd = -1}, .socket = {.fd = -1}, .ring = {.fd = -1}};

static _Thread_local struct al_ring_lane *own_lane;
static _Thread_local uint32_t own_ring; // the number of the ring that own_lane belongs to
static _Thread_local int busy; // a mark inside a mark: from a signal handler or a hook of the host

static int64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void wipe_in_child(void) {
    atomic_int *alive = atomic_load(&probe.alive);
    if (alive)
        atomic_store(alive, 0);
}

// False only when this is a child of the process that started the probe.
static bool same_process(void) {
    atomic_int *alive = atomic_load_explicit(&probe.alive, memory_order_relaxed);
    return !alive || atomic_load_explicit(alive, memory_order_relaxed) == 1;
}

static bool make_alive_page(void) {
    if (atomic_load(&probe.alive))
        return true;
    void *page = mmap(NULL, AL_RING_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    // An older kernel knows no such page: then only fork() itself is seen, not a bare clone().
    if (madvise(page, AL_RING_PAGE, MADV_WIPEONFORK) != 0 && pthread_atfork(NULL, NULL, wipe_in_child) != 0) {
        (void)munmap(page, AL_RING_PAGE);
        return false;
    }
    atomic_int *alive = page;
    atomic_store(alive, 1);
    atomic_store(&probe.alive, alive);
    return true;
}

static struct al_ring_lane *claim_lane(void) {
    for (uint32_t i = 0; i < AL_RING_LANES; i++) { // lanes of threads that ended
        struct al_ring_lane *lane = &probe.ring.lanes[i];
        if (atomic_load(&lane->taken) &&
            syscall(SYS_tgkill, getpid(), (int)atomic_load(&lane->shared->tid), 0) != 0 && errno == ESRCH)
            al_ring_writer_release(lane);
    }
    return al_ring_writer_claim(&probe.ring, (int32_t)syscall(SYS_gettid));
}

// The calling thread's lane, claimed at its first mark. Claiming is serialised, since it also takes lanes from threads
// that ended; who finds the gate shut loses its record and tries again with the next.
static struct al_ring_lane *lane_of_thread(void) {
    if (own_lane && own_ring == atomic_load_explicit(&probe.ring_number, memory_order_relaxed))
        return own_lane;
    int error = errno;
    own_lane = NULL;
    if (!atomic_flag_test_and_set(&probe.gate)) {
        own_lane = claim_lane();
        own_ring = atomic_load(&probe.ring_number);
        atomic_flag_clear(&probe.gate);
    } else {
        al_ring_writer_lose(&probe.ring, 1);
    }
    errno = error;
    return own_lane;
}

// What a collector must know of the process, whenever it comes.
static void say_again(int64_t at_ns) {
    if (!own_lane || own_ring != atomic_load(&probe.ring_number)) {
        own_lane = claim_lane();
        own_ring = atomic_load(&probe.ring_number);
    }
    struct al_ring_lane *lane = own_lane;
    if (!lane)
        return;
    if (probe.hello.kind)
        (void)al_ring_writer_put(lane, &probe.hello);
    for (uint16_t code = 0; code < SAID_CODES; code++)
        if (probe.said[code].length > 0)
            (void)al_ring_writer_put_text(lane, at_ns, code, probe.said[code].bytes, probe.said[code].length);
}

static void try_connect(int64_t now) {
    bool again = atomic_load(&probe.ready);
    if (again && !al_probe_fd_ours(&probe.memfd)) {
        atomic_store(&probe.inert, 1); // the host has closed it
        return;
    }
    int fd = al_probe_connect(probe.path);
    if (fd >= 0 && !again && al_ring_writer_open(&probe.ring) == 0) {
        const struct al_ring_header *h = (const struct al_ring_header *)(const void *)probe.ring.base;
        probe.start_ticks = h->start_ticks;
        probe.memfd = al_probe_fd_take(probe.ring.fd);
        probe.ring.fd = probe.memfd.fd;
        atomic_store(&probe.ready, 1);
    }
    if (fd >= 0 && atomic_load(&probe.ready) && al_probe_greet(fd, probe.memfd.fd, probe.start_ticks) == 0) {
        probe.socket = al_probe_fd_take(fd);
        probe.retry_ns = RETRY_FIRST_NS;
        if (again)
            say_again(now);
    } else {
        if (fd >= 0)
            (void)close(fd);
        probe.retry_ns = probe.retry_ns * 2 < RETRY_MOST_NS ? probe.retry_ns * 2 : RETRY_MOST_NS;
    }
    atomic_store(&probe.next_try_ns, now + probe.retry_ns);
}

static bool start(void) {
    const char *path = getauxval(AT_SECURE) ? NULL : getenv("ALULA_SOCKET");
    if (!path || !path[0] || strlen(path) >= sizeof probe.path || !make_alive_page()) {
        atomic_store(&probe.inert, 1);
        return false;
    }
    memcpy(probe.path, path, strlen(path) + 1);
    probe.retry_ns = RETRY_FIRST_NS / 2;
    return true;
}

// At the first mark and at step boundaries, not more often than next_try_ns allows: looks whether the collector is
// there, and hands the ring over when one has come.
static void boundary(int64_t now) {
    if (now < atomic_load_explicit(&probe.next_try_ns, memory_order_relaxed))
        return;
    if (atomic_flag_test_and_set(&probe.gate))
        return;
    int error = errno;
    if (probe.path[0] || start()) {
        if (probe.socket.fd >= 0 && al_probe_fd_ours(&probe.socket) && al_probe_peer_there(probe.socket.fd)) {
            atomic_store(&probe.next_try_ns, now + SECOND_NS);
        } else {
            al_probe_fd_close(&probe.socket);
            try_connect(now);
        }
    }
    errno = error;
    atomic_flag_clear(&probe.gate);
}

// The lane to write to, NULL when there is nothing to do; leave() must follow either way.
static struct al_ring_lane *enter(int64_t now, bool at_boundary) {
    if (busy++ || atomic_load_explicit(&probe.inert, memory_order_relaxed) || !same_process())
        return NULL;
    bool ready = atomic_load_explicit(&probe.ready, memory_order_acquire);
    if (at_boundary || !ready) {
        boundary(now);
        ready = atomic_load_explicit(&probe.ready, memory_order_acquire);
    }
    return ready ? lane_of_thread() : NULL;
}

static void leave(void) {
    busy--;
}

int alula_probe_mark(uint32_t kind, uint32_t code, int32_t device, int64_t a, int64_t b) {
    struct al_ring_record record = {
        .at_ns = now_ns(), .kind = (uint16_t)kind, .code = (uint16_t)code, .device = device, .a = a, .b = b};
    if (kind == AL_RING_TEXT)
        return 0; // only with its bytes
    if (kind == AL_EVENT_HELLO && same_process())
        probe.hello = record;
    struct al_ring_lane *lane = enter(record.at_ns, kind == AL_EVENT_STEP || kind == AL_EVENT_HELLO);
    int written = lane && al_ring_writer_put(lane, &record);
    leave();
    return written;
}

int alula_probe_text(uint32_t code, const char *bytes, size_t length) {
    int64_t now = now_ns();
    bool kept = code == AL_TEXT_FRAMEWORK || code == AL_TEXT_OUTPUT_DIR || code == AL_TEXT_SOURCE ||
                code == AL_TEXT_ALLOCATOR;
    if (kept && same_process()) {
        probe.said[code].length = (uint16_t)(length < SAID_MOST ? length : SAID_MOST);
        memcpy(probe.said[code].bytes, bytes, probe.said[code].length);
    }
    struct al_ring_lane *lane = enter(now, false);
    int written = lane && al_ring_writer_put_text(lane, now, (uint16_t)code, bytes, length);
    leave();
    return written;
}

int alula_probe_turn(uint64_t turn) {
    int64_t now = now_ns();
    uint32_t end = (uint8_t)(turn >> AL_PROBE_TURN_END), begin = (uint8_t)(turn >> AL_PROBE_TURN_BEGIN);
    uint32_t state = (uint8_t)(turn >> AL_PROBE_TURN_STATE);
    int64_t step = atomic_load_explicit(&probe.steps, memory_order_relaxed) + 1;
    struct al_ring_record records[3];
    uint32_t count = 0;
    if (end)
        records[count++] = (struct al_ring_record){.at_ns = now,
                                                   .kind = AL_EVENT_PHASE_END,
                                                   .code = (uint16_t)(end - 1),
                                                   .device = -1,
                                                   .a = step,
                                                   .b = turn >> AL_PROBE_TURN_LOOP & 1};
    if (state) {
        records[count++] = (struct al_ring_record){.at_ns = now,
                                                   .kind = AL_EVENT_STEP,
                                                   .code = (uint16_t)(state - 1),
                                                   .device = -1,
                                                   .a = step,
                                                   .b = (int64_t)(uint32_t)(turn >> AL_PROBE_TURN_SAMPLES)};
        // One thread drives the loop; two that do so at once would only share a number.
        if ((state - 1 == AL_STEP_DONE || state - 1 == AL_STEP_SKIPPED) && same_process())
            atomic_store_explicit(&probe.steps, step++, memory_order_relaxed);
    }
    if (begin)
        records[count++] = (struct al_ring_record){
            .at_ns = now, .kind = AL_EVENT_PHASE_BEGIN, .code = (uint16_t)(begin - 1), .device = -1, .a = step};
    struct al_ring_lane *lane = enter(now, state != 0);
    int written = lane && al_ring_writer_put_all(lane, records, count);
    leave();
    return written;
}

int alula_probe_state(void) {
    if (!same_process())
        return AL_PROBE_INERT;
    return (atomic_load(&probe.ready) ? AL_PROBE_STARTED : 0) | (probe.socket.fd >= 0 ? AL_PROBE_CONNECTED : 0) |
           (atomic_load(&probe.inert) ? AL_PROBE_INERT : 0);
}

bool al_probe_introduced(void) {
    return probe.hello.kind == AL_EVENT_HELLO;
}

int64_t alula_probe_steps(void) {
    return atomic_load(&probe.steps);
}

bool al_probe_asked(void) {
    return atomic_load_explicit(&probe.ready, memory_order_acquire) && al_ring_writer_asked(&probe.ring) &&
           !atomic_load_explicit(&probe.inert, memory_order_relaxed) && same_process();
}

uint32_t alula_probe_request(void) {
    return al_probe_asked() ? al_ring_writer_requests(&probe.ring) & AL_REQUEST_ALL : 0;
}

void alula_probe_forked(void) {
    if (same_process())
        return;
    al_probe_fd_close(&probe.socket);
    al_probe_fd_close(&probe.memfd);
}

// Whoever is inside of a mark is soon out of it; a boundary's look at the socket is the longest.
static bool enter_gate(void) {
    for (int i = 0; i < GATE_TRIES; i++) {
        if (!atomic_flag_test_and_set(&probe.gate))
            return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

int alula_probe_attach(const char *path) {
    static atomic_int told;
    size_t length = path ? strlen(path) : 0;
    if (!length || length >= sizeof probe.path || getauxval(AT_SECURE) || !enter_gate())
        return 0;
    if (!same_process()) // a fork child that is attached to by itself
        atomic_store(atomic_load(&probe.alive), 1);
    atomic_store(&probe.inert, 1);
    if (atomic_exchange(&probe.ready, 0)) { // of an earlier attach: nobody has written to it for long
        al_probe_fd_close(&probe.socket);
        al_probe_fd_close(&probe.memfd);
        probe.ring.fd = -1;
        al_ring_writer_close(&probe.ring);
    }
    atomic_fetch_add(&probe.ring_number, 1);
    memcpy(probe.path, path, length + 1);
    probe.retry_ns = RETRY_FIRST_NS / 2;
    probe.hello.kind = 0;
    memset(probe.said, 0, sizeof probe.said);
    atomic_store(&probe.steps, 0);
    atomic_store(&probe.next_try_ns, 0);
    bool fine = make_alive_page();
    if (fine && !atomic_exchange(&told, 1))
        (void)pthread_atfork(NULL, NULL, alula_probe_forked);
    atomic_store(&probe.inert, !fine);
    atomic_flag_clear(&probe.gate);
    return fine;
}

// The mapping stays, without memory behind it: a thread may just be writing to it.
void alula_probe_detach(void) {
    if (!same_process() || !enter_gate())
        return;
    atomic_store(&probe.inert, 1);
    al_probe_fd_close(&probe.socket);
    if (al_probe_fd_ours(&probe.memfd))
        al_probe_fd_empty(&probe.memfd, probe.ring.size);
    al_probe_fd_close(&probe.memfd);
    atomic_flag_clear(&probe.gate);
}
