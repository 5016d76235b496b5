// SPDX-License-Identifier: Apache-2.0
#include "world.h"

int main(void)
{
    return settings_suite() + engine_suite() + inefficient_suite() + inefficient_ranks_suite() + inefficient_bursts_suite() +
           memory_suite() + uneven_suite() +
           throttled_suite() + link_suite() + hardware_suite() + orphan_suite() + contexts_suite() +
           host_memory_suite() + sensor_suite() + steps_suite() + steps_memory_suite() + oom_suite() + advice_suite() +
           steps_transport_suite() + frames_suite() + look_suite();
}
