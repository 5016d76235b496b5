// SPDX-License-Identifier: Apache-2.0
#ifndef AL_TEST_PUSH_SUITES_H
#define AL_TEST_PUSH_SUITES_H

int al_test_alerts(void);
int al_test_gzip(void);
int al_test_otlp(void);
int al_test_queue(void);
int al_test_url(void);

#endif
