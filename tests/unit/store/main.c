// SPDX-License-Identifier: Apache-2.0
#include "suites.h"

int main(void) {
    return test_column() + test_chunk() + test_file() + test_replay() + test_age() + test_marks() + test_profiles();
}
