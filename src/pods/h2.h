// SPDX-License-Identifier: Apache-2.0
// The client's side of one unary gRPC call over HTTP/2 (RFC 9113; gRPC over HTTP2), no I/O: bytes to send come out, bytes that
// came go in. Only what one call needs: no HPACK decoder (header blocks of the answer are passed over, the peer is told to
// keep no table), hence the call's status is known only by whether a whole message came.
#ifndef AL_PODS_H2_H
#define AL_PODS_H2_H

#include "base/buf.h"

#define AL_H2_FRAME_MAX 16384            // SETTINGS_MAX_FRAME_SIZE when nothing is said
#define AL_H2_MESSAGE_MAX (4u << 20)     // a larger answer is refused

struct al_h2 {
    struct al_buf out;     // to send; the caller takes from the front
    struct al_buf in;      // a frame that is not complete
    struct al_buf message; // gRPC's prefix of five bytes and the message
    bool settings;         // the peer's came: it speaks HTTP/2
    bool ended;            // the stream has
};

// Begins the call of "/package.Service/Method" (shorter than 100 bytes) with an empty request.
void al_h2_start(struct al_h2 *h, const char *method);
// Takes what came: AL_E_AGAIN while more is to come, 0 when the message is whole; AL_E_FORMAT for what is no HTTP/2 or no
// gRPC, AL_E_TOOBIG, AL_E_IO when the peer ended the call without a message, AL_E_NOMEM.
int al_h2_take(struct al_h2 *h, const char *bytes, size_t len);
void al_h2_free(struct al_h2 *h);

#endif
