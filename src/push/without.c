// SPDX-License-Identifier: Apache-2.0
// A build without libcurl's header.
#include <stdio.h>

#include "base/err.h"
#include "push/http.h"

int al_http_new(const struct al_http_options *o, struct al_http **ret, char *error, size_t size) {
    (void)o;
    *ret = NULL;
    (void)snprintf(error, size, "this alula was built without libcurl");
    return AL_E_UNSUPPORTED;
}

struct al_http *al_http_free(struct al_http *h) {
    (void)h;
    return NULL;
}

void al_http_post(struct al_http *h, const char *body, size_t len, struct al_http_answer *ret) {
    (void)h;
    (void)body;
    (void)len;
    *ret = (struct al_http_answer){.error = "built without libcurl"};
}
