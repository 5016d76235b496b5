// SPDX-License-Identifier: Apache-2.0
// libalula-probe.so: what alula brings into a training process. Every function may be called from any thread at any
// time; none blocks, fails loudly, prints, allocates memory after the start or touches signals. Without a collector at
// the socket named in ALULA_SOCKET, in a set-user-id program and in a fork child they do nothing.
#ifndef AL_PROBE_PROBE_H
#define AL_PROBE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_PROBE_EXPORT __attribute__((visibility("default")))

enum al_probe_state {
    AL_PROBE_STARTED = 1,   // a ring exists: a collector was there once
    AL_PROBE_CONNECTED = 2, // it is there now, as far as known
    AL_PROBE_INERT = 4      // for good: fork child, set-user-id, nothing to connect to
};

// One record, stamped now: enum al_event_kind and what model/event.h says of its fields. 1 written, 0 not.
AL_PROBE_EXPORT int alula_probe_mark(uint32_t kind, uint32_t code, int32_t device, int64_t a, int64_t b);
// enum al_text. What describes the process is said again to a collector that comes later.
AL_PROBE_EXPORT int alula_probe_text(uint32_t code, const char *bytes, size_t length);
// enum al_probe_state bits.
AL_PROBE_EXPORT int alula_probe_state(void);
// Steps that ended (done or skipped) since the start.
AL_PROBE_EXPORT int64_t alula_probe_steps(void);
// What the collector asks for since the last call, enum al_request bits; 0 as a rule, for the price of one load.
AL_PROBE_EXPORT uint32_t alula_probe_request(void);
// Whether a call of that would return any: inside of the probe, at each step.
bool al_probe_asked(void);
// Drops the inherited descriptors in a fork child (which is inert without it, too).
AL_PROBE_EXPORT void alula_probe_forked(void);

// alula attach: begins with another socket than the environment's, as if nothing had been before; and ends: nothing is
// written any more, the ring's memory and the descriptors are given back. 1 done.
AL_PROBE_EXPORT int alula_probe_attach(const char *path);
AL_PROBE_EXPORT void alula_probe_detach(void);

// True once HELLO was said in this process, by whatever way the probe came in.
bool al_probe_introduced(void);
// Says it, with the rank that the environment tells; for ways in that know nothing of a training loop.
void al_probe_introduce(void);

// A change of phase as one number, so that it costs one call: the phase that ends, then the step that ends, then the
// phase that begins, all with one time stamp and visible at once. Each field holds its value + 1, 0 for none.
#define AL_PROBE_TURN_END 0     // bits 0-7: enum al_phase_kind
#define AL_PROBE_TURN_BEGIN 8   // bits 8-15: enum al_phase_kind
#define AL_PROBE_TURN_STATE 16  // bits 16-23: enum al_step_state; its number is counted here, from 1
#define AL_PROBE_TURN_SAMPLES 24 // bits 24-55: samples in the step as they are, 0 unknown
#define AL_PROBE_TURN_LOOP 56 // bit 56: behind the phase that ends a trainer's own loop goes on
AL_PROBE_EXPORT int alula_probe_turn(uint64_t turn);

#endif
