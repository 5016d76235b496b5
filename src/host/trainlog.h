// SPDX-License-Identifier: Apache-2.0
// ms-swift's logging.jsonl: what the trainer says of its own speed and memory, to be shown beside what was measured.
//
// Two writers: the Hugging Face one ("global_step/max_steps", written by rank 0) and Megatron's ("iteration", written by
// the last rank). Two speed keys, one the inverse of the other: train_speed(iter/s) up to 3.12.4, train_speed(s/it) from
// 3.12.5. Both are means since the trainer began. Numbers may be strings, times are text ("1m 0s"), and the last line is a
// summary of any length that need not end with a newline. The file is untrusted.
#ifndef AL_HOST_TRAINLOG_H
#define AL_HOST_TRAINLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AL_TRAINLOG_LINE 65536 // bytes of a line that are looked at

enum al_trainlog_writer { AL_TRAINLOG_NO_WRITER, AL_TRAINLOG_HF, AL_TRAINLOG_MEGATRON };
enum al_trainlog_speed { AL_TRAINLOG_NO_SPEED, AL_TRAINLOG_ITER_S, AL_TRAINLOG_S_IT };

// What the lines so far say; of each figure the last. NaN: not told.
struct al_trainlog {
    uint64_t lines, steps, damaged; // steps: lines with a speed; damaged: no JSON object
    enum al_trainlog_writer writer;
    enum al_trainlog_speed speed_key;
    bool old_speed_after_resume; // the first step told is far beyond a first one, and the key is iter/s
    int64_t first_step, step, steps_of_all; // -1
    double steps_per_second; // by the speed key, whichever it is
    double elapsed_seconds, remaining_seconds;
    double memory_gib; // the greatest max_memory_reserved() so far: it never falls
    double loss;
    double train_runtime, train_samples_per_second, train_steps_per_second; // of the closing line
};

void al_trainlog_init(struct al_trainlog *l);
// One line without its newline; `cut`: it goes on, and what is there is looked at.
void al_trainlog_line(struct al_trainlog *l, const char *text, size_t len, bool cut);
// "1d 2h 3m 4s", "34s", "12.5"; false when it is none of these.
bool al_trainlog_seconds(const char *text, double *ret);

// The file, followed while it grows.
struct al_trainlog_tail {
    int fd; // -1: not open
    char *line; // AL_TRAINLOG_LINE
    size_t len;
    bool skips; // the rest of a long line
};

// The log that a trainer keeps in `folder` or in its newest folder v<k>-<date> and that was written to since that time.
// AL_E_NOENT: none (yet).
int al_trainlog_find(const char *folder, int64_t since_realtime_ns, char *out, size_t size);
int al_trainlog_open(struct al_trainlog_tail *t, const char *path);
// Reads what is new, at most `most` bytes; returns how many. `ended`: a line without its newline counts too.
size_t al_trainlog_read(struct al_trainlog_tail *t, struct al_trainlog *l, size_t most, bool ended);
void al_trainlog_close(struct al_trainlog_tail *t);

#endif
