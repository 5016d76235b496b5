// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/str.h"
#include "cli/dump.h"
#include "export/jsonl.h"

static const char *const STATUS_KEYS[] = {"ok", "unstable", "unreadable", "left_out", "empty"};

// One that runs was let go since.
static bool stopped(const struct al_dump *d, const struct al_stack_thread *t) {
    return al_stacks_stopped(d->process) && t->idle == AL_STACK_YES;
}

static const char *state_key(const struct al_dump *d, const struct al_stack_thread *t) {
    if (stopped(d, t))
        return "stopped";
    if (t->waits_gil == AL_STACK_YES)
        return "waits_for_gil";
    return t->idle == AL_STACK_YES ? "idle" : t->idle == AL_STACK_NO ? "running" : NULL;
}

static const char *state_words(const struct al_dump *d, const struct al_stack_thread *t) {
    const char *key = state_key(d, t);
    if (!key)
        return "state not known";
    return strcmp(key, "waits_for_gil") == 0 ? "waits for the GIL" : key;
}

static const char *const NATIVE_KEYS[] = {NULL, "merged", "part", "absent", "unfit"};

static void native_text(struct al_buf *b, const struct al_stack_code *c, const struct al_stack_frame *f) {
    const char *base = c ? strrchr(c->filename, '/') : NULL;
    al_buf_str(b, "native ");
    al_term_string(b, c ? c->name : "?");
    if (c && *c->filename) {
        al_buf_str(b, " (");
        al_term_string(b, base && base[1] ? base + 1 : c->filename);
        al_buf_char(b, ')');
    }
    al_buf_str(b, f->guessed ? "  (guessed)\n" : "\n");
}

void al_dump_frame_text(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f) {
    const struct al_stack_code *c = al_stack_code(s, f->code);
    al_buf_str(b, "    ");
    if (f->kind == AL_STACK_NATIVE) {
        native_text(b, c, f);
        return;
    }
    al_term_string(b, c && *c->filename ? c->filename : "?");
    if (f->line > 0)
        al_buf_printf(b, ":%d ", (int)f->line);
    else
        al_buf_str(b, ":? ");
    al_term_string(b, c && *c->qualname ? c->qualname : "?");
    al_buf_str(b, f->degraded ? "  (not all of it could be read)\n" : "\n");
}

static void locals_text(struct al_buf *b, const struct al_stack_locals *l) {
    if (l->moved)
        al_buf_str(b, "        (it moved while its variables were read)\n");
    for (uint32_t i = 0; i < l->count; i++) {
        const struct al_stack_local *v = &l->list[i];
        al_buf_str(b, "        ");
        al_term_string(b, v->name);
        al_buf_str(b, ": ");
        al_term_string(b, v->changed ? "(changed while it was read)" : *v->type ? v->type : "(could not be read)");
        if (*v->value) {
            al_buf_str(b, " = ");
            al_term_string(b, v->value);
        }
        al_buf_char(b, '\n');
    }
    if (l->left_out)
        al_buf_printf(b, "        (%u more)\n", l->left_out);
}

static void frames_text(struct al_buf *b, const struct al_dump *d, const struct al_stack_thread *t,
                        const struct al_stack_locals *locals) {
    const struct al_async_task *task = al_dump_running(d, t);
    for (uint32_t i = 0; i < t->count; i++) {
        al_dump_frame_text(b, d->stack, &t->frames[i]);
        if (locals)
            locals_text(b, &locals[i]);
        if (task && t->frames[i].kind == AL_STACK_PYTHON && t->frames[i].address == task->root)
            al_dump_border(b, d, task);
    }
}

