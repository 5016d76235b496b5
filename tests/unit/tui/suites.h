// SPDX-License-Identifier: Apache-2.0
#ifndef TEST_TUI_SUITES_H
#define TEST_TUI_SUITES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tui/tui.h"

int cell_suite(void);
int layout_suite(void);
int history_suite(void);
int scene_suite(void);
int ui_suite(void);
int frame_suite(void);
int stacks_suite(void);

#define S AL_NS_PER_S
#define GIB (1024.0 * 1024 * 1024)

// A machine with GPUs that work and one job: launcher 100, ranks 200, 201 ..., two workers below each.
struct world {
    struct al_snapshot *s;
    struct al_history *history;
    struct al_finding findings[8];
    struct al_tui tui;
    struct al_scene_in in;
};
void world_make(struct world *w, int gpus, bool job);
void world_free(struct world *w);
// Another reading `ns` later.
void world_tick(struct world *w, int64_t ns);
struct al_proc *world_proc(struct world *w, pid_t pid, pid_t ppid, enum al_role role, const char *command);
struct al_finding *world_finding(struct world *w, enum al_level level, int gpu, const char *title, const char *message);
// The frame as text; valid until the next call.
const char *world_text(struct world *w, int columns, int rows);
uint64_t next_random(uint64_t *state);

#endif
