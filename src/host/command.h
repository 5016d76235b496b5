// SPDX-License-Identifier: Apache-2.0
// A process's command line made fit to show: one line, secrets masked, cut. Pure.
#ifndef AL_HOST_COMMAND_H
#define AL_HOST_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

// What runs: argv[0], or what a Python interpreter was told to run.
struct al_program {
    char exe[96];   // last part of argv[0], without a login shell's '-'
    char name[160]; // "/usr/bin/torchrun", "torch.distributed.run" (-m), the code (-c, its beginning), or argv[0]
    char verb[32];  // first argument behind it
};
// args[len]: /proc/PID/cmdline, arguments ended by NUL; args[len] itself must be NUL, as al_fs_read leaves it.
void al_program_parse(const char *args, size_t len, struct al_program *ret);

// Writes args as text: blanks between arguments, control bytes replaced, cut at a UTF-8 boundary. Values of options and
// variables whose name contains token, key, secret, password, passwd, credential or auth become "***", in the forms
// --x=V, --x V, X=V, "x": "V" and X: V; so does what stands before the '@' of a URL (behind the user's name, if any).
// Rather too much is masked than too little: --max_tokens loses its value as well.
void al_command_mask(const char *args, size_t len, char *out, size_t size);

// Whether what has this name is masked.
bool al_command_secret(const char *name);

#endif
