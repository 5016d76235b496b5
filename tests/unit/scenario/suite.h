// SPDX-License-Identifier: Apache-2.0
#ifndef SUITE_H
#define SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scenario/scenario.h"

#define S INT64_C(1000000000)

int errors_suite(void);
int play_suite(void);
int print_suite(void);

// Parses text that must be right; fails the test with the place when it is not.
struct al_scenario *parsed(const char *text);

#endif
