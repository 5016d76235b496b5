// SPDX-License-Identifier: Apache-2.0
// dict objects and attributes of instances of another interpreter, read with bounds. They may change meanwhile: what is
// found is a hint, checked by what it leads to.
#ifndef AL_STACK_CORE_DICT_H
#define AL_STACK_CORE_DICT_H

#include "stack/core/layout.h"
#include "stack/core/memory.h"

#define AL_DICT_MOST 200000u // entries that are looked at

// Calls each(user, key, value) for every entry, objects' addresses, until it says true. False: unreadable, or never
// true.
typedef bool al_dict_each_fn(void *user, uint64_t key, uint64_t value);
bool al_dict_walk(const struct al_memory *m, const struct al_layout *l, uint64_t dict, al_dict_each_fn *each,
                  void *user);
// The value of an ASCII key of at most 31 bytes. 0: none.
uint64_t al_dict_get(const struct al_memory *m, const struct al_layout *l, uint64_t dict, const char *key);
// An attribute that is kept in the instance (of a class written in Python). 0: none.
uint64_t al_attribute(const struct al_memory *m, const struct al_layout *l, uint64_t object, const char *name);
// A non-negative int below 2^64.
bool al_int_read(const struct al_memory *m, const struct al_layout *l, uint64_t object, uint64_t *ret);

#endif
