// SPDX-License-Identifier: Apache-2.0
// One function a test file; main.c runs them all.
#ifndef AL_TEST_EXPORT_SUITES_H
#define AL_TEST_EXPORT_SUITES_H

extern const char *al_test_golden_dir; // tests/golden

int al_test_compat(void);
int al_test_flame(void);
int al_test_gpustat(void);
int al_test_hot(void);
int al_test_json(void);
int al_test_openmetrics(void);
int al_test_profile(void);
int al_test_ps(void);
int al_test_smi(void);
int al_test_smi_monitor(void);
int al_test_summary(void);
int al_test_tensorboard(void);

#endif
