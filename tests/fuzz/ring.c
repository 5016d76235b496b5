// SPDX-License-Identifier: Apache-2.0
// The reader on a mapping that says anything: the input is laid over the header, the lanes' indices and the first
// records, and again between two drains. No byte outside the mapping is read, no text is longer than the bound.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ring/layout.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void take(void *user, const struct al_ring_item *item) {
    size_t *bytes = user;
    if (item->lane >= 256 || item->text_length > AL_RING_TEXT_MAX || (item->text && item->text[item->text_length] != '\0'))
        abort();
    for (uint32_t i = 0; i < item->text_length; i++)
        *bytes += (unsigned char)item->text[i];
}

// Pieces of {place: 1 byte, offset: 1, length: 1, bytes}: place picks the header, a lane's indices or its records.
static void scatter(struct al_ring_writer *w, const unsigned char **data, size_t *size) {
    for (int pieces = 0; pieces < 16 && *size >= 3; pieces++) {
        unsigned place = (*data)[0], offset = (*data)[1], length = (*data)[2];
        *data += 3;
        *size -= 3;
        if (length > *size)
            length = (unsigned)*size;
        size_t at = place == 0   ? 0
                    : place < 17 ? al_ring_indices_offset(place - 1)
                                 : al_ring_records_offset(AL_RING_LANES, AL_RING_RECORDS, place % AL_RING_LANES);
        at += (size_t)offset * (place < 17 ? 1 : 32);
        if (at + length <= w->size)
            memcpy(w->base + at, *data, length);
        *data += length;
        *size -= length;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    struct al_ring_writer w;
    struct al_ring_reader *r;
    size_t bytes = 0;
    if (al_ring_writer_open(&w) != 0)
        return 0;
    struct al_ring_lane *lane = al_ring_writer_claim(&w, 1);
    (void)al_ring_writer_put_text(lane, 1, 2, "text", 4);
    scatter(&w, &data, &size);
    int fd = dup(w.fd);
    if (al_ring_reader_open(fd, &r) != 0) {
        (void)close(fd);
    } else {
        for (int i = 0; i < 3; i++) {
            (void)al_ring_reader_drain(r, take, &bytes);
            scatter(&w, &data, &size);
        }
        uint64_t lost = al_ring_reader_lost(r);
        (void)al_ring_reader_drain(r, take, &bytes);
        if (al_ring_reader_lost(r) < lost)
            abort();
        (void)al_ring_reader_free(r);
    }
    al_ring_writer_close(&w);
    return 0;
}
