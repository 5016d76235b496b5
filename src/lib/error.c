// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>

#include "alula-version.h"
#include "base/err.h"
#include "base/str.h"
#include "lib/tracker.h"
#include "model/status.h"

// The public numbers are the internal ones; a change here would break programs that were built before.
#define SAME_ERROR(name) _Static_assert((int)ALULA_E_##name == (int)AL_E_##name, "public error code")
#define SAME_STATUS(name) _Static_assert((int)ALULA_STATUS_##name == (int)AL_STATUS_##name, "public status")
SAME_ERROR(NOMEM);
SAME_ERROR(INVALID);
SAME_ERROR(DENIED);
SAME_ERROR(NOENT);
SAME_ERROR(NODRIVER);
SAME_ERROR(NOGPU);
SAME_ERROR(NOLIB);
SAME_ERROR(NOSYM);
SAME_ERROR(LOST);
SAME_ERROR(TIMEOUT);
SAME_ERROR(UNSUPPORTED);
SAME_ERROR(AGAIN);
SAME_ERROR(MISMATCH);
SAME_STATUS(UNREAD);
SAME_STATUS(OK);
SAME_STATUS(UNSUPPORTED);
SAME_STATUS(DENIED);
SAME_STATUS(STALE);
SAME_STATUS(LOST);

static _Thread_local char message[320];

int al_lib_fail(int error, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)al_str_clean(message);
    return error;
}

const char *alula_error_message(void) {
    return message;
}

const char *alula_error_text(int error) {
    return al_error_text(error);
}

const char *alula_status_text(uint32_t status) {
    return al_status_text(status);
}

const char *alula_version(void) {
    return AL_VERSION;
}
