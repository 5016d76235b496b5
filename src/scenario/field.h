// SPDX-License-Identifier: Apache-2.0
// What lines of a scenario say besides figures.
#ifndef AL_SCENARIO_FIELD_H
#define AL_SCENARIO_FIELD_H

#include <stddef.h>

// Keys of a proc, rank or look line that are not figures: where they live in struct al_proc, al_rank or al_look.
struct al_proc_field {
    const char *name;
    char type; // 't' text, 'u' u64, 'i' i32, 'p' pid, 'b' bool, 'c' one character, 'r' role, 'd' date
    size_t offset, size;
};
extern const struct al_proc_field al_scenario_proc_fields[];
size_t al_scenario_proc_field_count(void);
#define AL_SCENARIO_RANK_FIELDS 7
extern const struct al_proc_field al_scenario_rank_fields[AL_SCENARIO_RANK_FIELDS];
#define AL_SCENARIO_LOOK_FIELDS 11
extern const struct al_proc_field al_scenario_look_fields[AL_SCENARIO_LOOK_FIELDS];

#endif
