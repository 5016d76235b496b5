// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TEST_JOB_SUITES_H
#define AL_TEST_JOB_SUITES_H

int test_book(void);
int test_keep(void);
int test_tree(void);
int test_compare(void);

#endif
