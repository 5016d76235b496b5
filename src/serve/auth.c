// SPDX-License-Identifier: Apache-2.0
#include "serve/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/dl.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "serve/request.h"
#include "serve/sha256.h"

#define FILE_MAX_BYTES 65536
#define ENTRIES_MAX 256
#define TOKEN_MIN 16
#define HASHES_A_SECOND 5 // wrong passwords against crypt hashes, which take up to 0.1 s each by design

struct entry {
    char user[64];                // "" for a token
    uint8_t digest[AL_SHA256_SIZE]; // of the secret; of the last right one with crypt
    bool have_digest;
    char crypt[128];              // "" when the secret itself or its digest is known
};

struct al_auth {
    struct entry *entries;
    uint32_t count;
    char *(*crypt)(const char *key, const char *salt);
    void *crypt_library;
    double hashes; // that may be computed now
    int64_t refilled_ns;
};

static int load_crypt(struct al_auth *a) {
    static const char *const paths[] = {"libcrypt.so.1", "libcrypt.so.2", NULL};
    static const struct al_dl_symbol symbols[] = {{"crypt", 0, true}};
    const char *path, *missing;
    char error[128];
    if (a->crypt)
        return 0;
    int result = al_dl_open(paths, &a->crypt_library, &path, error, sizeof error);
    return result ? result : al_dl_resolve(a->crypt_library, symbols, 1, &a->crypt, &missing);
}

static int take_secret(struct al_auth *a, struct entry *e, const char *secret) {
    if (al_str_starts(secret, "sha256:")) {
        e->have_digest = al_sha256_from_hex(secret + 7, e->digest);
        return e->have_digest ? 0 : AL_E_FORMAT;
    }
    if (e->user[0] && secret[0] == '$') {
        if (!al_str_copy(e->crypt, sizeof e->crypt, secret))
            return AL_E_FORMAT;
        return load_crypt(a);
    }
    if (strlen(secret) < (e->user[0] ? 1 : TOKEN_MIN) || strlen(secret) > 255)
        return AL_E_FORMAT;
    al_sha256(secret, strlen(secret), e->digest);
    e->have_digest = true;
    return 0;
}

static int take_line(struct al_auth *a, char *line, bool users) {
    struct entry e = {0};
    const char *secret = line;
    if (users) {
        char *colon = strchr(line, ':');
        if (!colon || colon == line || !al_str_copy_n(e.user, sizeof e.user, line, (size_t)(colon - line)))
            return AL_E_FORMAT;
        secret = colon + 1;
    }
    int result = take_secret(a, &e, secret);
    if (result)
        return result;
    if (a->count == ENTRIES_MAX)
        return AL_E_TOOBIG;
    a->entries[a->count++] = e;
    return 0;
}

static int complain(char *error, size_t size, const char *path, int line, const char *what) {
    if (line)
        (void)snprintf(error, size, "%s:%d: %s", path, line, what);
    else
        (void)snprintf(error, size, "%s: %s", path, what);
    return AL_E_CONFIG;
}

static const char *line_error(int result, bool users) {
    if (result == AL_E_NOLIB || result == AL_E_NOSYM)
        return "libcrypt.so.1 is needed for this kind of hash and was not found";
    if (result == AL_E_TOOBIG)
        return "too many entries";
    return users ? "expected name:password, name:sha256:HEX or name:$…, a crypt(5) hash"
                 : "expected a token of 16 characters or more, or sha256:HEX";
}

bool al_auth_file_open_to_others(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & 0007);
}

static int load_file(struct al_auth *a, const char *path, bool users, char *error, size_t size) {
    char *text = NULL, *rest = NULL;
    size_t len;
    if (al_auth_file_open_to_others(path))
        return complain(error, size, path, 0, "other users can read it; chmod 640 or 600");
    int result = al_fs_slurp(path, FILE_MAX_BYTES, &text, &len);
    if (result || !text)
        return complain(error, size, path, 0, al_error_text(result));
    int number = 0;
    // strsep keeps empty lines, so that the numbers hold.
    rest = text;
    for (char *line; !result && (line = strsep(&rest, "\n"));) {
        number++;
        line[strcspn(line, "\r")] = '\0';
        if (!*line || *line == '#')
            continue;
        result = take_line(a, line, users);
        if (result)
            (void)complain(error, size, path, number, line_error(result, users));
    }
    if (!result && !a->count)
        result = complain(error, size, path, 0, "holds no entry");
    explicit_bzero(text, len);
    free(text);
    return result ? AL_E_CONFIG : 0;
}

