// SPDX-License-Identifier: Apache-2.0
// The contract between a watched process and its collector: a sealed memfd of fixed records, one lane a writing thread.
//
// A lane has one writer and one reader and no lock. A full lane drops the new record and counts it. The writer trusts
// no index that the reader stores, the reader trusts nothing at all. Errors are negative errno values. libc only: these
// objects are linked into foreign processes.
#ifndef AL_RING_RING_H
#define AL_RING_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AL_RING_VERSION 1u   // another major layout is refused; what is added within it has a feature bit
#define AL_RING_LANES 16u    // threads of one process that write at the same time; more are counted as lost
#define AL_RING_RECORDS 16384u // a lane; pages are taken when first written to, so an idle lane costs nothing
#define AL_RING_TEXT_MAX 2016u // bytes of one text
#define AL_RING_REQUESTS 1u  // feature: the writer looks at the header's request word
#define AL_RING_TEXT 0u      // the kind whose bytes follow (AL_EVENT_TEXT)

struct al_ring_record {
    int64_t at_ns;  // CLOCK_MONOTONIC of the writer
    uint16_t kind;  // enum al_event_kind
    uint16_t code;
    int32_t device; // framework's device index, -1 when it concerns none
    int64_t a, b;
};

// What the writer says of itself, copied and checked once when the ring is opened.
struct al_ring_origin {
    uint32_t version, features;
    int32_t pid;          // as the writer sees it: another one in another pid namespace
    uint64_t start_ticks; // field 22 of /proc/self/stat
    int64_t monotonic_ns, realtime_ns; // one moment on both clocks
};

// First and only message on the socket; the memfd travels with it (SCM_RIGHTS).
#define AL_RING_HELLO_MAGIC "ALHELLO1"
struct al_ring_hello {
    char magic[8];
    int32_t pid;
    uint32_t version;
    uint64_t start_ticks;
    uint8_t zero[40];
};

// ---- writer: lives in the watched process, allocates nothing, makes no system call after _open but by _open's mmap ----

// One thread's place; nothing of it lies in the shared memory but what shared and records point to.
struct al_ring_lane {
    struct al_ring_indices *shared;
    struct al_ring_record *records;
    uint64_t head, tail, lost; // tail: as last seen
    _Atomic uint32_t taken;
};

struct al_ring_writer {
    int fd; // sealed, close-on-exec
    uint8_t *base;
    size_t size;
    struct al_ring_lane lanes[AL_RING_LANES];
};

// Makes the memfd and maps it. -errno on failure; *w is then empty (fd -1).
int al_ring_writer_open(struct al_ring_writer *w);
void al_ring_writer_close(struct al_ring_writer *w);
// A free lane for this thread; NULL when all are taken, which is counted. Released lanes are used again.
struct al_ring_lane *al_ring_writer_claim(struct al_ring_writer *w, int32_t tid);
void al_ring_writer_release(struct al_ring_lane *lane);
// Counts what a thread without a lane could not write.
void al_ring_writer_lose(struct al_ring_writer *w, uint64_t records);
// False: the lane is full and the record is counted as lost.
bool al_ring_writer_put(struct al_ring_lane *lane, const struct al_ring_record *record);
// count records that become visible at once, or none of them.
bool al_ring_writer_put_all(struct al_ring_lane *lane, const struct al_ring_record *records, uint32_t count);
// A TEXT record with its bytes behind it, all or nothing; longer text is cut to AL_RING_TEXT_MAX bytes.
bool al_ring_writer_put_text(struct al_ring_lane *lane, int64_t at_ns, uint16_t code, const char *bytes, size_t length);
// What the reader asks for; each bit is given once. 0 in nearly every case, for the price of one load.
uint32_t al_ring_writer_requests(struct al_ring_writer *w);
// Whether there is any; they stay where they are.
bool al_ring_writer_asked(const struct al_ring_writer *w);

// ---- reader: lives in the collector ----

struct al_ring_reader;

struct al_ring_item {
    struct al_ring_record record;
    uint32_t lane;
    int32_t tid;       // of the lane's present or last owner, as the writer sees it
    const char *text;  // TEXT only, else NULL; NUL-terminated, valid during the call; may hold any bytes
    uint32_t text_length;
};

// Takes fd over on success. -EPERM without F_SEAL_SHRINK, -EPROTO for another layout, else -errno.
int al_ring_reader_open(int fd, struct al_ring_reader **ret);
struct al_ring_reader *al_ring_reader_free(struct al_ring_reader *r);
const struct al_ring_origin *al_ring_reader_origin(const struct al_ring_reader *r);
// Hands over what was published when the call began, lane by lane, each in order; lanes are not merged by time.
// Returns the number of items.
size_t al_ring_reader_drain(struct al_ring_reader *r, void (*fn)(void *user, const struct al_ring_item *item),
                            void *user);
// Bytes of memory that the ring has taken so far: they show in the writer's shared memory.
size_t al_ring_reader_bytes(const struct al_ring_reader *r);
// Asks the writer for something at its next step: bits that it knows by number. False: this one looks at no requests.
bool al_ring_reader_ask(struct al_ring_reader *r, uint32_t bits);
// Records that the writer dropped plus those that the reader had to skip as damaged; never falls.
uint64_t al_ring_reader_lost(const struct al_ring_reader *r);

#endif
