// SPDX-License-Identifier: Apache-2.0
// What a sampler saw: stacks as a tree of frames, how often each was met, and per thread in which order. And the formats
// that viewers read.
#ifndef AL_EXPORT_PROFILE_H
#define AL_EXPORT_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define AL_PROFILE_NONE UINT32_MAX

struct al_profile;

struct al_profile *al_profile_new(void); // NULL: no memory
void al_profile_free(struct al_profile *p);

// All four: AL_PROFILE_NONE, or AL_E_NOMEM, when there is no memory.
// The number of a frame; file "" and line 0: not known.
uint32_t al_profile_frame(struct al_profile *p, const char *name, const char *file, int32_t line);
// Where the frame's function begins: lines of one function are told from those of others by it.
void al_profile_first_line(struct al_profile *p, uint32_t frame, int32_t line);
// The stack that has `frame` on top of `parent` (AL_PROFILE_NONE: it is the root).
uint32_t al_profile_stack(struct al_profile *p, uint32_t parent, uint32_t frame);
// A thread, in the order of their coming.
uint32_t al_profile_track(struct al_profile *p, const char *name);
int al_profile_add(struct al_profile *p, uint32_t track, uint32_t stack);

uint64_t al_profile_samples(const struct al_profile *p); // added
uint32_t al_profile_tracks(const struct al_profile *p);

// One line a stack: "root;...;leaf COUNT", each frame as "name (file:line)", for flamegraph.pl, inferno, speedscope.
// AL_E_NOMEM.
int al_folded(struct al_buf *b, const struct al_profile *p);
// https://www.speedscope.app/file-format-schema.json: a profile a thread, its samples in the order of time, in seconds.
int al_speedscope(struct al_buf *b, const struct al_profile *p, const char *name, double seconds_a_sample,
                  const char *exporter);

#endif
