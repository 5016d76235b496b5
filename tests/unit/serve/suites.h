// SPDX-License-Identifier: Apache-2.0
// One function a test file; main.c runs them all.
#ifndef AL_TEST_SERVE_SUITES_H
#define AL_TEST_SERVE_SUITES_H

int al_test_auth(void);
int al_test_notify(void);
int al_test_request(void);
int al_test_sha256(void);

#endif
