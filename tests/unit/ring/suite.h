// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_RING_SUITE_H
#define AL_TESTS_RING_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/layout.h"

int lanes_suite(void);
int damage_suite(void);
int crash_suite(void);

struct pair {
    struct al_ring_writer writer;
    struct al_ring_reader *reader;
};

static inline void pair_open(struct pair *p) {
    assert_int_equal(al_ring_writer_open(&p->writer), 0);
    assert_int_equal(al_ring_reader_open(dup(p->writer.fd), &p->reader), 0);
}

static inline void pair_close(struct pair *p) {
    al_ring_writer_close(&p->writer);
    p->reader = al_ring_reader_free(p->reader);
}

static inline struct al_ring_header *pair_header(struct pair *p) {
    return (struct al_ring_header *)(void *)p->writer.base;
}

#endif
