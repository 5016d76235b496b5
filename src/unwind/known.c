// SPDX-License-Identifier: Apache-2.0
// What is known of an instruction: its function's name and its rule, found once.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"
#include "unwind/parts.h"

#define RAW_MOST 4096u
#define READ_AGAIN_NS AL_NS_PER_S

static uint32_t slot_of(const struct al_unwind *u, uint64_t address) {
    uint32_t at = (uint32_t)((address * 0x9e3779b97f4a7c15ULL) >> 32) & (u->known_cap - 1);
    while (u->known[at].address && u->known[at].address != address)
        at = (at + 1) & (u->known_cap - 1);
    return at;
}

void al_known_clear(struct al_unwind *u) {
    if (u->known)
        memset(u->known, 0, u->known_cap * sizeof *u->known);
    u->known_count = 0;
}

static bool grow(struct al_unwind *u) {
    uint32_t old_cap = u->known_cap;
    struct al_known *old = u->known, *more = calloc(old_cap ? 2 * old_cap : 4096, sizeof *more);
    if (!more)
        return false;
    u->known = more;
    u->known_cap = old_cap ? 2 * old_cap : 4096;
    for (uint32_t i = 0; i < old_cap; i++)
        if (old[i].address)
            u->known[slot_of(u, old[i].address)] = old[i];
    free(old);
    return true;
}

// "name", "name.cold", "name.part.0", "name.llvm.123": the compiler's parts of one function.
static bool is_part_of(const char *raw, const char *name) {
    size_t length = strlen(name);
    return strncmp(raw, name, length) == 0 && (raw[length] == '\0' || raw[length] == '.');
}

static void look_at_name(struct al_known *k, const char *raw) {
    static const char *const starts[] = {"_start", "_start_c", "clone", "__clone", "clone3", "__clone3", "thread_start"};
    k->tail_call = strncmp(raw, "_TAIL_CALL_", 11) == 0;
    if (k->tail_call || is_part_of(raw, "_PyEval_EvalFrameDefault"))
        k->kind = AL_UNWIND_INTERPRETER;
    for (size_t i = 0; i < sizeof starts / sizeof *starts && !k->rule; i++)
        if (strcmp(raw, starts[i]) == 0)
            k->outermost = true;
}

static int name_it(struct al_unwind *u, struct al_known *k, struct al_dso *d) {
    char raw[RAW_MOST], name[RAW_MOST];
    uint64_t slot;
    if (k->rule && u->rules.list[k->rule - 1].signal) // the C library's return from handlers, of names that say nothing
        return al_texts_add(&u->texts, "[signal]", d->path, "", 0, &k->symbol);
    const struct al_symbols *s = al_dso_symbols(&u->objects, d);
    const struct al_symbol *symbol = s ? al_symbols_find(s, k->address - d->bias) : NULL;
    // One without a size (assembly) would reach over whatever follows it, also what is not exported and has no name here.
    bool exported_alone = s && !s->tables[0].names_size;
    if (symbol && !symbol->size && (exported_alone || k->start > symbol->address + d->bias))
        symbol = NULL;
    if (symbol && al_symbols_name(s, symbol, raw, sizeof raw)) {
        look_at_name(k, raw);
        al_demangle(raw, name, sizeof name);
        if (!k->start)
            k->start = symbol->address + d->bias;
    } else if ((slot = al_stub_slot(u, k->address & ~15ULL)) && al_dso_import(&u->objects, d, slot, raw, sizeof raw)) {
        char target[RAW_MOST - sizeof "@plt"];
        al_demangle(raw, target, sizeof target);
        (void)snprintf(name, sizeof name, "%s@plt", target);
    } else {
        if (al_is_loop_part(u, d, k->start))
            k->kind = AL_UNWIND_INTERPRETER;
        // One name a function, where its beginning is known, so that its samples come together.
        snprintf(name, sizeof name, "0x%" PRIx64, (k->start ? k->start : k->address) - d->bias);
    }
    const char *file;
    int line = 0;
    if (!al_dso_line(&u->objects, d, k->address - d->bias, &file, &line))
        return al_texts_add(&u->texts, name, d->path, "", 0, &k->symbol);
    return al_texts_add(&u->texts, name, d->path, file, line, &k->symbol);
}

