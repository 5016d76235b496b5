// SPDX-License-Identifier: Apache-2.0
// What a Python stack is about, by the names of its functions and files. Pure.
#ifndef AL_DETECT_FRAMES_H
#define AL_DETECT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "model/look.h"

struct al_frame {
    const char *file, *name; // as the code object has them; never NULL
    int32_t line;
};

// Whose code a file is.
enum al_frames_owner {
    AL_FRAMES_USER,    // what the user can change
    AL_FRAMES_PACKAGE, // installed: transformers, ms-swift, trl, datasets ...
    AL_FRAMES_CORE     // torch, numpy, the standard library: never worth naming where there is another
};
enum al_frames_owner al_frames_owner(const char *file);

struct al_frames {
    enum al_look_kind kind;
    bool worker; // the stack of a DataLoader worker: what it was forked from is left out
    bool waits;  // a worker that has nothing to do
    int line;    // position of the frame to name; -1 none
    int name;    // of the function that it belongs to: that around a comprehension or generator expression; -1 none
    int call;    // of what is called from there, or of what made the kind; -1 none
    bool leaf;   // the named frame is the innermost: it runs itself, or calls native code
};

// frames: innermost first.
void al_frames_judge(const struct al_frame *frames, uint32_t count, struct al_frames *ret);
// What a source line calls natively, of which no frame tells: ".item()" and its like. Returns the call's words and sets
// *ret_kind; NULL: none that is known.
const char *al_frames_native_call(const char *source, enum al_look_kind *ret_kind);

#endif
