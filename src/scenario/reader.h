// SPDX-License-Identifier: Apache-2.0
// Cuts a scenario's text into lines and words, and remembers where it is for the error message.
#ifndef AL_SCENARIO_READER_H
#define AL_SCENARIO_READER_H

#include "scenario/parts.h"

#define AL_WORD_MAX 1024

// One blank-separated word: "key=value", or key alone. Quotes and escapes are taken off.
struct al_word {
    int key_column, value_column;
    bool has_value;
    char key[AL_WORD_MAX], value[AL_WORD_MAX];
};

// Finds the place of a process or row by number; slots of key 0 are free.
struct al_index {
    struct al_index_slot {
        uint64_t key;
        uint32_t value;
    } *slot;
    size_t cap, count;
};

struct al_reader {
    const char *at, *line_start, *line_end, *end;
    int line;
    int64_t time_ns; // of the block
    bool timed;      // a time line was seen
    bool describing; // a gpu line of the head: the GPU need not exist yet
    struct al_word word;
    struct al_index procs, rows, ranks, looks;
    struct al_scenario *s;
    struct al_scenario_error *error;
};

// Takes the next line that holds a word; false at the end. Comments and empty lines are skipped.
bool al_reader_line(struct al_reader *r);
// Reads the next word of the line into r->word: 1, 0 at the line's end, negative on an error.
int al_reader_word(struct al_reader *r);
// As al_reader_word, but its absence is an error: "<what> is missing here".
int al_reader_need(struct al_reader *r, const char *what);
// Nothing but a comment may follow.
int al_reader_done(struct al_reader *r);
// Sets the error once and returns AL_E_FORMAT.
int al_reader_fail(struct al_reader *r, int column, const char *format, ...) __attribute__((format(printf, 3, 4)));

// "12.5s" to ns, within the bounds of a scenario. AL_E_FORMAT with the error set.
int al_read_time(struct al_reader *r, const char *text, int column, int64_t *ret_ns);
// A number in `unit`: bare numbers are in the base unit, 0x… is accepted.
int al_read_number(struct al_reader *r, const char *text, int column, enum al_unit unit, double *ret);
// "0-3,5" and "0/1": GPUs and MIG devices by number.
int al_read_gpus(struct al_reader *r, const char *text, int column, struct al_gpu_mask *ret);
int al_read_whole(struct al_reader *r, const char *text, int column, uint64_t max, uint64_t *ret);
// value := NUMBER[!stale] | A..B/DURATION | !STATUS, into the event's a, b, ramp_ns and status.
int al_read_track(struct al_reader *r, const char *text, int column, enum al_unit unit, struct al_change *ret);
// "!denied": 1 and the status, 0 when the text is no status word, negative when it names none.
int al_read_status(struct al_reader *r, const char *text, int column, uint8_t *ret);

// The word must be key=value.
int al_need_pair(struct al_reader *r);
int al_read_pid(struct al_reader *r, uint64_t *ret);
// The word's value as a field's, into the change's a, text or ramp_ns.
int al_read_field(struct al_reader *r, const struct al_proc_field *f, struct al_change *e);
int al_find_metric(const struct al_metric_info *table, int count, const char *name); // -1

// Adds to the scenario; AL_E_NOMEM or AL_E_TOOBIG.
int al_add_event(struct al_reader *r, struct al_change e);
int al_add_mask(struct al_scenario *s, const struct al_gpu_mask *m, uint32_t *ret);
int al_add_text(struct al_scenario *s, const char *text, uint32_t *ret);
// The slot of a key (> 0), made when it is new with value UINT32_MAX; NULL when memory is out.
struct al_index_slot *al_index_slot(struct al_index *x, uint64_t key);
// Grows *array to hold count + 1 items of `size` bytes; AL_E_NOMEM.
int al_grow(void *array, size_t *cap, size_t count, size_t size);

// The lines, by their first word: 1 when `verb` begins one of theirs and it was read, 0 when not, negative on an error.
int al_parse_head_line(struct al_reader *r, const char *verb);
int al_parse_head_end(struct al_reader *r);
int al_parse_device_line(struct al_reader *r, const char *verb);
int al_parse_process_line(struct al_reader *r, const char *verb);
int al_parse_rank_line(struct al_reader *r, const char *verb);
int al_parse_look_line(struct al_reader *r, const char *verb);
// Those that may stand in the head too: attr, fault, hang.
int al_parse_common_line(struct al_reader *r, const char *verb);

#endif
