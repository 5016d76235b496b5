// SPDX-License-Identifier: Apache-2.0
// The Unix socket at which a running alula takes requests to its job: `alula ask`. One line goes there, lines come back:
//
//   alula ask 1 4242 empty-cache        4242: a rank, the command, or alula itself; 0: whatever runs
//   not mine                            then the next alula is asked
//   taken N                             it is: so many ranks are asked, each at its next step
//   freed RANK PID DEVICE BYTES NS      an answer of a device
//   summary RANK PID DEVICE LENGTH      so many bytes follow, and a newline
//   none RANK PID                       it uses no CUDA allocator
//   fault RANK PID                      it could not do it
//   gone RANK PID, late RANK PID        it ended; it came to no step in time
//   end                                 nothing further comes
#ifndef AL_LAUNCH_ASK_H
#define AL_LAUNCH_ASK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AL_ASK_CLIENTS 8
#define AL_ASK_NAME "ask"
#define AL_ASK_NOT_MINE "not mine\n"
#define AL_ASK_TAKEN "taken "
#define AL_ASK_END "end\n"

struct al_ask {
    int listen_fd; // -1: not open
    char path[100];
    struct {
        int fd; // -1 free
        bool asked;
        int64_t since_ns;
        size_t len;
        char line[96];
    } client[AL_ASK_CLIENTS];
};

struct al_ask_request {
    uint32_t client;
    pid_t pid;     // 0: any
    uint32_t bits; // enum al_request
};

// In the folder of al_link. AL_E_IO.
int al_ask_open(struct al_ask *a, const char *dir);
void al_ask_close(struct al_ask *a);
// Descriptors to wait for; returns how many, at most 1 + AL_ASK_CLIENTS.
uint32_t al_ask_poll(const struct al_ask *a, struct pollfd *ret);
// The next whole request: 0, or AL_E_AGAIN. Other users but root, and what is no request, are refused.
int al_ask_take(struct al_ask *a, int64_t now_ns, struct al_ask_request *ret);
// Never waits: a client that does not read is dropped. False when it is gone.
bool al_ask_reply(struct al_ask *a, uint32_t client, const char *text, size_t len);
void al_ask_done(struct al_ask *a, uint32_t client);

// enum al_request by its word ("memory-summary", "empty-cache"), 0 none; and back.
uint32_t al_ask_from_word(const char *word);
const char *al_ask_word(uint32_t bit);

// ---- the other side ----

// Asks every running alula of this user (root: of all users) until one takes it; *ret_fd is then a socket from which the
// answer is to be read. AL_E_NOENT: none has such a process; *ret_runs is how many run. AL_E_INVALID: pid is 0 and several run.
int al_ask_send(pid_t pid, uint32_t bit, int *ret_fd, uint32_t *ret_runs);

#endif
