// SPDX-License-Identifier: Apache-2.0
// Everything in the mapping is the watched process's to change at any moment: each value is copied once, then checked,
// then used. Sizes and the place of every record are the reader's own; only head, tid and the counters are read again.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/layout.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

// Bounds of what another version of the writer may lay out: 256 MiB of address space at most.
#define LANES_MAX 256u
#define RECORDS_MIN 64u
#define SIZE_MAX_BYTES ((size_t)256 << 20)

struct al_ring_reader {
    int fd;
    uint8_t *base;
    size_t size;
    uint32_t lanes, records;
    struct al_ring_origin origin;
    uint64_t skipped;        // damaged records
    uint64_t lost_seen;      // largest sum of the writer's counters
    uint64_t tail[LANES_MAX]; // the reader's own; the shared ones only tell the writer
    char text[AL_RING_TEXT_MAX + 1];
};

static int check_fd(int fd, size_t *ret_size) {
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return -EPERM; // it could be cut under the mapping: SIGBUS
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (st.st_size < (off_t)al_ring_size(1, RECORDS_MIN) || (uint64_t)st.st_size > SIZE_MAX_BYTES)
        return -EPROTO;
    *ret_size = (size_t)st.st_size;
    return 0;
}

static int take_header(struct al_ring_reader *r) {
    struct al_ring_header h;
    memcpy(&h, r->base, sizeof h);
    bool known = memcmp(h.magic, AL_RING_MAGIC, sizeof AL_RING_MAGIC) == 0 && h.version == AL_RING_VERSION &&
                 h.record_bytes == sizeof(struct al_ring_record);
    bool sane = h.lanes >= 1 && h.lanes <= LANES_MAX && h.records >= RECORDS_MIN && (h.records & (h.records - 1)) == 0 &&
                h.records <= SIZE_MAX_BYTES / sizeof(struct al_ring_record);
    if (!known || !sane || al_ring_size(h.lanes, h.records) > r->size)
        return -EPROTO;
    r->lanes = h.lanes;
    r->records = h.records;
    r->origin = (struct al_ring_origin){.version = h.version,
                                        .features = h.features,
                                        .pid = h.pid,
                                        .start_ticks = h.start_ticks,
                                        .monotonic_ns = h.monotonic_ns,
                                        .realtime_ns = h.realtime_ns};
    return 0;
}

static struct al_ring_indices *indices_of(const struct al_ring_reader *r, uint32_t lane) {
    return (struct al_ring_indices *)(void *)(r->base + al_ring_indices_offset(lane));
}

int al_ring_reader_open(int fd, struct al_ring_reader **ret) {
    *ret = NULL;
    size_t size = 0;
    int rc = check_fd(fd, &size);
    if (rc != 0)
        return rc;
    struct al_ring_reader *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->fd = -1;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        rc = -errno;
        (void)al_ring_reader_free(r);
        return rc;
    }
    r->base = base;
    r->size = size;
    rc = take_header(r);
    if (rc != 0) {
        (void)al_ring_reader_free(r);
        return rc;
    }
    // A collector that comes later goes on where the last one stopped; what it says is checked in drain.
    for (uint32_t i = 0; i < r->lanes; i++)
        r->tail[i] = atomic_load_explicit(&indices_of(r, i)->tail, memory_order_relaxed);
    r->fd = fd;
    *ret = r;
    return 0;
}

struct al_ring_reader *al_ring_reader_free(struct al_ring_reader *r) {
    if (!r)
        return NULL;
    if (r->base)
        (void)munmap(r->base, r->size);
    if (r->fd >= 0)
        (void)close(r->fd);
    free(r);
    return NULL;
}

const struct al_ring_origin *al_ring_reader_origin(const struct al_ring_reader *r) {
    return &r->origin;
}

static struct al_ring_record record_at(const struct al_ring_reader *r, uint32_t lane, uint64_t index) {
    struct al_ring_record record;
    size_t offset = al_ring_records_offset(r->lanes, r->records, lane) + (index & (r->records - 1)) * sizeof record;
    memcpy(&record, r->base + offset, sizeof record);
    return record;
}

// Fills r->text from the records behind the one at index. False when the length can't be true.
static bool take_text(struct al_ring_reader *r, uint32_t lane, uint64_t index, uint64_t head, struct al_ring_item *item) {
    int64_t length = item->record.a;
    if (length < 0 || length > (int64_t)AL_RING_TEXT_MAX || al_ring_text_records((size_t)length) > head - index - 1)
        return false;
    for (size_t done = 0; done < (size_t)length; done += sizeof(struct al_ring_record)) {
        struct al_ring_record part = record_at(r, lane, ++index);
        size_t left = (size_t)length - done;
        memcpy(r->text + done, &part, left < sizeof part ? left : sizeof part);
    }
    r->text[length] = '\0';
    item->text = r->text;
    item->text_length = (uint32_t)length;
    return true;
}

static size_t drain_lane(struct al_ring_reader *r, uint32_t lane, void (*fn)(void *user, const struct al_ring_item *item),
                         void *user) {
    struct al_ring_indices *shared = indices_of(r, lane);
    uint64_t head = atomic_load_explicit(&shared->head, memory_order_acquire);
    uint64_t tail = r->tail[lane];
    size_t count = 0;
    if (head - tail > r->records) { // the head ran back, or one of the two is a lie
        r->skipped += r->records;
        tail = head;
    }
    int32_t tid = atomic_load_explicit(&shared->tid, memory_order_relaxed);
    while (tail != head) {
        struct al_ring_item item = {.record = record_at(r, lane, tail), .lane = lane, .tid = tid};
        if (item.record.kind == AL_RING_TEXT && !take_text(r, lane, tail, head, &item)) {
            r->skipped += head - tail; // where the next record begins is unknown
            tail = head;
            break;
        }
        fn(user, &item);
        count++;
        tail += 1 + (item.text ? al_ring_text_records(item.text_length) : 0);
    }
    r->tail[lane] = tail;
    atomic_store_explicit(&shared->tail, tail, memory_order_release);
    return count;
}

size_t al_ring_reader_drain(struct al_ring_reader *r, void (*fn)(void *user, const struct al_ring_item *item),
                            void *user) {
    size_t count = 0;
    for (uint32_t lane = 0; lane < r->lanes; lane++)
        count += drain_lane(r, lane, fn, user);
    struct al_ring_header *h = (struct al_ring_header *)(void *)r->base;
    uint64_t lost = atomic_load_explicit(&h->lost, memory_order_relaxed);
    for (uint32_t lane = 0; lane < r->lanes; lane++)
        lost += atomic_load_explicit(&indices_of(r, lane)->lost, memory_order_relaxed);
    if (lost > r->lost_seen)
        r->lost_seen = lost;
    return count;
}

size_t al_ring_reader_bytes(const struct al_ring_reader *r) {
    struct stat st;
    return fstat(r->fd, &st) == 0 && st.st_blocks > 0 ? (size_t)st.st_blocks * 512 : 0;
}

bool al_ring_reader_ask(struct al_ring_reader *r, uint32_t bits) {
    struct al_ring_header *h = (struct al_ring_header *)(void *)r->base;
    if (!(r->origin.features & AL_RING_REQUESTS))
        return false;
    (void)atomic_fetch_or_explicit(&h->request, bits, memory_order_release);
    return true;
}

uint64_t al_ring_reader_lost(const struct al_ring_reader *r) {
    return r->lost_seen + r->skipped;
}
