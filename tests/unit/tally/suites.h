// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_UNIT_TALLY_SUITES_H
#define AL_TESTS_UNIT_TALLY_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int tally_suite(void);
int floor_suite(void);
int rises_suite(void);
int mfu_suite(void);
int nccl_suite(void);
int spread_suite(void);

#endif
