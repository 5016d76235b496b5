// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "push/http.h"

#define FILE_MAX_BYTES (64 * 1024)

static const char *host_of(const char *url) {
    if (al_str_starts(url, "http://"))
        return url + strlen("http://");
    if (al_str_starts(url, "https://"))
        return url + strlen("https://");
    return NULL;
}

bool al_http_site(const char *url, char *out, size_t size) {
    const char *host = host_of(url);
    if (!host)
        return false;
    size_t len = strcspn(host, "/?#");
    size_t scheme = (size_t)(host - url);
    for (size_t i = len; i > 0; i--)
        if (host[i - 1] == '@') { // user:password@
            host += i;
            len -= i;
            break;
        }
    if (!len)
        return false;
    (void)snprintf(out, size, "%.*s%.*s", (int)scheme, url, (int)len, host);
    (void)al_str_clean(out);
    return true;
}

bool al_http_default_path(const char *url, const char *path, char *out, size_t size) {
    const char *host = host_of(url);
    if (!host || !*host)
        return false;
    size_t len = strcspn(host, "/?#");
    bool bare = host[len] == '\0' || strcmp(host + len, "/") == 0;
    int n = snprintf(out, size, "%.*s%s", (int)(host - url + (ptrdiff_t)len), url, bare ? path : host + len);
    return n > 0 && (size_t)n < size;
}

int al_http_secret_file(const char *path, char **ret_text, char *error, size_t size) {
    struct stat st;
    size_t len;
    *ret_text = NULL;
    if (stat(path, &st) == 0 && (st.st_mode & 0007)) {
        (void)snprintf(error, size, "%.200s: other users can read it; chmod 640 or 600", path);
        return AL_E_CONFIG;
    }
    int result = al_fs_slurp(path, FILE_MAX_BYTES, ret_text, &len);
    if (result) {
        (void)snprintf(error, size, "%.200s: %s", path, al_error_text(result));
        return AL_E_CONFIG;
    }
    return 0;
}
