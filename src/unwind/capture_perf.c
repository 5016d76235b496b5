// SPDX-License-Identifier: Apache-2.0
// Threads that run: a clock of perf's counts a thread's CPU time and at each period writes its registers and the top of
// its stack into a ring. A ring a thread, since the kernel lets threads share one only CPU by CPU; threads get theirs when
// they are first seen running, and lose it when others need the room.
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "unwind/capture_parts.h"

#define RINGS_MOST 512u
#define RING_LARGE (128u << 10) // three pictures of 32 KiB; twice that for the largest
#define RING_SMALL (64u << 10)  // one
#define ROOM_RETRY_NS AL_NS_PER_S
#define UNUSED_NS (2 * AL_NS_PER_S) // so long a thread must not have run for its ring to be given to another

// Registers by perf's numbers of this machine, in the order in which a record has them, as DWARF's numbers.
#if defined(__aarch64__)
#define REGS_MASK 0x1ffffffffULL // x0 to x30, sp, pc: the same numbers
static uint8_t dwarf_of(unsigned i) {
    return (uint8_t)i;
}
#define REGS_COUNT 33u
#else
// ax bx cx dx si di bp sp ip, and r8 to r15 at 16 to 23.
#define REGS_MASK 0xff01ffULL
#define REGS_COUNT 17u
static uint8_t dwarf_of(unsigned i) {
    static const uint8_t numbers[REGS_COUNT] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};
    return numbers[i];
}
#endif

static int open_clock(const struct al_capture *c, pid_t tid, bool with_kernel, uint32_t stack_size) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = c->period_ns,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
        .exclude_kernel = !with_kernel,
        .exclude_hv = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .wakeup_events = 1,
        .sample_regs_user = REGS_MASK,
        .sample_stack_user = stack_size,
    };
    return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int64_t paranoid(const struct al_capture *c) {
    char path[192], *text;
    size_t len;
    int64_t value = -1;
    (void)snprintf(path, sizeof path, "%s/sys/kernel/perf_event_paranoid", c->procfs);
    if (al_fs_slurp(path, 64, &text, &len) < 0)
        return -1;
    if (sscanf(text, "%ld", &value) != 1)
        value = -1;
    free(text);
    return value;
}

// Which of the things that can forbid it does.
static int forbidden(const struct al_capture *c, int error, struct al_unwind_error *ret) {
    static const char begin[] = "threads that run have no native frames:";
    int64_t level = paranoid(c);
    if (error == ESRCH) {
        (void)snprintf(ret->text, sizeof ret->text, "process %d has ended", (int)c->pid);
        return AL_E_GONE;
    }
    if (error != EACCES && error != EPERM && error != ENOSYS) {
        (void)snprintf(ret->text, sizeof ret->text, "%s perf_event_open: %s", begin, strerror(error));
        return AL_E_UNSUPPORTED;
    }
    if (level >= 3 && error == EACCES)
        (void)snprintf(ret->text, sizeof ret->text,
                       "%s kernel.perf_event_paranoid is %d: sysctl kernel.perf_event_paranoid=2, or give alula CAP_PERFMON, "
                       "or use --blocking", begin, (int)level);
    else if (al_capture_status_of(c->procfs, "self", "Seccomp") > 0)
        (void)snprintf(ret->text, sizeof ret->text,
                       "%s a seccomp filter forbids perf_event_open (a container: --cap-add PERFMON, or a seccomp profile that "
                       "allows it), or use --blocking", begin);
    else if (error == ENOSYS)
        (void)snprintf(ret->text, sizeof ret->text, "%s this kernel has no perf_event_open: use --blocking", begin);
    else
        (void)snprintf(ret->text, sizeof ret->text,
                       "%s perf_event_open is not permitted (kernel.perf_event_paranoid %d; another user's process, or a "
                       "security module): run as root or with CAP_PERFMON, or use --blocking", begin, (int)level);
    return error == ENOSYS ? AL_E_UNSUPPORTED : AL_E_DENIED;
}

int al_perf_try(struct al_capture *c, struct al_unwind_error *error) {
    int fd = open_clock(c, c->pid, true, c->stack_size), why = errno;
    c->with_kernel = fd >= 0;
    if (fd < 0 && (why == EACCES || why == EPERM)) { // from level 2 on without the capability: the user's half only
        fd = open_clock(c, c->pid, false, c->stack_size);
        why = errno;
    }
    if (fd < 0)
        return forbidden(c, why, error);
    close(fd);
    return 0;
}

static void close_ring(struct al_capture *c, uint32_t i) {
    struct al_clock_ring *r = &c->rings[i];
    (void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, r->fd, NULL);
    (void)munmap(r->map, r->size + (size_t)sysconf(_SC_PAGESIZE));
    close(r->fd);
    *r = c->rings[--c->ring_count];
}

