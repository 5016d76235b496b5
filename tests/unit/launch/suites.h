// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_UNIT_LAUNCH_SUITES_H
#define AL_TESTS_UNIT_LAUNCH_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int ask_suite(void);
int link_suite(void);
int end_suite(void);
int board_suite(void);
int inject_suite(void);

#endif
