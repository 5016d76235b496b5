// SPDX-License-Identifier: Apache-2.0
#include "suite.h"

int main(void) {
    return parse_suite() + command_suite() + cgroup_suite() + roles_suite() + node_suite() + processes_suite() +
                   faults_suite() + replay_suite() + trainlog_suite() + memory_suite() + transport_suite()
               ? 1
               : 0;
}
