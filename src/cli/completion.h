// SPDX-License-Identifier: Apache-2.0
// The scripts of completion/ as text; tools/embed makes the source.
#ifndef AL_CLI_COMPLETION_H
#define AL_CLI_COMPLETION_H

extern const char al_completion_bash[], al_completion_zsh[], al_completion_fish[];

#endif
