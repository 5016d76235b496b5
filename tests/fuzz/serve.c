// SPDX-License-Identifier: Apache-2.0
// What a client may send, through each of our own readers of it: the first byte chooses. Results stay within their arrays,
// and what must never be taken is not: a Host that is a foreign name, a query with control bytes.
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "serve/request.h"
#include "serve/sha256.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void require(int condition) {
    if (!condition)
        abort();
}

static void query(const char *text) {
    static struct al_query q;
    if (al_query_parse(text, &q))
        return;
    require(q.path[0] == '/' && q.count <= AL_QUERY_MAX && memchr(q.path, '\0', sizeof q.path));
    for (uint32_t i = 0; i < q.count; i++) {
        require(memchr(q.items[i].name, '\0', sizeof q.items[i].name) && memchr(q.items[i].value, '\0', sizeof q.items[i].value));
        require(al_query_get(&q, q.items[i].name) == q.items[i].value);
        for (const char *c = q.items[i].value; *c; c++)
            require((unsigned char)*c >= 0x20 && *c != 0x7f);
        double t;
        (void)al_query_time(q.items[i].value, 1e9, &t);
    }
}

static void host(const char *text) {
    if (!al_host_allowed(text, "gpu1\ngpu1.example.org"))
        return;
    // An address, localhost or a name of ours: nothing else has letters beyond these.
    bool address = strspn(text, "0123456789.:[]abcdefABCDEF") == strlen(text);
    require(address || strncasecmp(text, "localhost", 9) == 0 || strncasecmp(text, "gpu1", 4) == 0);
}

static void credentials(const char *text) {
    struct al_credentials c;
    al_credentials_parse(text, &c);
    require(memchr(c.user, '\0', sizeof c.user) && memchr(c.secret, '\0', sizeof c.secret));
    require(c.scheme != AL_SCHEME_NONE || (!c.user[0] && !c.secret[0]));
    require(c.scheme != AL_SCHEME_BEARER || (!c.user[0] && c.secret[0]));
}

static void listen(const char *text) {
    char name[64];
    uint16_t port;
    if (!al_listen_parse(text, name, sizeof name, &port))
        require(memchr(name, '\0', sizeof name) && name[0]);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    uint8_t digest[AL_SHA256_SIZE];
    if (!size)
        return 0;
    char *text = malloc(size); // an exact size, so that a read beyond it shows
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 6) {
    case 0: query(text); break;
    case 1: host(text); break;
    case 2: credentials(text); break;
    case 3: listen(text); break;
    case 4: (void)al_accept_openmetrics(text); break;
    default: (void)al_sha256_from_hex(text, digest); break;
    }
    free(text);
    return 0;
}