int al_auth_load(const char *tokens_path, const char *users_path, struct al_auth **ret, char *error, size_t size) {
    struct al_auth *a = calloc(1, sizeof *a);
    int result = 0;
    (void)snprintf(error, size, "%s", al_error_text(AL_E_NOMEM));
    if (!a)
        return AL_E_NOMEM;
    a->hashes = HASHES_A_SECOND;
    a->entries = calloc(ENTRIES_MAX, sizeof *a->entries);
    if (!a->entries)
        result = AL_E_NOMEM;
    if (!result && tokens_path && *tokens_path)
        result = load_file(a, tokens_path, false, error, size);
    if (!result && users_path && *users_path)
        result = load_file(a, users_path, true, error, size);
    if (result)
        a = al_auth_free(a);
    else
        error[0] = '\0';
    *ret = a;
    return result;
}

struct al_auth *al_auth_free(struct al_auth *a) {
    if (a) {
        if (a->entries)
            explicit_bzero(a->entries, ENTRIES_MAX * sizeof *a->entries);
        free(a->entries);
        free(a); // libcrypt stays loaded: it is small, and closing it gains nothing
    }
    return NULL;
}

bool al_auth_any(const struct al_auth *a) {
    return a && a->count;
}

static enum al_auth_answer check_crypt(struct al_auth *a, struct entry *e, const char *secret,
                                       const uint8_t digest[AL_SHA256_SIZE], int64_t now_ns) {
    uint8_t want[AL_SHA256_SIZE], got[AL_SHA256_SIZE];
    double hashes = a->hashes + (double)(now_ns - a->refilled_ns) / AL_NS_PER_S * HASHES_A_SECOND;
    a->hashes = hashes > HASHES_A_SECOND ? HASHES_A_SECOND : hashes;
    a->refilled_ns = now_ns;
    if (a->hashes < 1)
        return AL_AUTH_LATER;
    const char *hash = a->crypt(secret, e->crypt);
    if (!hash)
        hash = "*";
    al_sha256(hash, strlen(hash), got);
    al_sha256(e->crypt, strlen(e->crypt), want);
    if (!al_sha256_equal(got, want)) {
        a->hashes -= 1;
        return AL_AUTH_WRONG;
    }
    // The next request with this password need not compute it again.
    memcpy(e->digest, digest, AL_SHA256_SIZE);
    e->have_digest = true;
    return AL_AUTH_RIGHT;
}

enum al_auth_answer al_auth_check(struct al_auth *a, const char *authorization, int64_t now_ns) {
    struct al_credentials c;
    uint8_t digest[AL_SHA256_SIZE];
    enum al_auth_answer answer = AL_AUTH_WRONG;
    if (!al_auth_any(a) || !authorization)
        return AL_AUTH_ABSENT;
    al_credentials_parse(authorization, &c);
    al_sha256(c.secret, strlen(c.secret), digest);
    // All entries are looked at: the time tells nothing of which one was nearly right.
    for (uint32_t i = 0; i < a->count; i++) {
        struct entry *e = &a->entries[i];
        bool same = al_sha256_equal(digest, e->digest) && e->have_digest;
        bool named = strcmp(e->user, c.user) == 0 && (e->user[0] != '\0') == (c.scheme == AL_SCHEME_BASIC);
        if (same && named && c.scheme != AL_SCHEME_NONE)
            answer = AL_AUTH_RIGHT;
        else if (named && e->crypt[0] && answer != AL_AUTH_RIGHT)
            answer = check_crypt(a, e, c.secret, digest, now_ns);
    }
    explicit_bzero(&c, sizeof c);
    return answer;
}