void al_perf_free(struct al_capture *c) {
    while (c->ring_count)
        close_ring(c, c->ring_count - 1);
    free(c->rings);
}

static struct al_clock_ring *find(const struct al_capture *c, pid_t tid) {
    for (uint32_t i = 0; i < c->ring_count; i++)
        if (c->rings[i].tid == tid)
            return &c->rings[i];
    return NULL;
}

bool al_capture_has_clock(const struct al_capture *c, pid_t tid) {
    return find(c, tid) != NULL;
}

// The ring whose thread has not run for the longest time. False: all did lately.
static bool drop_unused(struct al_capture *c, int64_t now) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < c->ring_count; i++)
        if (c->rings[i].used_ns < c->rings[oldest].used_ns)
            oldest = i;
    if (!c->ring_count || now - c->rings[oldest].used_ns < UNUSED_NS)
        return false;
    close_ring(c, oldest);
    return true;
}

static void *map_ring(struct al_capture *c, int fd, bool deep, size_t *ret_size, int64_t now) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), times = deep ? 2 : 1;
    for (;;) {
        for (size_t size = times * RING_LARGE; size >= times * RING_SMALL && size >= page; size /= 2) {
            void *map = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            *ret_size = size;
            if (map != MAP_FAILED)
                return map;
        }
        if (!drop_unused(c, now))
            return MAP_FAILED;
    }
}

static bool more_rings(struct al_capture *c) {
    if (c->ring_count < c->ring_cap)
        return true;
    struct al_clock_ring *more = realloc(c->rings, (c->ring_cap * 2 + 8) * sizeof *more);
    if (!more)
        return false;
    c->rings = more;
    c->ring_cap = c->ring_cap * 2 + 8;
    return true;
}

// 0 and *ret->fd -1 where there is no room for one; AL_E_GONE.
static int open_ring(struct al_capture *c, pid_t tid, bool deep, struct al_clock_ring *ret) {
    int64_t now = al_monotonic_ns();
    int fd = open_clock(c, tid, c->with_kernel, deep ? AL_CAPTURE_STACK_MOST : c->stack_size), error = errno;
    *ret = (struct al_clock_ring){.tid = tid, .fd = fd, .used_ns = now, .deep = deep};
    if (fd < 0)
        return error == ESRCH ? AL_E_GONE : 0;
    ret->map = map_ring(c, fd, deep, &ret->size, now);
    if (ret->map != MAP_FAILED)
        return 0;
    close(fd);
    ret->fd = -1;
    return 0;
}

static void add_ring(struct al_capture *c, const struct al_clock_ring *r) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (uint32_t)r->tid};
    (void)epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, r->fd, &wanted);
    c->rings[c->ring_count++] = *r;
}

// 0 also where there is no room for one; AL_E_GONE.
static int give_clock(struct al_capture *c, pid_t tid) {
    int64_t now = al_monotonic_ns();
    struct al_clock_ring r;
    if (now < c->room_retry_ns)
        return 0;
    if (!more_rings(c))
        return AL_E_NOMEM;
    c->room_retry_ns = now + ROOM_RETRY_NS;
    if (c->ring_count >= RINGS_MOST && !drop_unused(c, now))
        return 0;
    int result = open_ring(c, tid, c->stack_size == AL_CAPTURE_STACK_MOST, &r);
    if (result || r.fd >= 0)
        c->room_retry_ns = 0;
    c->counts.no_room |= r.map == MAP_FAILED;
    if (r.fd >= 0)
        add_ring(c, &r);
    return result;
}

bool al_capture_may_deepen(struct al_capture *c, pid_t tid) {
    const struct al_clock_ring *r = find(c, tid);
    return r && !r->deep;
}

void al_capture_deepen(struct al_capture *c, pid_t tid) {
    struct al_clock_ring *old = find(c, tid), r;
    if (!old || old->deep)
        return;
    old->deep = true; // whatever comes of it
    if (!more_rings(c) || open_ring(c, tid, true, &r) || r.fd < 0)
        return;
    old = find(c, tid); // room may have been made at the expense of others
    if (old)
        close_ring(c, (uint32_t)(old - c->rings));
    add_ring(c, &r);
}

static void copy_out(const struct al_clock_ring *r, uint64_t at, void *out, size_t size) {
    const unsigned char *data = (const unsigned char *)r->map + sysconf(_SC_PAGESIZE);
    size_t begin = (size_t)(at & (r->size - 1)), first = r->size - begin < size ? r->size - begin : size;
    memcpy(out, data + begin, first);
    memcpy((unsigned char *)out + first, data, size - first);
}

