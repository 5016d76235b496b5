// SPDX-License-Identifier: Apache-2.0
#include "pods/h2.h"

#include <string.h>

#include "base/err.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY };
enum { ACK = 0x1, END_STREAM = 0x1, END_HEADERS = 0x4, PADDED = 0x8 };
enum { HEAD = 9, PREFIX = 5 };

static void number(struct al_buf *b, uint32_t value, int bytes) {
    while (bytes--)
        al_buf_char(b, (char)(value >> (8 * bytes)));
}

static uint32_t number_of(const char *p, int bytes) {
    uint32_t value = 0;
    while (bytes--)
        value = value << 8 | (unsigned char)*p++;
    return value;
}

static void frame(struct al_buf *b, int type, int flags, uint32_t stream, const char *payload, size_t len) {
    number(b, (uint32_t)len, 3);
    al_buf_char(b, (char)type);
    al_buf_char(b, (char)flags);
    number(b, stream, 4);
    al_buf_add(b, payload, len);
}

static void setting(struct al_buf *b, uint32_t id, uint32_t value) {
    number(b, id, 2);
    number(b, value, 4);
}

// A header as a literal that enters no table (RFC 7541, 6.2.2), neither part in Huffman's code.
static void value_of(struct al_buf *b, const char *value) {
    al_buf_char(b, (char)strlen(value)); // below 127: one byte
    al_buf_str(b, value);
}

static void headers(struct al_buf *b, const char *method) {
    al_buf_add(b, "\x83\x86", 2); // :method POST, :scheme http of the static table
    al_buf_char(b, 0x04);         // :path
    value_of(b, method);
    al_buf_char(b, 0x01);         // :authority
    value_of(b, "localhost");
    al_buf_add(b, "\x0f\x10", 2); // content-type, 31 = 15 + 16
    value_of(b, "application/grpc");
    al_buf_char(b, 0x00);
    value_of(b, "te");
    value_of(b, "trailers");
}

void al_h2_start(struct al_h2 *h, const char *method) {
    struct al_buf b = AL_BUF_INIT;
    *h = (struct al_h2){.settings = false};
    al_buf_str(&h->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    setting(&b, 0x1, 0); // HEADER_TABLE_SIZE
    setting(&b, 0x2, 0); // ENABLE_PUSH
    setting(&b, 0x4, AL_H2_MESSAGE_MAX + PREFIX); // INITIAL_WINDOW_SIZE: the whole answer without a word in between
    frame(&h->out, SETTINGS, 0, 0, b.data, b.len);
    al_buf_clear(&b);
    number(&b, AL_H2_MESSAGE_MAX, 4);
    frame(&h->out, 8, 0, 0, b.data, b.len); // WINDOW_UPDATE: the same for the connection
    al_buf_clear(&b);
    headers(&b, method);
    frame(&h->out, HEADERS, END_HEADERS, 1, b.data, b.len);
    frame(&h->out, DATA, END_STREAM, 1, "\0\0\0\0\0", PREFIX);
    h->out.failed |= b.failed;
    al_buf_free(&b);
}

static int take_data(struct al_h2 *h, int flags, const char *payload, size_t len) {
    size_t pad = 0;
    if (flags & PADDED) {
        if (!len || (size_t)(unsigned char)payload[0] >= len)
            return AL_E_FORMAT;
        pad = (unsigned char)payload[0];
        payload++;
        len -= pad + 1;
    }
    if (h->message.len + len > AL_H2_MESSAGE_MAX + PREFIX)
        return AL_E_TOOBIG;
    al_buf_add(&h->message, payload, len);
    return h->message.failed ? AL_E_NOMEM : 0;
}

static int take_frame(struct al_h2 *h, int type, int flags, uint32_t stream, const char *payload, size_t len) {
    if (!h->settings && type != SETTINGS)
        return AL_E_FORMAT;
    switch (type) {
    case SETTINGS:
        h->settings = true;
        if (!(flags & ACK))
            frame(&h->out, SETTINGS, ACK, 0, "", 0);
        return 0;
    case PING:
        if (len != 8)
            return AL_E_FORMAT;
        if (!(flags & ACK))
            frame(&h->out, PING, ACK, 0, payload, len);
        return 0;
    case DATA:
    case HEADERS:
        if (stream != 1)
            return AL_E_FORMAT;
        h->ended = (flags & END_STREAM) != 0;
        return type == DATA ? take_data(h, flags, payload, len) : 0;
    case RST_STREAM: return stream == 1 ? AL_E_IO : AL_E_FORMAT;
    case PUSH_PROMISE: return AL_E_FORMAT;
    case GOAWAY: return len >= 4 && number_of(payload, 4) >= 1 ? 0 : AL_E_IO; // streams up to this one are still answered
    default: return 0; // of what is left nothing concerns one short call; unknown types are to be passed over
    }
}

static int result(const struct al_h2 *h) {
    if (!h->ended)
        return AL_E_AGAIN;
    if (!h->message.len)
        return AL_E_IO; // trailers alone: the call failed
    if (h->message.len < PREFIX || h->message.data[0] != 0 || number_of(h->message.data + 1, 4) != h->message.len - PREFIX)
        return AL_E_FORMAT;
    return 0;
}

int al_h2_take(struct al_h2 *h, const char *bytes, size_t len) {
    size_t at = 0;
    al_buf_add(&h->in, bytes, len);
    if (h->in.failed)
        return AL_E_NOMEM;
    while (!h->ended && h->in.len - at >= HEAD) {
        const char *head = h->in.data + at;
        size_t size = number_of(head, 3);
        if (size > AL_H2_FRAME_MAX)
            return AL_E_FORMAT;
        if (h->in.len - at < HEAD + size)
            break;
        int error = take_frame(h, head[3], (unsigned char)head[4], number_of(head + 5, 4) & 0x7fffffff, head + HEAD, size);
        if (error)
            return error;
        at += HEAD + size;
    }
    if (at) {
        memmove(h->in.data, h->in.data + at, h->in.len - at);
        h->in.len -= at;
    }
    return h->out.failed ? AL_E_NOMEM : result(h);
}

void al_h2_free(struct al_h2 *h) {
    al_buf_free(&h->out);
    al_buf_free(&h->in);
    al_buf_free(&h->message);
}