static void thread_text(struct al_buf *b, const struct al_dump *d, const struct al_stack_thread *t,
                        const struct al_stack_locals *locals) {
    al_buf_str(b, "  thread ");
    if (t->tid)
        al_buf_printf(b, "%d", (int)t->tid);
    else
        al_buf_printf(b, "0x%llx", (unsigned long long)t->id);
    if (*t->name) {
        al_buf_str(b, " \"");
        al_term_string(b, t->name);
        al_buf_char(b, '"');
    }
    if (t->interp > 0)
        al_buf_printf(b, " of interpreter %lld", (long long)t->interp);
    al_buf_printf(b, ": %s%s\n", state_words(d, t), t->holds_gil == AL_STACK_YES ? ", holds the GIL" : "");
    if (t->status == AL_STACK_UNSTABLE)
        al_buf_str(b, "    (it moved while it was read: inner frames are missing)\n");
    else if (t->status == AL_STACK_UNREADABLE)
        al_buf_str(b, "    (its frames could not be read)\n");
    else if (t->status == AL_STACK_EMPTY)
        al_buf_str(b, "    (runs no Python code)\n");
    if (t->native == AL_STACK_NATIVE_ABSENT)
        al_buf_str(b, "    (Python only: no picture of its registers could be had)\n");
    else if (t->native == AL_STACK_NATIVE_UNFIT)
        al_buf_str(b, "    (Python only: its native frames did not fit, as when it moves in between or its stack is very deep)\n");
    frames_text(b, d, t, locals);
    if (t->native == AL_STACK_NATIVE_PART)
        al_buf_str(b, "    (native frames further out are missing)\n");
    if (t->truncated)
        al_buf_str(b, "    (deeper than --depth: outer frames are missing)\n");
    al_dump_tasks_text(b, d, t->tstate);
}

void al_dump_text(struct al_buf *b, const struct al_dump *d) {
    struct al_stack_info info;
    char role[96], version[32];
    al_stacks_role(d->process, role, sizeof role);
    al_stack_get_info(d->stack, &info);
    al_stacks_version(info.version, version, sizeof version);
    al_buf_printf(b, "process %d%s%s, Python %s%s", (int)d->process->pid, *role ? ", " : "", role, version,
                  info.free_threaded ? " free-threaded" : "");
    if (*d->process->command) {
        al_buf_str(b, ": ");
        al_term_string(b, d->process->command);
    }
    al_buf_char(b, '\n');
    if (d->tasks.missing)
        al_buf_printf(b, "  (tasks are not told: %s)\n", d->tasks.missing);
    for (size_t i = d->sample->count; i-- > 0;) // the interpreter's list begins with the newest, and ends with the main thread
        thread_text(b, d, &d->sample->threads[i], d->locals ? d->locals[i] : NULL);
    for (uint32_t i = 0; i < d->tasks.count; i++)
        if (!d->tasks.list[i].tstate && !d->tasks.list[i].running) {
            al_buf_str(b, "  a loop whose thread is not known:\n");
            al_dump_tasks_text(b, d, 0);
            break;
        }
    if (d->tasks.truncated)
        al_buf_str(b, "  (tasks are missing: there are too many, or their list changed while it was read)\n");
}

// --- JSON ---

static void text(struct al_buf *b, const char *name, const char *value) {
    al_buf_printf(b, "\"%s\": ", name);
    al_json_string_or_null(b, value);
}

static void number(struct al_buf *b, const char *name, bool known, int64_t value) {
    al_buf_printf(b, "\"%s\": ", name);
    al_json_integer_or_null(b, known, value);
}

static void three(struct al_buf *b, const char *name, uint8_t value) {
    al_buf_printf(b, "\"%s\": %s", name, value == AL_STACK_YES ? "true" : value == AL_STACK_NO ? "false" : "null");
}

static void native_json(struct al_buf *b, const struct al_stack_code *c, const struct al_stack_frame *f) {
    al_buf_str(b, "{\"kind\": \"native\", ");
    text(b, "object", c ? c->filename : NULL);
    al_buf_str(b, ", ");
    text(b, "symbol", c ? c->name : NULL);
    // As text: numbers of JSON have 53 bits in many readers.
    al_buf_printf(b, ", \"address\": \"0x%llx\", \"guessed\": %s}", (unsigned long long)f->address, f->guessed ? "true" : "false");
}

static void locals_json(struct al_buf *b, const struct al_stack_locals *l) {
    al_buf_str(b, ", \"locals\": ");
    if (l->moved) {
        al_buf_str(b, "null");
        return;
    }
    al_buf_char(b, '[');
    for (uint32_t i = 0; i < l->count; i++) {
        al_buf_str(b, i ? ", {" : "{");
        text(b, "name", l->list[i].name);
        al_buf_str(b, ", ");
        text(b, "type", l->list[i].type);
        al_buf_str(b, ", ");
        text(b, "value", l->list[i].value);
        al_buf_char(b, '}');
    }
    al_buf_char(b, ']');
}

