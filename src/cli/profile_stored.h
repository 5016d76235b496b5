// SPDX-License-Identifier: Apache-2.0
// Profiles into recordings and out of them.
#ifndef AL_CLI_PROFILE_STORED_H
#define AL_CLI_PROFILE_STORED_H

#include "cli/redact.h"
#include "export/profile.h"
#include "store/profiles.h"

// Creates a recording that is to hold profiles alone, or sees that what is there is one. *ret_fresh: it was created. AL_E_…, with
// the reason in *reterr.
int al_profile_recording(const char *path, int64_t start_realtime_ns, bool *ret_fresh, struct al_store_error *reterr);
// Adds the profile to a recording, its own or one that is being written.
int al_profile_store(const struct al_profile *p, const struct al_profile_about *about, const char *path, struct al_store_error *reterr);
// A profile of a recording; redact: NULL, or what takes names and folders out.
int al_profile_load(struct al_store *s, int64_t id, struct al_redact *redact, struct al_profile **ret, struct al_store_error *reterr);
// What a format is told of it; texts are the stored profile's and name's.
struct al_profile_about al_profile_stored_about(const struct al_store_profile *p, char *name, size_t size);
// The line of a profile in a list: when, whose, how long, and what most samples were met in.
void al_profile_line(struct al_buf *b, struct al_store *s, const struct al_store_profile *p);
// Copies all profiles whose time is in [from, to] (ns since the epoch) into another recording.
int al_profile_copy_all(struct al_store *s, const char *path, int64_t from_ns, int64_t to_ns, struct al_redact *redact,
                        struct al_store_error *reterr);

#endif
