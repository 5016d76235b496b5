// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_STACK_SUITES_H
#define AL_TESTS_STACK_SUITES_H

int al_test_differ(void);
int al_test_layout(void);
int al_test_lines(void);
int al_test_local(void);
int al_test_maps(void);
int al_test_text(void);
int al_test_value(void);
int al_test_walk(void);

#endif
