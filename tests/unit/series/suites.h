// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_UNIT_SERIES_SUITES_H
#define AL_TESTS_UNIT_SERIES_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int window_suite(void);
int trend_suite(void);
int rate_suite(void);
int set_suite(void);
int change_suite(void);

// Repeatable random numbers; the seed is printed by whoever starts them (ALULA_SEED overrides).
uint64_t seed_of(const char *name);
uint64_t rand64(uint64_t *state);
double rand_unit(uint64_t *state); // 0..1
#define assert_close(a, b, tolerance) assert_close_at(a, b, tolerance, __FILE__, __LINE__)
void assert_close_at(double a, double b, double tolerance, const char *file, int line);

#endif
