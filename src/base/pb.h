// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding), as much of it as OTLP and TensorBoard need. Messages are
// written front to back into one buffer: no tree of objects, and no library.
#ifndef AL_BASE_PB_H
#define AL_BASE_PB_H

#include "base/buf.h"

// Fields of a message that is being written. The default value 0, "" or false is left out only by al_pb_string.
void al_pb_uint(struct al_buf *b, uint32_t field, uint64_t value); // enum, bool, uint
void al_pb_fixed64(struct al_buf *b, uint32_t field, uint64_t value);
void al_pb_float(struct al_buf *b, uint32_t field, float value);
void al_pb_double(struct al_buf *b, uint32_t field, double value);
// Invalid UTF-8 becomes '?': a receiver would refuse the whole message.
void al_pb_string(struct al_buf *b, uint32_t field, const char *text);
// A message inside: what is added between open and close. close takes what open returned.
size_t al_pb_open(struct al_buf *b, uint32_t field);
void al_pb_close(struct al_buf *b, size_t start);

// Reading: the next field of data[*at .. len). False at the end and on anything malformed (then *at != len).
struct al_pb_field {
    uint32_t number, wire; // wire: 0 varint, 1 fixed64, 2 bytes, 5 fixed32
    uint64_t value;        // of the numbers
    const char *bytes;     // of wire type 2
    size_t size;
};
bool al_pb_next(const char *data, size_t len, size_t *at, struct al_pb_field *ret);

#endif
