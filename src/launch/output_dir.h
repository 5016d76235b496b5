// SPDX-License-Identifier: Apache-2.0
// Where a training command says that it writes. Pure.
#ifndef AL_LAUNCH_OUTPUT_DIR_H
#define AL_LAUNCH_OUTPUT_DIR_H

// The value of the last --output_dir, --output-dir or --save (Megatron) option, in the forms --x V and --x=V; NULL when
// there is none. Points into argv.
const char *al_output_dir(char *const *argv);

#endif
