// SPDX-License-Identifier: Apache-2.0
#include "stack/parts.h"

bool al_name_of(struct al_stack *s, struct al_slot *slot) {
    (void)s;
    (void)slot;
    return false;
}
