// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/calls.h"
#include "ring/layout.h"

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

static int64_t clock_ns(clockid_t clock) {
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Field 22 of /proc/self/stat, counted from behind the command's name, which may hold spaces and parentheses; 0 when
// there is no procfs.
static uint64_t start_ticks(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (!p)
        return 0;
    uint64_t ticks = 0;
    for (p++; *p >= '0' && *p <= '9'; p++)
        ticks = ticks * 10 + (uint64_t)(*p - '0');
    return ticks;
}

static void fill_header(struct al_ring_writer *w) {
    struct al_ring_header *h = (struct al_ring_header *)(void *)w->base;
    h->version = AL_RING_VERSION;
    h->features = AL_RING_REQUESTS;
    h->lanes = AL_RING_LANES;
    h->records = AL_RING_RECORDS;
    h->record_bytes = sizeof(struct al_ring_record);
    h->pid = (int32_t)getpid();
    h->start_ticks = start_ticks();
    h->monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    h->realtime_ns = clock_ns(CLOCK_REALTIME);
    memcpy(h->magic, AL_RING_MAGIC, sizeof AL_RING_MAGIC);
}

int al_ring_writer_open(struct al_ring_writer *w) {
    *w = (struct al_ring_writer){.fd = -1};
    // By number: glibc has the function since 2.27 only.
    int fd = (int)syscall(SYS_memfd_create, "alula-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    size_t size = al_ring_size(AL_RING_LANES, AL_RING_RECORDS);
    void *base = MAP_FAILED;
    if (ftruncate(fd, (off_t)size) == 0 && al_ring_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    *w = (struct al_ring_writer){.fd = fd, .base = base, .size = size};
    for (uint32_t i = 0; i < AL_RING_LANES; i++) {
        w->lanes[i].shared = (struct al_ring_indices *)(void *)(w->base + al_ring_indices_offset(i));
        w->lanes[i].records =
            (struct al_ring_record *)(void *)(w->base + al_ring_records_offset(AL_RING_LANES, AL_RING_RECORDS, i));
    }
    fill_header(w);
    return 0;
}

void al_ring_writer_close(struct al_ring_writer *w) {
    if (w->base)
        (void)munmap(w->base, w->size);
    if (w->fd >= 0)
        (void)close(w->fd);
    *w = (struct al_ring_writer){.fd = -1};
}

struct al_ring_lane *al_ring_writer_claim(struct al_ring_writer *w, int32_t tid) {
    for (uint32_t i = 0; w->base && i < AL_RING_LANES; i++) {
        uint32_t expected = 0;
        if (atomic_compare_exchange_strong_explicit(&w->lanes[i].taken, &expected, 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&w->lanes[i].shared->tid, tid, memory_order_relaxed);
            return &w->lanes[i];
        }
    }
    al_ring_writer_lose(w, 1);
    return NULL;
}

void al_ring_writer_release(struct al_ring_lane *lane) {
    if (lane)
        atomic_store_explicit(&lane->taken, 0, memory_order_release);
}

void al_ring_writer_lose(struct al_ring_writer *w, uint64_t records) {
    if (!w->base)
        return;
    struct al_ring_header *h = (struct al_ring_header *)(void *)w->base;
    atomic_fetch_add_explicit(&h->lost, records, memory_order_relaxed);
}

// True when count records fit. A tail that the reader has spoilt makes the lane look full, never larger. The line of
// memory that the reader writes to is looked at only when the tail last seen leaves no room.
static bool lane_room(struct al_ring_lane *lane, uint32_t count) {
    uint64_t used = lane->head - lane->tail;
    if (used <= AL_RING_RECORDS && count <= AL_RING_RECORDS - used)
        return true;
    lane->tail = atomic_load_explicit(&lane->shared->tail, memory_order_acquire);
    used = lane->head - lane->tail;
    if (used <= AL_RING_RECORDS && count <= AL_RING_RECORDS - used)
        return true;
    lane->lost += count;
    atomic_store_explicit(&lane->shared->lost, lane->lost, memory_order_relaxed);
    return false;
}

static void lane_set(struct al_ring_lane *lane, uint32_t ahead, const struct al_ring_record *record) {
    lane->records[(lane->head + ahead) & (AL_RING_RECORDS - 1)] = *record;
}

static void lane_publish(struct al_ring_lane *lane, uint32_t count) {
    lane->head += count;
    atomic_store_explicit(&lane->shared->head, lane->head, memory_order_release);
}

bool al_ring_writer_put(struct al_ring_lane *lane, const struct al_ring_record *record) {
    return al_ring_writer_put_all(lane, record, 1);
}

bool al_ring_writer_put_all(struct al_ring_lane *lane, const struct al_ring_record *records, uint32_t count) {
    if (!lane_room(lane, count))
        return false;
    for (uint32_t i = 0; i < count; i++)
        lane_set(lane, i, &records[i]);
    lane_publish(lane, count);
    return true;
}

bool al_ring_writer_put_text(struct al_ring_lane *lane, int64_t at_ns, uint16_t code, const char *bytes,
                             size_t length) {
    if (length > AL_RING_TEXT_MAX)
        length = AL_RING_TEXT_MAX;
    uint32_t count = 1 + al_ring_text_records(length);
    if (!lane_room(lane, count))
        return false;
    struct al_ring_record head = {
        .at_ns = at_ns, .kind = AL_RING_TEXT, .code = code, .device = -1, .a = (int64_t)length};
    lane_set(lane, 0, &head);
    for (uint32_t i = 1; i < count; i++) {
        size_t done = (size_t)(i - 1) * sizeof head, left = length - done;
        struct al_ring_record part = {0};
        memcpy(&part, bytes + done, left < sizeof part ? left : sizeof part);
        lane_set(lane, i, &part);
    }
    lane_publish(lane, count);
    return true;
}

bool al_ring_writer_asked(const struct al_ring_writer *w) {
    struct al_ring_header *h = (struct al_ring_header *)(void *)w->base;
    return h && atomic_load_explicit(&h->request, memory_order_relaxed) != 0;
}

uint32_t al_ring_writer_requests(struct al_ring_writer *w) {
    struct al_ring_header *h = (struct al_ring_header *)(void *)w->base;
    return al_ring_writer_asked(w) ? atomic_exchange_explicit(&h->request, 0, memory_order_acquire) : 0;
}