// Code made at run time: what a perf map says of it.
static int name_by_map(struct al_unwind *u, struct al_known *k, bool mapped) {
    char name[RAW_MOST];
    int64_t now = al_monotonic_ns();
    bool changed = false;
    if (!u->perf_map_ns || now - u->perf_map_ns > READ_AGAIN_NS) {
        u->perf_map_ns = now;
        (void)al_perf_map_read(&u->perf_map, u->procfs, u->pid, &changed);
        if (changed)
            al_known_clear(u); // others had no name yet
    }
    const struct al_perf_entry *e = al_perf_map_find(&u->perf_map, k->address);
    if (!e) {
        k->kind = AL_UNWIND_UNKNOWN;
        return al_texts_add(&u->texts, mapped ? "[code made at run time]" : "[unknown]", "", "", 0, &k->symbol);
    }
    k->kind = AL_UNWIND_NAMED;
    k->start = e->start;
    (void)al_str_copy_n(name, sizeof name, u->perf_map.text + e->name, e->length);
    return al_texts_add(&u->texts, name, "", "", 0, &k->symbol);
}

#if defined __aarch64__
#define CONTEXT_REGS 312 // of a signal's frame: siginfo, then ucontext up to its registers x0 to x30, sp, pc

// The kernel's return from signal handlers has no tables on purpose: unwinders know it by its two instructions.
static void look_for_signal(struct al_unwind *u, struct al_known *k) {
    static const uint32_t code[2] = {0xd2801168, 0xd4000001}; // mov x8, #__NR_rt_sigreturn; svc #0
    uint32_t found[2], number;
    struct al_rule rule;
    if (!al_memory_get(&u->memory, k->address + 1, found, sizeof found) || memcmp(found, code, sizeof code) != 0)
        return;
    memset(&rule, 0, sizeof rule);
    rule.cfa_reg = AL_REG_SP;
    rule.ra = AL_REG_PC;
    rule.signal = true;
    for (unsigned i = 0; i < AL_REG_COUNT; i++) {
        rule.regs[i].kind = AL_RULE_AT;
        rule.regs[i].value = CONTEXT_REGS + 8 * (int32_t)i;
    }
    if (al_rules_add(&u->rules, &rule, &number) == 0)
        k->rule = number + 1;
}
#else
static void look_for_signal(struct al_unwind *u, struct al_known *k) {
    (void)u;
    (void)k;
}
#endif

static int find_out(struct al_unwind *u, struct al_known *k) {
    const struct al_code_area *area = al_objects_find(&u->objects, k->address);
    if (!area || !area->dso)
        return name_by_map(u, k, area != NULL);
    uint32_t rule;
    k->dso = area->dso;
    struct al_cfi *cfi = al_dso_cfi(&u->objects, area->dso);
    k->kind = AL_UNWIND_CODE;
    int error = cfi ? al_cfi_rule(cfi, &u->rules, k->address, &rule, &k->start) : AL_E_NOENT;
    Dwarf_CFI *other = error == AL_E_NOENT ? al_dso_debug_frame(&u->objects, area->dso) : NULL;
    if (other)
        error = al_cfi_rule_of(u->objects.e, other, &u->rules, k->address - area->dso->bias, &rule);
    if (!error)
        k->rule = rule + 1;
    else if (area->dso->vdso)
        look_for_signal(u, k);
    return error == AL_E_NOMEM ? error : name_it(u, k, area->dso);
}

void al_known_refresh(struct al_unwind *u, int64_t older_than_ns) {
    int64_t now = al_monotonic_ns();
    bool moved = false, renamed = false;
    if (now - u->read_ns < older_than_ns)
        return;
    u->read_ns = now;
    (void)al_objects_read(&u->objects, &moved);
    if (u->perf_map_ns) { // some code had no object
        u->perf_map_ns = now;
        (void)al_perf_map_read(&u->perf_map, u->procfs, u->pid, &renamed);
    }
    if (moved || renamed)
        al_known_clear(u);
}

const struct al_known *al_known_get(struct al_unwind *u, uint64_t address) {
    if (u->known_cap) {
        const struct al_known *k = &u->known[slot_of(u, address)];
        if (k->address) {
            u->counts.rules_reused++;
            return k;
        }
    }
    if (u->known_count >= AL_KNOWN_MOST)
        al_known_clear(u);
    if (!al_objects_find(&u->objects, address))
        al_known_refresh(u, READ_AGAIN_NS); // a library may have been loaded since
    if (2 * (u->known_count + 1) > u->known_cap && !grow(u))
        return NULL;
    struct al_known k = {.address = address};
    if (find_out(u, &k) != 0)
        return NULL;
    uint32_t at = slot_of(u, address);
    u->known[at] = k;
    u->known_count++;
    return &u->known[at];
}
