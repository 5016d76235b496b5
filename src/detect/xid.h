// SPDX-License-Identifier: Apache-2.0
// What Xid codes mean for somebody who trains or serves: own words, after NVIDIA's Xid catalog (docs.nvidia.com/deploy/
// xid-errors, revision of 2025, data-centre column) for code, cause and immediate action.
#ifndef AL_DETECT_XID_H
#define AL_DETECT_XID_H

#include <stdint.h>

#include "model/finding.h"

enum al_xid_class {
    AL_XID_APPLICATION, // the program did something that the GPU refuses
    AL_XID_HARDWARE,
    AL_XID_LINK,
    AL_XID_DRIVER, // driver or firmware
    AL_XID_FOLLOWS // tells of another event
};

struct al_xid_info {
    uint32_t code;
    enum al_xid_class class;
    enum al_level level;
    const char *meaning; // a clause
    const char *action;
};

// The row of a code; for one that is not in the table, a row that says so.
const struct al_xid_info *al_xid_info(uint32_t code);
const char *al_xid_class_word(enum al_xid_class c);
// All rows, for documentation; *ret_count of them.
const struct al_xid_info *al_xid_table(uint32_t *ret_count);

#endif
