// SPDX-License-Identifier: Apache-2.0
#include "job/end.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/signals.h"
#include "base/str.h"

#define TOGETHER_NS (200 * AL_NS_PER_MS) // ends within this are not put in an order by when they were seen alone

void al_book_status_words(int status, char *out, size_t size) {
    char name[32];
    if (WIFSIGNALED(status)) {
        al_signal_word(WTERMSIG(status), name, sizeof name);
        (void)snprintf(out, size, "%s%s", name, WCOREDUMP(status) ? " (core dumped)" : "");
    } else {
        (void)snprintf(out, size, "exit status %d", WEXITSTATUS(status));
    }
}

bool al_book_ended_well(const struct al_book_rank *k) {
    if (k->status_known && k->status != 0)
        return false;
    return !k->tally.text[AL_TEXT_ERROR][0] && !(k->tally.exited && k->tally.exit_kind != 0);
}

void al_book_cause(const struct al_book *book, const struct al_book_rank *k, char *out, size_t size) {
    const struct al_tally *t = &k->tally;
    struct al_buf b = AL_BUF_INIT;
    char words[64];
    if (t->text[AL_TEXT_ERROR][0]) {
        al_buf_str(&b, t->text[AL_TEXT_ERROR]);
        if (t->text[AL_TEXT_WHERE][0])
            al_buf_printf(&b, " (%s)", t->text[AL_TEXT_WHERE]);
    }
    if (k->status_known) {
        al_book_status_words(k->status, words, sizeof words);
        al_buf_printf(&b, "%s%s", b.len ? ", " : "", words);
    } else if (t->exited && t->exit_kind == 2) {
        al_signal_word((int)t->exit_value, words, sizeof words);
        al_buf_printf(&b, "%s%s", b.len ? ", " : "", words);
    } else if (!b.len) {
        al_buf_str(&b, t->exited ? "an exit of its own" : "a cause that left no trace (its parent took the status)");
    }
    bool killed = k->status_known && WIFSIGNALED(k->status) && WTERMSIG(k->status) == SIGKILL;
    if (killed && book->job.oom_kills)
        al_buf_str(&b, ": the kernel's out-of-memory killer was at work in the job's cgroup");
    (void)al_str_copy(out, size, b.data ? b.data : "");
    al_buf_free(&b);
}

// When it began to end: its own word, else when its end was seen.
static int64_t ended_at(const struct al_book_rank *k) {
    return k->tally.exited && k->tally.exit_ns && k->tally.exit_ns < k->ended_ns ? k->tally.exit_ns : k->ended_ns;
}

// What an end looks like when several come together: a signal out of nothing before an error of the rank's own, that
// before an error about a peer that went away, and last what a launcher does to the others, which is SIGTERM.
enum { BY_SIGNAL, BY_ITSELF, BY_PEER, BY_LAUNCHER };

static int kind_of_end(const struct al_book_rank *k) {
    static const char *const peers[] = {"onnection closed", "onnection reset", "onnection refused", "roken pipe",
                                        "NCCL", "remote process", "peer", "Store"};
    const char *error = k->tally.text[AL_TEXT_ERROR];
    int number = k->status_known && WIFSIGNALED(k->status) ? WTERMSIG(k->status) : 0;
    for (size_t i = 0; *error && i < sizeof peers / sizeof *peers; i++)
        if (strstr(error, peers[i]))
            return BY_PEER;
    if (number == SIGTERM && !*error)
        return BY_LAUNCHER;
    return !*error && (number == SIGKILL || number == SIGSEGV || number == SIGBUS) ? BY_SIGNAL : BY_ITSELF;
}

static bool together(const struct al_book_rank *a, const struct al_book_rank *b) {
    int64_t apart = ended_at(a) - ended_at(b);
    return apart < TOGETHER_NS && apart > -TOGETHER_NS;
}

static bool earlier(const struct al_book_rank *a, const struct al_book_rank *b) {
    if (together(a, b) && kind_of_end(a) != kind_of_end(b))
        return kind_of_end(a) < kind_of_end(b);
    return ended_at(a) < ended_at(b);
}

