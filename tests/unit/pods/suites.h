// SPDX-License-Identifier: Apache-2.0
// One function a test file; main.c runs them all.
#ifndef AL_TEST_PODS_SUITES_H
#define AL_TEST_PODS_SUITES_H

int al_test_h2(void);
int al_test_list(void);

#endif
