// SPDX-License-Identifier: Apache-2.0
// python314 ENABLED: what an injection sees of a CPython 3.14, by the layout of its _Py_DebugOffsets, without one. It says
// "script PATH" when it was asked by PEP 768's fields, "line TEXT" when by a pending call, and ends.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

enum { HEAD = 632, THREADS_MAIN = 72, BREAKER = 24, SUPPORT = 400, ENABLED = 5000, PENDING = 8, PATH = 12, PATH_SIZE = 512 };
#define STOP 32u

typedef int call_fn(void *);
SEEN extern uint64_t _PyRuntime[200];
SEEN extern const uint32_t Py_Version;
SEEN int Py_AddPendingCall(call_fn *call, void *line);
SEEN int PyRun_SimpleString(const char *line);
SEEN int Py_BytesMain(int argc, char **argv);

uint64_t _PyRuntime[200];
const uint32_t Py_Version = 0x030e06f0;
static call_fn *volatile pending;
static void *volatile pending_line;

int Py_AddPendingCall(call_fn *call, void *line) {
    pending_line = line;
    pending = call;
    return 0;
}

int PyRun_SimpleString(const char *line) {
    printf("line %s\n", line);
    return 0;
}

int Py_BytesMain(int argc, char **argv) {
    return argc - argc + (argv == NULL);
}

static uint64_t *at(unsigned offset) {
    return &_PyRuntime[offset / 8];
}

int main(int argc, char **argv) {
    static unsigned char interpreter[8192], thread[2048];
    uint64_t place = (uintptr_t)interpreter, main_thread = (uintptr_t)thread;
    int32_t enabled = argc > 1 ? atoi(argv[1]) : 1, asked = 0;
    memcpy(_PyRuntime, "xdebugpy", 8);
    *at(8) = Py_Version;
    *at(40) = HEAD;
    *at(80) = THREADS_MAIN;
    *at(712) = BREAKER;
    *at(720) = SUPPORT;
    *at(728) = ENABLED;
    *at(736) = PENDING;
    *at(744) = PATH;
    *at(752) = PATH_SIZE;
    *at(HEAD) = place;
    memcpy(interpreter + THREADS_MAIN, &main_thread, 8);
    memcpy(interpreter + ENABLED, &enabled, 4);
    volatile uint64_t *breaker = (volatile uint64_t *)(void *)(thread + BREAKER);
    *breaker = 256;
    puts("here");
    (void)fflush(stdout);
    while (!(*breaker & STOP) && !pending)
        continue;
    memcpy(&asked, thread + SUPPORT + PENDING, 4);
    if (pending)
        (void)pending(pending_line);
    else
        printf("script %s %d %llu\n", (const char *)thread + SUPPORT + PATH, asked, (unsigned long long)*breaker);
    return 0;
}
