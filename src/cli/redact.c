// SPDX-License-Identifier: Apache-2.0
#include "cli/redact.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/attr.h"

struct name {
    char *from;
    char to[32];
};

struct al_redact {
    struct name *names;
    size_t count, cap;
    bool failed;
};

struct al_redact *al_redact_new(void) {
    return calloc(1, sizeof(struct al_redact));
}

struct al_redact *al_redact_free(struct al_redact *r) {
    for (size_t i = 0; r && i < r->count; i++)
        free(r->names[i].from);
    if (r)
        free(r->names);
    free(r);
    return NULL;
}

// How many names of this kind there are: their words begin alike.
static unsigned next_number(const struct al_redact *r, const char *kind) {
    unsigned number = 1;
    for (size_t i = 0; i < r->count; i++)
        number += strncmp(r->names[i].to, kind, strlen(kind)) == 0;
    return number;
}

static const char *word_for(struct al_redact *r, const char *kind, const char *from) {
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->names[i].to, kind, strlen(kind)) == 0 && strcmp(r->names[i].from, from) == 0)
            return r->names[i].to;
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 32;
        struct name *wider = realloc(r->names, cap * sizeof *wider);
        if (!wider) {
            r->failed = true;
            return "";
        }
        r->names = wider;
        r->cap = cap;
    }
    struct name *n = &r->names[r->count];
    n->from = strdup(from);
    if (!n->from) {
        r->failed = true;
        return "";
    }
    (void)snprintf(n->to, sizeof n->to, "%s%u", kind, next_number(r, kind));
    r->count++;
    return n->to;
}

static void replace(struct al_redact *r, const char *kind, char *text, size_t size) {
    if (*text)
        (void)al_str_copy(text, size, word_for(r, kind, text));
}

static void cut_folder(char *text) {
    const char *slash = strrchr(text, '/');
    if (slash)
        memmove(text, slash + 1, strlen(slash + 1) + 1);
}

static void redact_proc(struct al_redact *r, struct al_proc *p) {
    char uid[24];
    (void)snprintf(uid, sizeof uid, "%u", (unsigned)p->uid);
    replace(r, "user-", p->user, sizeof p->user);
    p->uid = p->uid ? (uid_t)strtoul(word_for(r, "uid-", uid) + 4, NULL, 10) : 0;
    p->command[0] = p->cgroup[0] = '\0';
    cut_folder(p->exe);
    cut_folder(p->comm);
    replace(r, "container-", p->container, sizeof p->container);
    replace(r, "pod-", p->pod, sizeof p->pod);
    replace(r, "slurm-", p->slurm_job, sizeof p->slurm_job);
    if (strchr(p->visible_devices, '-')) // UUIDs rather than numbers
        replace(r, "devices-", p->visible_devices, sizeof p->visible_devices);
}

bool al_redact_snapshot(struct al_redact *r, struct al_snapshot *s) {
    for (uint32_t i = 0; i < s->gpu_count; i++) {
        struct al_gpu_info *g = &s->gpus[i].info;
        replace(r, g->is_mig ? "MIG-" : "GPU-", g->uuid, sizeof g->uuid);
        replace(r, "serial-", g->serial, sizeof g->serial);
    }
    replace(r, "host-", s->node.hostname, sizeof s->node.hostname);
    replace(r, "boot-", s->node.boot_id, sizeof s->node.boot_id);
    for (uint32_t i = 0; i < s->proc_count; i++)
        redact_proc(r, &s->procs[i]);
    for (uint32_t i = 0; i < s->row_count; i++)
        cut_folder(s->rows[i].driver_name);
    return !r->failed;
}

static bool part_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

// Replaces whole words only: a user called "a" is not every letter a.
static void replace_in(const struct name *n, char *text, size_t size) {
    size_t from = strlen(n->from), to = strlen(n->to), len = strlen(text);
    for (char *at = text; (at = strstr(at, n->from));) {
        bool whole = (at == text || !part_of_word(at[-1])) && !part_of_word(at[from]);
        if (!whole || len - from + to >= size) {
            at += from;
            continue;
        }
        memmove(at + to, at + from, len - (size_t)(at - text) - from + 1);
        memcpy(at, n->to, to);
        len += to - from;
        at += to;
    }
}

// "/home/anna/train.py" becomes "train.py".
static void cut_folders(char *text) {
    char *out = text;
    for (const char *in = text; *in;) {
        bool begins = *in == '/' && (in == text || strchr(" \"'=(:,", in[-1])) && (isalnum((unsigned char)in[1]) || in[1] == '.');
        if (!begins) {
            *out++ = *in++;
            continue;
        }
        const char *end = in, *last = in;
        for (; *end && !strchr(" \"'),;", *end); end++)
            if (*end == '/')
                last = end;
        in = last + 1;
    }
    *out = '\0';
}

void al_redact_text(const struct al_redact *r, char *text, size_t size) {
    cut_folders(text);
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->names[i].to, "uid-", 4) != 0)
            replace_in(&r->names[i], text, size);
}

bool al_redact_finding(struct al_redact *r, struct al_finding *f) {
    if (*f->gpu_uuid)
        replace(r, strncmp(f->gpu_uuid, "MIG", 3) == 0 ? "MIG-" : "GPU-", f->gpu_uuid, sizeof f->gpu_uuid);
    al_redact_text(r, f->key, sizeof f->key);
    al_redact_text(r, f->title, sizeof f->title);
    al_redact_text(r, f->message, sizeof f->message);
    al_redact_text(r, f->considered, sizeof f->considered);
    al_redact_text(r, f->advice, sizeof f->advice);
    return !r->failed;
}

bool al_redact_attr(struct al_redact *r, enum al_attr attr, struct al_attr_value *v) {
    const char *name = al_attrs[attr].name;
    if (al_attrs[attr].type != 'T')
        return !r->failed;
    if (attr == AL_ATTR_UUID)
        replace(r, "GPU-", v->text, sizeof v->text);
    else if (attr == AL_ATTR_SERIAL)
        replace(r, "serial-", v->text, sizeof v->text);
    else if (strstr(name, "serial") || strstr(name, "uuid") || strstr(name, "guid"))
        replace(r, "id-", v->text, sizeof v->text);
    return !r->failed;
}
