// SPDX-License-Identifier: Apache-2.0
// The other end: a listening socket, and what came through. The probe's state is one a process, so each case runs it in
// a child of its own.
#ifndef AL_TESTS_PROBE_COLLECTOR_H
#define AL_TESTS_PROBE_COLLECTOR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/event.h"
#include "probe/probe.h"
#include "ring/ring.h"

#define SEEN_MAX 4096

struct collector {
    char folder[64], path[96];
    int listener, socket;
    pid_t peer; // from SCM_CREDENTIALS
    struct al_ring_hello hello;
    struct al_ring_reader *reader;
    size_t count;
    struct al_ring_record seen[SEEN_MAX];
    int32_t tids[SEEN_MAX];
    char text[SEEN_MAX][64];
};

// Sets ALULA_SOCKET in this process, before the child is made.
void collector_open(struct collector *c);
void collector_close(struct collector *c);
void collector_listen(struct collector *c);
// Takes one hand-over; fails the test after 5 s.
void collector_accept(struct collector *c);
bool collector_has_caller(struct collector *c);
void collector_drain(struct collector *c);

// Runs job in a child, with c as its argument; a failed assertion there is this test's.
pid_t child_start(void (*job)(struct collector *c), struct collector *c);
void child_end(pid_t child);
// 0 or the line of the first thing in the child that was wrong.
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            _exit(__LINE__ % 250 + 1);                                                                                 \
    } while (0)

int marks_suite(void);
int manners_suite(void);
int hosts_suite(void);
int loop_suite(void);

#endif
