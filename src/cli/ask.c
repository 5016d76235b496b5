// SPDX-License-Identifier: Apache-2.0
// alula ask: something that a running job's process does at its next step's end.
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "base/units.h"
#include "cli/cli.h"
#include "detect/say.h"
#include "export/summary.h"
#include "launch/ask.h"

#define ANSWER_MOST (16 << 20) // bytes of one answer
#define WAIT_S 60.0

enum { OPT_JSON = 1, OPT_TIMEOUT };

static const char help[] =
    "Usage: alula ask [PID] memory-summary|empty-cache [options]\n"
    "Asks a job that alula run watches for something that only its own processes can do. They do it between two steps: a job\n"
    "that hangs does nothing. PID is a rank, a launcher, the command or alula run itself; it may be left out when one runs.\n\n"
    "  memory-summary      torch.cuda.memory_summary() of each rank and device\n"
    "  empty-cache         torch.cuda.empty_cache() in each rank: what came back, and how long it took. The GPU is waited for, and\n"
    "                      the next steps allocate again: between tasks it makes room, between steps it only costs\n"
    "  --json              as JSON, the summary's rows as numbers\n"
    "  --timeout TIME      wait so long for the next step's end (default 60s)\n"
    "  --help              this text\n\n"
    "Examples:\n"
    "  alula ask memory-summary\n"
    "  alula ask 4242 empty-cache\n"
    "  alula ask 4242 memory-summary --json | jq '.answers[].summary.reserved_bytes.current'\n"
    "\nExit status: 0 all answered; 1 some rank did not (in time); 2 bad option; 5 no such job runs under alula.\n";

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"help", no_argument, NULL, AL_OPT_HELP},
    {0},
};

struct ask {
    uint64_t pid;
    uint32_t bit;
    bool json;
    double timeout;
    int count, failed; // answers
};

// One answer's words: "freed 0 4242 0 1234 5678".
struct answer {
    char word[16];
    int64_t number[5];
    int count;
};

static bool split(const char *line, size_t len, struct answer *a) {
    char text[128];
    if (!al_str_copy_n(text, sizeof text, line, len))
        return false;
    char *p = text;
    size_t word = strcspn(p, " ");
    if (!al_str_copy_n(a->word, sizeof a->word, p, word))
        return false;
    a->count = 0;
    for (p += word; *p && a->count < 5; a->count++) {
        char number[24];
        size_t digits = strcspn(++p, " ");
        if (!al_str_copy_n(number, sizeof number, p, digits) || !al_str_i64(number, &a->number[a->count]))
            return false;
        p += digits;
    }
    return true;
}

static void who(struct al_buf *b, const struct answer *a) {
    if (a->number[0] >= 0)
        al_buf_printf(b, "rank %lld (pid %lld)", (long long)a->number[0], (long long)a->number[1]);
    else
        al_buf_printf(b, "pid %lld", (long long)a->number[1]);
}

static const char *trouble(const char *word) {
    static const struct {
        const char *word, *text;
    } texts[] = {{"none", "no CUDA allocator: torch has not initialised CUDA in it"},
                 {"fault", "it could not do it; ALULA_HOOK_LOG of the job tells why"},
                 {"gone", "it ended before its next step"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].word, word) == 0)
            return texts[i].text;
    return NULL;
}

static void say(struct al_buf *b, const struct answer *a, const char *text, size_t len) {
    who(b, a);
    if (trouble(a->word)) {
        al_buf_printf(b, ": %s\n", trouble(a->word));
        return;
    }
    if (strcmp(a->word, "freed") == 0) {
        char took[32];
        (void)al_fmt_duration(took, sizeof took, (double)a->number[4] / 1e9);
        al_buf_printf(b, " cuda:%lld: %s given back, in %s\n", (long long)a->number[2], al_say_bytes((double)a->number[3]).s,
                      took);
        return;
    }
    al_buf_printf(b, " cuda:%lld:\n", (long long)a->number[2]);
    for (const char *end, *p = text; p < text + len; p = end + 1) {
        char line[256];
        end = memchr(p, '\n', (size_t)(text + len - p));
        if (!end)
            end = text + len;
        (void)al_str_copy_n(line, sizeof line, p, (size_t)(end - p));
        al_term_string(b, line);
        al_buf_char(b, '\n');
    }
}

static void say_json(struct al_buf *b, const struct answer *a, const char *text) {
    al_buf_printf(b, "{\"rank\":%s", a->number[0] < 0 ? "null" : "");
    if (a->number[0] >= 0)
        al_buf_printf(b, "%lld", (long long)a->number[0]);
    al_buf_printf(b, ",\"pid\":%lld", (long long)a->number[1]);
    if (trouble(a->word)) {
        al_buf_str(b, ",\"error\":");
        al_json_string(b, trouble(a->word));
    } else if (strcmp(a->word, "freed") == 0) {
        al_buf_printf(b, ",\"device\":%lld,\"given_back_bytes\":%lld,\"seconds\":", (long long)a->number[2], (long long)a->number[3]);
        al_buf_number(b, (double)a->number[4] / 1e9);
    } else {
        struct al_summary summary;
        (void)al_summary_parse(text, &summary);
        al_buf_printf(b, ",\"device\":%lld,\"summary\":", (long long)a->number[2]);
        al_summary_json(b, &summary);
        al_buf_str(b, ",\"text\":");
        al_json_string(b, text);
    }
    al_buf_char(b, '}');
}