// sure: nobody else ended so close to it in the same way.
static const struct al_book_rank *first_dead(const struct al_book *book, bool *ret_sure) {
    const struct al_book_rank *first = NULL;
    for (uint32_t i = 0; i < book->rank_count; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (k->ended && !al_book_ended_well(k) && (!first || earlier(k, first)))
            first = k;
    }
    *ret_sure = true;
    for (uint32_t i = 0; i < book->rank_count && first; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (k != first && k->ended && !al_book_ended_well(k) && together(k, first) && kind_of_end(k) == kind_of_end(first))
            *ret_sure = false;
    }
    return first;
}

static void rank_name(struct al_buf *b, const struct al_book_rank *k) {
    if (k->tally.rank >= 0)
        al_buf_printf(b, "rank %lld (pid %d)", (long long)k->tally.rank, (int)k->pid);
    else
        al_buf_printf(b, "pid %d", (int)k->pid);
}

static void where(struct al_buf *b, const struct al_book_rank *k) {
    const struct al_tally *t = &k->tally;
    if (!al_tally_trains(t)) {
        al_buf_str(b, "before its first step");
        return;
    }
    enum al_phase_kind phase = al_tally_phase(t);
    if (phase != AL_IN_OTHER)
        al_buf_printf(b, "in %s of step %lld", al_part_word((int)phase), (long long)t->step + 1);
    else if (t->between)
        al_buf_printf(b, "between steps, after step %lld", (long long)t->step);
    else
        al_buf_printf(b, "outside every phase, in step %lld", (long long)t->step + 1);
}

bool al_book_out_of_memory(const struct al_book_rank *k, struct al_oom *ret, char *message, size_t size, char *advice,
                           size_t advice_size) {
    struct al_allocator a;
    if (!al_oom_parse(k->tally.text[AL_TEXT_ERROR], ret))
        return false;
    al_allocator_of(&k->tally, &a);
    al_oom_say(ret, &a, message, size, advice, advice_size);
    return true;
}

static void out_of_memory(struct al_buf *b, const struct al_book_rank *k) {
    char message[400], advice[320];
    struct al_oom o;
    if (!al_book_out_of_memory(k, &o, message, sizeof message, advice, sizeof advice))
        return;
    al_buf_str(b, "alula:   out of memory: ");
    al_term_string(b, message);
    al_buf_str(b, "\nalula:     do: ");
    al_term_string(b, advice);
    al_buf_char(b, '\n');
}

void al_book_post_mortem(const struct al_book *book, struct al_buf *b) {
    char words[700];
    bool sure = true;
    const struct al_book_rank *first = first_dead(book, &sure);
    if (book->job.status == 0 && !(book->job.attached && first))
        return;
    al_book_status_words(book->job.status, words, sizeof words);
    al_buf_printf(b, book->job.attached ? "alula: the job ended" : "alula: the job ended with %s", words);
    if (first) {
        al_buf_printf(b, "; %s: ", sure ? "first to die" : "first seen dead (others within 0.2 s, in the same way)");
        rank_name(b, first);
        al_book_cause(book, first, words, sizeof words);
        al_buf_str(b, ", of ");
        al_term_string(b, words);
    } else if (book->job.oom_kills) {
        al_buf_str(b, "; the kernel's out-of-memory killer was at work in its cgroup");
    }
    al_buf_char(b, '\n');
    if (first)
        out_of_memory(b, first);
    for (uint32_t i = 0, shown = 0; i < book->rank_count && shown < 64; i++) {
        const struct al_book_rank *k = book->ranks[i];
        if (!k->tally.hello && !al_tally_trains(&k->tally))
            continue;
        shown++;
        al_buf_str(b, "alula:   ");
        rank_name(b, k);
        al_buf_str(b, k->ended ? " was " : " is still alive, ");
        where(b, k);
        if (k != first && k->ended && !al_book_ended_well(k)) {
            al_book_cause(book, k, words, sizeof words);
            al_buf_str(b, "; ");
            al_term_string(b, words);
        }
        al_buf_char(b, '\n');
    }
}