static void frame_json(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f,
                       const struct al_stack_locals *locals) {
    const struct al_stack_code *c = al_stack_code(s, f->code);
    if (f->kind == AL_STACK_NATIVE) {
        native_json(b, c, f);
        return;
    }
    al_buf_char(b, '{');
    text(b, "kind", "python");
    al_buf_str(b, ", ");
    text(b, "file", c ? c->filename : NULL);
    al_buf_str(b, ", ");
    number(b, "line", f->line > 0, f->line);
    al_buf_str(b, ", ");
    text(b, "function", c ? c->name : NULL);
    al_buf_str(b, ", ");
    text(b, "qualified_name", c ? c->qualname : NULL);
    al_buf_str(b, ", ");
    number(b, "first_line", c && c->first_line > 0, c ? c->first_line : 0);
    al_buf_printf(b, ", \"degraded\": %s", f->degraded ? "true" : "false");
    if (locals)
        locals_json(b, locals);
    al_buf_char(b, '}');
}

void al_dump_frame_members(struct al_buf *b, const struct al_stack *s, const struct al_stack_frame *f) {
    frame_json(b, s, f, NULL);
}

void al_dump_frame_json(struct al_buf *b, const struct al_differ_frame *f) {
    al_buf_char(b, '{');
    text(b, "file", f->file);
    al_buf_str(b, ", ");
    number(b, "line", f->line > 0, f->line);
    al_buf_str(b, ", ");
    text(b, "function", f->function);
    al_buf_char(b, '}');
}

static void thread_json(struct al_buf *b, const struct al_dump *d, const struct al_stack_thread *t,
                        const struct al_stack_locals *locals) {
    const struct al_async_task *task = al_dump_running(d, t);
    al_buf_char(b, '{');
    text(b, "name", t->name);
    al_buf_str(b, ", ");
    number(b, "tid", t->tid > 0, t->tid);
    al_buf_printf(b, ", \"ident\": %llu, \"interpreter\": %lld, \"main\": %s, ", (unsigned long long)t->id, (long long)t->interp,
                  t->main ? "true" : "false");
    text(b, "state", state_key(d, t));
    al_buf_str(b, ", ");
    three(b, "holds_gil", t->holds_gil);
    al_buf_str(b, ", ");
    three(b, "waits_for_gil", t->waits_gil);
    al_buf_printf(b, ", \"status\": \"%s\", \"truncated\": %s, ", STATUS_KEYS[t->status], t->truncated ? "true" : "false");
    text(b, "native", NATIVE_KEYS[t->native]);
    al_buf_str(b, ", ");
    text(b, "task", task ? task->name : NULL);
    al_buf_str(b, ", \"frames\": [");
    for (uint32_t i = 0; i < t->count; i++) {
        al_buf_str(b, i ? ", " : "");
        frame_json(b, d->stack, &t->frames[i], locals ? &locals[i] : NULL);
    }
    al_buf_str(b, "]}");
}

static void read_json(struct al_buf *b, const struct al_dump *d) {
    struct al_stack_info info;
    char version[32];
    al_stack_get_info(d->stack, &info);
    al_stacks_version(info.version, version, sizeof version);
    text(b, "python", version);
    al_buf_printf(b, ", \"free_threaded\": %s, \"time\": ", info.free_threaded ? "true" : "false");
    al_jsonl_time(b, d->at_realtime_ns);
    al_buf_str(b, ", \"threads\": [");
    for (size_t i = d->sample->count; i-- > 0;) {
        al_buf_str(b, i + 1 < d->sample->count ? ", " : "");
        thread_json(b, d, &d->sample->threads[i], d->locals ? d->locals[i] : NULL);
    }
    al_buf_str(b, "], ");
    al_dump_tasks_json(b, d);
}

void al_dump_json(struct al_buf *b, const struct al_dump *d) {
    const struct al_stacks_process *p = d->process;
    al_buf_char(b, '{');
    number(b, "pid", true, p->pid);
    al_buf_str(b, ", ");
    text(b, "role", p->role == AL_ROLE_UNKNOWN ? NULL : al_role_word(p->role));
    al_buf_str(b, ", ");
    number(b, "rank", p->rank >= 0, p->rank);
    al_buf_str(b, ", ");
    number(b, "world_size", p->world > 0, p->world);
    al_buf_str(b, ", ");
    number(b, "owner", p->owner > 0, p->owner);
    al_buf_str(b, ", ");
    text(b, "command", p->command);
    al_buf_str(b, ", ");
    text(b, "error", d->error);
    al_buf_str(b, ", ");
    if (d->stack)
        read_json(b, d);
    else
        al_buf_str(b, "\"python\": null, \"free_threaded\": null, \"time\": null, \"threads\": null, \"tasks_missing\": null, "
                      "\"tasks\": null");
    al_buf_char(b, '}');
}
