// SPDX-License-Identifier: Apache-2.0
#include "export/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/pb.h"
#include "base/str.h"

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

#define CRC32C_POLYNOMIAL 0x82f63b78u // RFC 3720, reflected
#define MASK_DELTA 0xa282ead8u        // TFRecord: rotated right by 15, and this added

struct al_tensorboard {
    int fd;
    off_t written; // whole records
    uint64_t points;
    struct al_buf summary, record;
    char path[4200];
};

uint32_t al_crc32c(const void *bytes, size_t len) {
    static uint32_t table[256];
    const unsigned char *p = bytes;
    uint32_t crc = 0xffffffffu;
    if (!table[1]) // two threads would write the same numbers
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = c & 1 ? c >> 1 ^ CRC32C_POLYNOMIAL : c >> 1;
            table[i] = c;
        }
    for (size_t i = 0; i < len; i++)
        crc = table[(crc ^ p[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

uint32_t al_crc32c_masked(const void *bytes, size_t len) {
    uint32_t crc = al_crc32c(bytes, len);
    return (crc >> 15 | crc << 17) + MASK_DELTA;
}

static void little_endian(char *out, uint64_t value, int size) {
    for (int i = 0; i < size; i++)
        out[i] = (char)(unsigned char)(value >> (8 * i));
}

// length, its checksum, data, its checksum
static void frame(struct al_buf *b, const char *data, size_t len) {
    char head[12], tail[4];
    little_endian(head, len, 8);
    little_endian(head + 8, al_crc32c_masked(head, 8), 4);
    little_endian(tail, al_crc32c_masked(data, len), 4);
    al_buf_add(b, head, sizeof head);
    al_buf_add(b, data, len);
    al_buf_add(b, tail, sizeof tail);
}

static int append(struct al_tensorboard *t, const struct al_buf *event) {
    al_buf_clear(&t->record);
    frame(&t->record, event->data, event->len);
    if (t->record.failed)
        return AL_E_NOMEM;
    ssize_t n = write(t->fd, t->record.data, t->record.len);
    if (n == (ssize_t)t->record.len) {
        t->written += n;
        return 0;
    }
    (void)!ftruncate(t->fd, t->written);
    return AL_E_IO;
}

static int put_version(struct al_tensorboard *t, int64_t realtime_ns) {
    struct al_buf event = AL_BUF_INIT;
    al_pb_double(&event, EVENT_WALL_TIME, (double)realtime_ns / 1e9);
    al_pb_string(&event, EVENT_FILE_VERSION, "brain.Event:2");
    int result = event.failed ? AL_E_NOMEM : append(t, &event);
    al_buf_free(&event);
    return result;
}

static int open_file(struct al_tensorboard *t, const char *folder, const char *host, int64_t realtime_ns) {
    char name[64];
    size_t kept = 0;
    for (const char *c = host; *c && kept < sizeof name - 1; c++)
        if (*c != '/')
            name[kept++] = *c;
    name[kept] = '\0';
    int len = snprintf(t->path, sizeof t->path, "%s/events.out.tfevents.%010lld.%s.%d.alula", folder,
                       (long long)(realtime_ns / 1000000000), kept ? name : "host", (int)getpid());
    if (len < 0 || (size_t)len >= sizeof t->path)
        return AL_E_INVALID;
    int result = al_fs_make_folder(folder, 0777);
    if (result)
        return result;
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (t->fd >= 0)
        return 0;
    return errno == EACCES || errno == EPERM || errno == EROFS ? AL_E_DENIED : errno == ENOENT ? AL_E_NOENT : AL_E_IO;
}

int al_tensorboard_open(const char *folder, const char *host, int64_t realtime_ns, struct al_tensorboard **ret) {
    struct al_tensorboard *t = calloc(1, sizeof *t);
    if (!t)
        return AL_E_NOMEM;
    t->fd = -1;
    int result = open_file(t, folder, host, realtime_ns);
    if (!result)
        result = put_version(t, realtime_ns);
    *ret = result ? al_tensorboard_free(t) : t;
    return result;
}

void al_tensorboard_scalar(struct al_tensorboard *t, double value, const char *tag, ...) {
    char name[AL_TENSORBOARD_TAG];
    va_list args;
    if (!isfinite(value))
        return;
    va_start(args, tag);
    (void)vsnprintf(name, sizeof name, tag, args);
    va_end(args);
    size_t inner = al_pb_open(&t->summary, SUMMARY_VALUE);
    al_pb_string(&t->summary, VALUE_TAG, name);
    al_pb_float(&t->summary, VALUE_SIMPLE, (float)value);
    al_pb_close(&t->summary, inner);
}

int al_tensorboard_point(struct al_tensorboard *t, int64_t step, int64_t realtime_ns) {
    struct al_buf event = AL_BUF_INIT;
    int result = t->summary.failed ? AL_E_NOMEM : 0;
    if (!result && t->summary.len) {
        al_pb_double(&event, EVENT_WALL_TIME, (double)realtime_ns / 1e9);
        al_pb_uint(&event, EVENT_STEP, (uint64_t)step);
        size_t inner = al_pb_open(&event, EVENT_SUMMARY);
        al_buf_add(&event, t->summary.data, t->summary.len);
        al_pb_close(&event, inner);
        result = event.failed ? AL_E_NOMEM : append(t, &event);
        t->points += !result;
    }
    al_buf_free(&event);
    al_buf_clear(&t->summary);
    return result;
}

uint64_t al_tensorboard_points(const struct al_tensorboard *t) {
    return t->points;
}

const char *al_tensorboard_path(const struct al_tensorboard *t) {
    return t->path;
}

struct al_tensorboard *al_tensorboard_free(struct al_tensorboard *t) {
    if (!t)
        return NULL;
    if (t->fd >= 0)
        (void)close(t->fd);
    al_buf_free(&t->summary);
    al_buf_free(&t->record);
    free(t);
    return NULL;
}
