// SPDX-License-Identifier: Apache-2.0
// The service of a build without libmicrohttpd's header.
#include <stdio.h>

#include "base/err.h"
#include "serve/serve.h"

int al_serve_new(const struct al_serve_options *o, struct al_serve **ret, char *error, size_t size) {
    (void)o;
    *ret = NULL;
    (void)snprintf(error, size, "this alula was built without libmicrohttpd");
    return AL_E_UNSUPPORTED;
}

const char *al_serve_url(const struct al_serve *s) {
    (void)s;
    return "";
}

struct al_sink *al_serve_sink(struct al_serve *s) {
    (void)s;
    return NULL;
}

void al_serve_reload(struct al_serve *s) {
    (void)s;
}

struct al_serve *al_serve_free(struct al_serve *s) {
    (void)s;
    return NULL;
}
