// SPDX-License-Identifier: Apache-2.0
// Messages that wait to be sent, oldest first: in memory, and in a folder where there is one. Bounded in both; the
// oldest give way and are counted. One thread only.
#ifndef AL_PUSH_QUEUE_H
#define AL_PUSH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_queue;

// folder "": memory only. Makes the folder (0700; those above it, too), takes over what an earlier run left there, and
// locks it against a second one. With the reason in error[size]: AL_E_DENIED not ours or not writable, AL_E_AGAIN in use.
int al_queue_new(const char *folder, uint64_t max_bytes, struct al_queue **ret, char *error, size_t size);
struct al_queue *al_queue_free(struct al_queue *q); // what is in memory only is lost: al_queue_keep first
// Copies the body. keep: to the folder at once, so that it survives a kill; else with al_queue_keep. Fails only by
// AL_E_NOMEM and AL_E_TOOBIG (more than max_bytes, or than memory takes and there is no folder).
int al_queue_add(struct al_queue *q, const char *body, size_t len, bool keep);
// Brings everything that is only in memory to the folder; what does not fit on the disk stays in memory.
void al_queue_keep(struct al_queue *q);
// The oldest message, valid until the next call; false when there is none.
bool al_queue_head(struct al_queue *q, const char **ret_body, size_t *ret_len);
void al_queue_pop(struct al_queue *q);
size_t al_queue_count(const struct al_queue *q);
uint64_t al_queue_bytes(const struct al_queue *q);
uint64_t al_queue_dropped(const struct al_queue *q); // given up for room or because a file could not be read

#endif
