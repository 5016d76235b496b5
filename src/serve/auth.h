// SPDX-License-Identifier: Apache-2.0
// Who may see more: bearer tokens and users with passwords, from files that only their owner's group can read. Tokens
// file: a token a line, as it is (16 characters or more) or as "sha256:HEX". Users file: "name:SECRET" a line, SECRET
// as it is, "sha256:HEX", or a crypt(5) hash such as htpasswd and mkpasswd make ("$2y$…", "$6$…", "$y$…"). '#' begins a
// comment line.
#ifndef AL_SERVE_AUTH_H
#define AL_SERVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct al_auth;

enum al_auth_answer {
    AL_AUTH_ABSENT, // no credentials came
    AL_AUTH_RIGHT,
    AL_AUTH_WRONG,
    AL_AUTH_LATER,  // too many wrong passwords of late: hashes cost time, so they are not computed without end
};

// Either path may be NULL or "": with neither there are no credentials, and every header is ABSENT. AL_E_CONFIG with
// the reason in error[size]: file unreadable, open to others, a line that is no entry.
int al_auth_load(const char *tokens_path, const char *users_path, struct al_auth **ret, char *error, size_t size);
struct al_auth *al_auth_free(struct al_auth *a);
bool al_auth_any(const struct al_auth *a);
// authorization: the header, NULL when there is none.
enum al_auth_answer al_auth_check(struct al_auth *a, const char *authorization, int64_t now_ns);
// A file whose mode lets everybody read or write it holds no secret.
bool al_auth_file_open_to_others(const char *path);

#endif