// 1: more is needed; 0: the end; negative: no such answer. Takes whole answers off the front.
static int take(struct ask *k, struct al_buf *in, struct al_buf *out) {
    for (;;) {
        struct answer a;
        char *end = in->len ? memchr(in->data, '\n', in->len) : NULL;
        if (!end)
            return 1;
        size_t used = (size_t)(end - in->data) + 1, text = 0;
        if (!split(in->data, used - 1, &a))
            return AL_E_FORMAT;
        if (strcmp(a.word, "end") == 0)
            return 0;
        bool summary = strcmp(a.word, "summary") == 0 && a.count == 4;
        if (summary) {
            if (a.number[3] < 0 || a.number[3] > ANSWER_MOST)
                return AL_E_FORMAT;
            text = (size_t)a.number[3];
            if (in->len < used + text + 1)
                return 1;
            in->data[used + text] = '\0';
        }
        if (summary || trouble(a.word) || (strcmp(a.word, "freed") == 0 && a.count == 5)) {
            if (k->json && k->count)
                al_buf_char(out, ',');
            if (k->json)
                say_json(out, &a, summary ? in->data + used : "");
            else
                say(out, &a, in->data + used, text);
            k->count++;
            k->failed += trouble(a.word) != NULL;
        }
        used += summary ? text + 1 : 0;
        memmove(in->data, in->data + used, in->len - used);
        in->len -= used;
    }
}

static int receive(struct ask *k, int fd, struct al_buf *out) {
    struct al_buf in = AL_BUF_INIT;
    int64_t until = al_monotonic_ns() + (int64_t)(k->timeout * 1e9);
    int result = 1;
    while (result == 1) {
        char bytes[8192];
        int64_t left = until - al_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)(left / AL_NS_PER_MS) + 1) <= 0) {
            result = AL_E_TIMEOUT;
            break;
        }
        ssize_t len = recv(fd, bytes, sizeof bytes, 0);
        if (len <= 0) {
            result = len < 0 && errno == EINTR ? 1 : AL_E_GONE;
            continue;
        }
        al_buf_add(&in, bytes, (size_t)len);
        result = in.failed || in.len > ANSWER_MOST ? AL_E_TOOBIG : take(k, &in, out);
    }
    al_buf_free(&in);
    return result;
}

static int finish(const struct ask *k, int result, struct al_buf *out) {
    if (k->json)
        al_buf_str(out, "]}\n");
    if (out->data && !out->failed)
        fwrite(out->data, 1, out->len, stdout);
    int status = al_cli_flush();
    char waited[32];
    (void)al_fmt_duration(waited, sizeof waited, k->timeout);
    if (result == AL_E_TIMEOUT)
        al_cli_error("ask: no step ended within %s; it is done at the next one all the same", waited);
    else if (result)
        al_cli_error("ask: the answer broke off");
    else if (!k->count)
        al_cli_error("ask: no process of that job takes requests (none trains yet, or none has the hook)");
    return status ? status : result || k->failed || !k->count ? 1 : 0;
}

static int ask(struct ask *k) {
    struct al_buf out = AL_BUF_INIT;
    uint32_t runs;
    int fd, result = al_ask_send((pid_t)k->pid, k->bit, &fd, &runs);
    if (result) {
        if (runs > 1 && !k->pid)
            al_cli_error("ask: %u alula runs watch jobs here: name a process (alula ps lists them)", runs);
        else if (!runs)
            al_cli_error("ask: no alula run of yours watches a job here");
        else
            al_cli_error("ask: process %llu is in no job that alula run watches here (alula ps lists them)", (unsigned long long)k->pid);
        return al_error_exit_status(result);
    }
    if (k->json)
        al_buf_printf(&out, "{\"request\":\"%s\",\"answers\":[", al_ask_word(k->bit));
    result = receive(k, fd, &out);
    (void)close(fd);
    int status = finish(k, result, &out);
    al_buf_free(&out);
    return status;
}

static int bad(const char *format, const char *argument) {
    al_cli_error(format, argument);
    return al_error_exit_status(AL_E_INVALID);
}

static int take_arguments(struct ask *k, int argc, char **argv) {
    for (int i = optind; i < argc; i++) {
        if (!k->bit && !k->pid && al_str_u64(argv[i], &k->pid) && k->pid && k->pid <= INT32_MAX)
            continue;
        if (k->bit || !(k->bit = al_ask_from_word(argv[i])))
            return bad("ask: %s: expected [PID] and memory-summary or empty-cache", argv[i]);
    }
    return k->bit ? 0 : bad("ask: say what: memory-summary or empty-cache%s", "");
}

int al_cmd_ask(int argc, char **argv) {
    struct ask k = {.timeout = WAIT_S};
    int option, status;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case OPT_JSON: k.json = true; break;
        case OPT_TIMEOUT:
            if (al_unit_parse(optarg, AL_UNIT_SECONDS, &k.timeout) || k.timeout <= 0 || k.timeout > 86400)
                return bad("ask: --timeout %s: expected a time such as 60s", optarg);
            break;
        case 'h':
        case AL_OPT_HELP: fputs(help, stdout); return al_cli_flush();
        default: return al_error_exit_status(AL_E_INVALID);
        }
    }
    status = take_arguments(&k, argc, argv);
    return status ? status : ask(&k);
}
