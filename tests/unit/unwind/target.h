// SPDX-License-Identifier: Apache-2.0
// A process whose functions are known, to be looked at from outside: a fork of the test.
#ifndef AL_TESTS_UNWIND_TARGET_H
#define AL_TESTS_UNWIND_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TARGET_MARK 0x616c756c61737461ULL // lies on the stacks of what the target runs

enum target_work { TARGET_SPINS, TARGET_WAITS, TARGET_THREADS };

struct target {
    pid_t pid;
    struct target_seen { // shared with it
        volatile bool started;
        volatile int signals;
        volatile uint64_t turns;
        volatile pid_t spinner; // TARGET_THREADS: a thread that spins; the first one waits, others come and go
        volatile uint64_t threads;
    } *seen;
};

void target_start(struct target *t, enum target_work work);
void target_end(struct target *t);
char target_state(pid_t tid); // as in /proc/TID/stat; '?' gone
bool target_becomes(pid_t tid, char state); // within some seconds
bool target_spins_at(uint64_t instruction);
bool target_turns(struct target *t); // it goes on
bool target_marked(const unsigned char *stack, size_t size);

#endif
