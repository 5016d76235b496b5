// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

const char *al_error_text(int error) {
    switch (error) {
    case 0: return "ok";
#define X(name, code, status, text)                                                                                    \
    case AL_E_##name: return text;
        AL_ERRORS(X)
#undef X
    default: return "unknown error";
    }
}

int al_error_exit_status(int error) {
    switch (error) {
    case 0: return 0;
#define X(name, code, status, text)                                                                                    \
    case AL_E_##name: return status;
        AL_ERRORS(X)
#undef X
    default: return 1;
    }
}
