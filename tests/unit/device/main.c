// SPDX-License-Identifier: Apache-2.0
#include "fake.h"

int main(void) {
    int failed = 0;
    failed += _cmocka_run_group_tests("device: calls", call_tests, call_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("device: discovery", discover_tests, discover_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("device: samples", sample_tests, sample_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("device: processes", process_tests, process_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("device: attributes", attr_tests, attr_test_count, NULL, NULL);
    failed += _cmocka_run_group_tests("device: replay", replay_tests, replay_test_count, NULL, NULL);
    failed += shared_suite();
    failed += standin_suite();
    return failed;
}
