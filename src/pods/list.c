// SPDX-License-Identifier: Apache-2.0
#include "pods/list.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

// A message or string within the answer.
struct span {
    const unsigned char *at, *end;
};

struct field {
    uint64_t number;
    struct span bytes; // of BYTES; empty for other types
};

struct decoder {
    struct al_pod_use *uses;
    size_t count, max;
    struct al_pod_use now; // names of the pod and container that are being read
    bool named;            // ... and whether they can be told
};

static int varint(struct span *s, uint64_t *ret) {
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        unsigned char c = *s->at++;
        *ret |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return 0;
    }
    return AL_E_FORMAT;
}

// 0 and a field, AL_E_END, or AL_E_FORMAT.
static int next(struct span *s, struct field *ret) {
    uint64_t key, size;
    *ret = (struct field){0};
    if (s->at == s->end)
        return AL_E_END;
    if (varint(s, &key))
        return AL_E_FORMAT;
    ret->number = key >> 3;
    switch (key & 7) {
    case VARINT: return varint(s, &size);
    case FIXED64: size = 8; break;
    case FIXED32: size = 4; break;
    case BYTES:
        if (varint(s, &size))
            return AL_E_FORMAT;
        break;
    default: return AL_E_FORMAT;
    }
    if (size > (uint64_t)(s->end - s->at))
        return AL_E_FORMAT;
    if ((key & 7) == BYTES)
        ret->bytes = (struct span){s->at, s->at + size};
    s->at += size;
    return 0;
}

// Calls take for every field. Fields come in any order, hence two passes where names are needed first.
static int each(struct span s, struct decoder *d, int (*take)(struct decoder *d, const struct field *f)) {
    struct field f;
    int error;
    while (!(error = next(&s, &f)))
        if ((error = take(d, &f)))
            return error;
    return error == AL_E_END ? 0 : error;
}

static bool text(char *out, size_t size, struct span s) {
    size_t len = (size_t)(s.end - s.at);
    bool good = len && len < size && !memchr(s.at, 0, len);
    for (const unsigned char *p = s.at; good && p < s.end;) {
        size_t n = al_utf8_len(p, (size_t)(s.end - p));
        good = n > 0;
        p += n;
    }
    if (good)
        memcpy(out, s.at, len);
    out[good ? len : 0] = '\0';
    return good;
}

static bool known(const struct decoder *d) {
    for (size_t i = d->count; i-- > 0;) {
        const struct al_pod_use *u = &d->uses[i];
        if (!al_str_equal(u->pod, d->now.pod) || !al_str_equal(u->name_space, d->now.name_space) ||
            !al_str_equal(u->container, d->now.container))
            return false; // those of one container stand together
        if (al_str_equal(u->device, d->now.device))
            return true;
    }
    return false;
}

// Network cards and the like would take the places of GPUs.
static bool may_be_gpu(const struct al_pod_use *u) {
    return al_str_starts(u->resource, "nvidia.com/") || al_str_starts(u->device, "GPU-") || al_str_starts(u->device, "MIG-");
}

static int take_device(struct decoder *d, const struct field *f) {
    if (f->number != 2 || !d->named || !d->now.resource[0] || !text(d->now.device, sizeof d->now.device, f->bytes))
        return 0;
    char *replica = strstr(d->now.device, "::"); // one of several shares of a GPU
    if (replica)
        *replica = '\0';
    if (d->now.device[0] && may_be_gpu(&d->now) && d->count < d->max && !known(d))
        d->uses[d->count++] = d->now;
    return 0;
}

static int take_resource(struct decoder *d, const struct field *f) {
    if (f->number == 1)
        (void)text(d->now.resource, sizeof d->now.resource, f->bytes);
    return 0;
}

static int take_container_name(struct decoder *d, const struct field *f) {
    if (f->number == 1)
        d->named &= text(d->now.container, sizeof d->now.container, f->bytes);
    return 0;
}

static int take_devices(struct decoder *d, const struct field *f) {
    if (f->number != 2)
        return 0;
    d->now.resource[0] = '\0';
    int error = each(f->bytes, d, take_resource);
    return error ? error : each(f->bytes, d, take_device);
}

static int take_pod_name(struct decoder *d, const struct field *f) {
    if (f->number == 1)
        d->named &= text(d->now.pod, sizeof d->now.pod, f->bytes);
    else if (f->number == 2)
        d->named &= text(d->now.name_space, sizeof d->now.name_space, f->bytes);
    return 0;
}

static int take_container(struct decoder *d, const struct field *f) {
    if (f->number != 3)
        return 0;
    bool pod = d->named;
    d->now.container[0] = '\0';
    int error = each(f->bytes, d, take_container_name);
    d->named &= d->now.container[0] != '\0';
    if (!error)
        error = each(f->bytes, d, take_devices);
    d->named = pod;
    return error;
}

static int take_pod(struct decoder *d, const struct field *f) {
    if (f->number != 1)
        return 0;
    d->now = (struct al_pod_use){.device = ""};
    d->named = true;
    int error = each(f->bytes, d, take_pod_name);
    d->named &= d->now.pod[0] && d->now.name_space[0];
    return error ? error : each(f->bytes, d, take_container);
}

int al_pods_decode(const char *bytes, size_t len, struct al_pod_use *ret, size_t max, size_t *ret_count) {
    struct decoder d = {.uses = ret, .max = max};
    const unsigned char *at = (const unsigned char *)bytes;
    int error = each((struct span){at, at + len}, &d, take_pod);
    *ret_count = error ? 0 : d.count;
    return error;
}