static bool has_news(const struct al_clock_ring *r) {
    struct perf_event_mmap_page *page = r->map;
    return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) != page->data_tail;
}

// The last picture in the ring goes into c->record; what came before it is passed over. Its size; 0: none.
static size_t drain(struct al_capture *c, struct al_clock_ring *r) {
    struct perf_event_mmap_page *page = r->map;
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), at = page->data_tail, last = 0;
    struct perf_event_header h;
    size_t size = 0;
    if (head - at > r->size)
        at = head; // cannot be
    while (head - at >= sizeof h) {
        copy_out(r, at, &h, sizeof h);
        if (h.size < sizeof h || h.size > head - at)
            break;
        if (h.type == PERF_RECORD_SAMPLE) {
            c->counts.missed += size != 0;
            last = at;
            size = h.size;
        } else if (h.type == PERF_RECORD_LOST && h.size >= sizeof h + 16) {
            uint64_t lost[2];
            copy_out(r, at + sizeof h, lost, sizeof lost);
            c->counts.missed += lost[1];
        }
        at += h.size;
    }
    if (size)
        copy_out(r, last, c->record, size);
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    return size;
}

// header, pid and tid, time, abi, registers, size of the stack, stack, how much of it is true.
static bool parse(const struct al_capture *c, size_t size, struct al_unwind_input *in, int64_t *ret_time) {
    const unsigned char *p = c->record;
    uint64_t head[2], stack, real; // time, abi
    size_t at = sizeof(struct perf_event_header) + 8;
    if (size < at + sizeof head + REGS_COUNT * 8 + 8)
        return false;
    memcpy(head, p + at, sizeof head);
    at += sizeof head;
    if (head[1] != PERF_SAMPLE_REGS_ABI_64)
        return false; // it runs 32-bit code, or is ending
    for (unsigned i = 0; i < REGS_COUNT; i++, at += 8)
        memcpy(&in->regs[dwarf_of(i)], p + at, 8);
    in->known = AL_REGS_ALL;
    memcpy(&stack, p + at, 8);
    at += 8;
    *ret_time = (int64_t)head[0];
    in->stack = p + at;
    if (!stack)
        return true;
    if (stack > size - at || size - at - stack < 8)
        return false;
    memcpy(&real, p + at + stack, 8);
    in->size = real < stack ? (size_t)real : (size_t)stack;
    return true;
}

int al_perf_picture(struct al_capture *c, pid_t tid, struct al_unwind_input *ret, bool *ret_found, int64_t *ret_age_ns) {
    struct al_clock_ring *r = find(c, tid);
    int64_t time;
    *ret_found = false;
    if (!r)
        return give_clock(c, tid);
    size_t size = has_news(r) ? drain(c, r) : 0;
    if (!size || !parse(c, size, ret, &time))
        return 0;
    r->used_ns = al_monotonic_ns();
    *ret_age_ns = r->used_ns - time;
    *ret_found = true;
    c->counts.pictures++;
    return 0;
}

// Rings of threads that have ended: what is left in them is of no use, for the thread's Python frames are gone.
static void close_ended(struct al_capture *c) {
    struct epoll_event events[16];
    int count = epoll_wait(c->epoll_fd, events, 16, 0);
    for (int i = 0; i < count; i++) {
        struct al_clock_ring *r = find(c, (pid_t)events[i].data.u32);
        if (r && (events[i].events & (EPOLLHUP | EPOLLERR)))
            close_ring(c, (uint32_t)(r - c->rings));
    }
}

// By the rings themselves: epoll tells of a picture once, and may have told somebody else.
static pid_t with_news(struct al_capture *c) {
    for (uint32_t i = 0; i < c->ring_count; i++) {
        c->next = (c->next + 1) % c->ring_count; // in turns: a thread that is quick does not keep others waiting
        if (has_news(&c->rings[c->next]))
            return c->rings[c->next].tid;
    }
    return 0;
}

pid_t al_capture_wait(struct al_capture *c, int64_t until_ns) {
    struct pollfd p = {.fd = c->epoll_fd, .events = POLLIN};
    pid_t tid = with_news(c);
    for (bool first = true; !tid; first = false) {
        int64_t left = until_ns - al_monotonic_ns();
        if (left <= 0 && !first)
            return 0;
        struct timespec wait = {.tv_sec = left > 0 ? left / AL_NS_PER_S : 0, .tv_nsec = left > 0 ? left % AL_NS_PER_S : 0};
        int n = ppoll(&p, 1, &wait, NULL);
        if (n < 0)
            return 0; // a signal
        if (n > 0)
            close_ended(c);
        tid = with_news(c);
    }
    return tid;
}
