// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TESTS_UNWIND_SUITES_H
#define AL_TESTS_UNWIND_SUITES_H

int al_test_capture(void);
int al_test_capture_stop(void);
int al_test_merge(void);
int al_test_names(void);
int al_test_rule(void);

#endif
