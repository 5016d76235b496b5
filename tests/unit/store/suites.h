// SPDX-License-Identifier: Apache-2.0
#ifndef TEST_STORE_SUITES_H
#define TEST_STORE_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"

int test_column(void);
int test_chunk(void);
int test_file(void);
int test_replay(void);
int test_age(void);
int test_marks(void);
int test_profiles(void);

// ---- made.c: sessions to record ----

#define S 1000000000LL
#define TICK 500000000LL

// A folder of its own for each test; all files in it are removed with it.
int made_folder(void **state);
int made_folder_gone(void **state);
// "folder/name", valid until the next call.
const char *made_path(void **state, const char *name);

// Tick `i` of a session of two GPUs, one process and its row. All values are functions of i.
void made_tick(struct al_snapshot *s, int i);
double made_power(int gpu, int i);
double made_used(int i);
// Records ticks [0, ticks) with the options (path and the rest set by the caller).
void made_recording(const struct al_store_options *o, int ticks);

#endif
