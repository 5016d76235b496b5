// SPDX-License-Identifier: Apache-2.0
#include "stack/core/local.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/err.h"
#include "stack/core/frame.h"
#include "stack/core/lines.h"
#include "stack/core/runtime.h"
#include "stack/core/text.h"

#define BATCH 16u        // pieces a call: stacks of signal handlers are small
#define WINDOW 1024u     // bytes of frames that are read at once
#define PAGE 4096u
#define INTERPS_MOST 64  // that are searched for the own thread
#define THREADS_MOST 65536
#define CODE_MOST 512u
#define OFFSET_MOST (256 << 20)
#if defined __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

static size_t complete(const struct al_piece *pieces, size_t count, ssize_t bytes) {
    size_t i = 0;
    for (; i < count && bytes >= (ssize_t)pieces[i].size; i++)
        bytes -= (ssize_t)pieces[i].size;
    return i;
}

static size_t gather(void *user, const struct al_piece *pieces, size_t count, void *buffer) {
    struct iovec to[BATCH], from[BATCH];
    int kept = errno;
    size_t done = 0;
    (void)user;
    while (done < count) {
        size_t n = count - done < BATCH ? count - done : BATCH;
        for (size_t i = 0; i < n; i++) {
            const struct al_piece *p = &pieces[done + i];
            to[i] = (struct iovec){(char *)buffer + p->at, p->size};
            from[i] = (struct iovec){(void *)(uintptr_t)p->address, p->size};
        }
        ssize_t bytes = process_vm_readv(getpid(), to, n, from, n, 0);
        size_t whole = bytes < 0 ? 0 : complete(pieces + done, n, bytes);
        done += whole;
        if (whole < n)
            break;
    }
    errno = kept;
    return done;
}

void al_local_use(struct al_local *ret, const struct al_layout *layout, uint32_t version, uint64_t runtime) {
    *ret = (struct al_local){.layout = *layout, .version = version, .runtime = runtime, .guarded = {gather, NULL}};
}

// Before 3.11 the version is told by a function only: "3.8.18 (default, ...".
static uint32_t version_of(al_local_symbol_fn *symbol) {
    const uint32_t *known = symbol("Py_Version");
    const char *(*tell)(void) = NULL;
    if (known)
        return *known;
    *(void **)(&tell) = symbol("Py_GetVersion");
    const char *text = tell ? tell() : "";
    char *end;
    unsigned long major = strtoul(text, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, &end, 10) : 0;
    unsigned long micro = *end == '.' ? strtoul(end + 1, &end, 10) : 0;
    if (major != 3 || minor > 0xff || micro > 0xff)
        return 0;
    unsigned level = *end == 'a' ? 0xa : *end == 'b' ? 0xb : *end == 'r' ? 0xc : 0xf;
    return (uint32_t)(major << 24 | minor << 16 | micro << 8 | level << 4);
}

int al_local_init(struct al_local *ret, al_local_symbol_fn *symbol) {
    const void *runtime = symbol("_PyRuntime");
    enum al_layout_problem problem;
    struct al_layout layout;
    uint32_t version;
    *ret = (struct al_local){0};
    if (!runtime)
        return AL_E_NOENT;
    if (al_layout_cookie(runtime, 8)) {
        problem = al_layout_debug(runtime, AL_LAYOUT_DEBUG_BYTES, MACHINE, &layout, &version);
    } else {
        version = version_of(symbol);
        problem = al_layout_table(version, MACHINE, &layout);
    }
    if (problem)
        return AL_E_UNSUPPORTED;
    al_local_use(ret, &layout, version, (uint64_t)(uintptr_t)runtime);
    ret->code_type = (uint64_t)(uintptr_t)symbol("PyCode_Type");
    *(void **)(&ret->own_thread) = symbol("PyGILState_GetThisThreadState");
    uint64_t first;
    if (!al_memory_u64(&ret->guarded, ret->runtime, &first))
        return AL_E_DENIED;
    int up = al_runtime_check(&ret->guarded, &layout, ret->runtime);
    return up > 0 ? 0 : up < 0 ? AL_E_AGAIN : AL_E_UNSUPPORTED;
}

static uint64_t word(uint64_t address) {
    return al_u64((const void *)(uintptr_t)address);
}

// By the lists of all interpreters, which others may change meanwhile.
static uint64_t search(const struct al_local *l, uint64_t own) {
    const struct al_layout *y = &l->layout;
    const struct al_memory *m = &l->guarded;
    uint64_t interp, thread, id, frame, found = 0;
    if (!al_memory_u64(m, l->runtime + y->runtime_interpreters, &interp))
        return 0;
    for (int i = 0; i < INTERPS_MOST && al_address_ok(interp, 8); i++) {
        if (!al_memory_u64(m, interp + y->interp_threads, &thread))
            return found;
        for (int k = 0; k < THREADS_MOST && al_address_ok(thread, 8); k++) {
            if (!al_memory_u64(m, thread + y->thread_id, &id))
                break;
            if (id == own && al_memory_u64(m, thread + y->thread_frame, &frame)) {
                if (frame)
                    return thread;
                found = thread;
            }
            if (!al_memory_u64(m, thread + y->thread_next, &thread))
                break;
        }
        if (!al_memory_u64(m, interp + y->interp_next, &interp))
            return found;
    }
    return found;
}

// To 3.11 a thread that runs a second interpreter is known by its first one's state; the one that holds the GIL tells.
static uint64_t in_other_interpreter(const struct al_local *l, uint64_t thread, uint64_t own) {
    const struct al_layout *y = &l->layout;
    uint64_t current, id, list = l->runtime + y->runtime_interpreters;
    // Behind the head of the list stands the main interpreter.
    if (y->runtime_current == AL_LAYOUT_NONE || word(list) == word(list + 8))
        return thread;
    current = word(l->runtime + y->runtime_current);
    bool mine = current != thread && al_address_ok(current, 8) &&
                al_memory_u64(&l->guarded, current + y->thread_id, &id) && id == own;
    return mine ? current : thread;
}

static uint64_t own_thread(const struct al_local *l) {
    uint64_t own = (uint64_t)pthread_self();
    uint64_t finalizing = word(l->runtime + l->layout.runtime_finalizing);
    uint64_t thread = l->own_thread ? (uint64_t)(uintptr_t)l->own_thread() : search(l, own);
    if (!thread)
        return 0;
    thread = in_other_interpreter(l, thread, own);
    // An interpreter that goes down frees the states of threads that are still there.
    return finalizing && finalizing != thread ? 0 : thread;
}

// A part of the stack, copied: as far as the page of the frame that was asked for goes towards its callers.
struct window {
    uint64_t address;
    uint32_t size;
    unsigned char bytes[WINDOW];
};

static const unsigned char *see(const struct al_local *l, struct window *w, uint64_t address, uint32_t size) {
    if (address >= w->address && address - w->address <= w->size && size <= w->size - (address - w->address))
        return w->bytes + (address - w->address);
    uint64_t end = address + size, low = address & ~(uint64_t)(PAGE - 1);
    if (size > WINDOW)
        return NULL;
    w->address = low + WINDOW < end ? end - WINDOW : low;
    w->size = (uint32_t)(end - w->address);
    if (al_memory_get(&l->guarded, w->address, w->bytes, w->size))
        return w->bytes + (address - w->address);
    w->size = 0;
    return NULL;
}

// False: there is no room.
static inline bool add(struct al_local_stack *s, const struct al_raw_frame *f, bool shim) {
    if (shim && s->count)
        s->frames[s->count - 1].entry = true;
    else if (!shim && f->code) { // without code: being made
        if (s->count == s->cap) {
            s->truncated = true;
            return false;
        }
        s->frames[s->count++] = (struct al_local_frame){f->code, f->instr, f->tlbc, f->entry};
    }
    return true;
}

static void follow_plain(const struct al_layout *y, uint64_t at, struct al_local_stack *ret) {
    const struct al_frame_shape shape = al_frame_shape(y);
    struct al_local_stack s = *ret; // in registers
    struct al_raw_frame f;
    bool shim;
    for (uint32_t steps = 0; at; steps++) {
        if (!al_address_ok(at, 8) || steps > 2 * s.cap + 8 ||
            !al_frame_parse(shape, (const unsigned char *)(uintptr_t)at, at, &f, &at, &shim)) {
            s.damaged = true;
            break;
        }
        if (!add(&s, &f, shim))
            break;
    }
    *ret = s;
}

static void follow_guarded(const struct al_local *l, uint64_t at, struct al_local_stack *s) {
    const struct al_frame_shape shape = al_frame_shape(&l->layout);
    struct window w = {0};
    struct al_raw_frame f;
    bool shim;
    for (uint32_t steps = 0; at; steps++) {
        const unsigned char *p = NULL;
        if (al_address_ok(at, 8) && steps <= 2 * s->cap + 8)
            p = see(l, &w, at, l->layout.frame_size);
        if (!p || !al_frame_parse(shape, p, at, &f, &at, &shim)) {
            s->damaged = true;
            return;
        }
        if (!add(s, &f, shim))
            return;
    }
}

static bool top(const struct al_local *l, enum al_local_how how, uint64_t thread, uint64_t *ret) {
    const struct al_layout *y = &l->layout;
    bool through = y->cframe_frame != AL_LAYOUT_NONE;
    if (how == AL_LOCAL_GUARDED)
        return al_memory_u64(&l->guarded, thread + y->thread_frame, ret) &&
               (!through || (al_address_ok(*ret, 8) && al_memory_u64(&l->guarded, *ret + y->cframe_frame, ret)));
    *ret = word(thread + y->thread_frame);
    if (through)
        *ret = al_address_ok(*ret, 8) ? word(*ret + y->cframe_frame) : 0;
    return true;
}

uint32_t al_local_walk(const struct al_local *l, enum al_local_how how, uint64_t thread, struct al_local_stack *s) {
    uint64_t at;
    s->count = 0;
    s->truncated = s->damaged = false;
    if (!al_address_ok(thread, 8) || !top(l, how, thread, &at))
        return 0;
    if (how == AL_LOCAL_PLAIN)
        follow_plain(&l->layout, at, s);
    else
        follow_guarded(l, at, s);
    if (s->count && !s->truncated)
        s->frames[s->count - 1].entry = true;
    return s->count;
}

uint32_t al_local_stack(const struct al_local *l, enum al_local_how how, struct al_local_stack *s) {
    s->count = 0;
    s->truncated = s->damaged = false;
    uint64_t thread = l->runtime ? own_thread(l) : 0;
    return thread ? al_local_walk(l, how, thread, s) : 0;
}

static bool is_code(const struct al_local *l, uint64_t type) {
    char name[16];
    uint64_t at;
    if (l->code_type)
        return type == l->code_type;
    return al_address_ok(type, 8) && al_memory_u64(&l->guarded, type + l->layout.type_name, &at) &&
           al_cstring_read(&l->guarded, at, name, sizeof name) && strcmp(name, "code") == 0;
}

// From the code's first instruction, in bytes; false: not known.
static bool offset_of(const struct al_local *l, const struct al_local_frame *f, int64_t *ret) {
    const struct al_layout *y = &l->layout;
    uint64_t start = f->code + y->code_bytecode, array, size;
    if (y->instr_unit)
        start = 0;
    else if (f->tlbc && y->code_tlbc != AL_LAYOUT_NONE &&
             (!al_memory_u64(&l->guarded, f->code + y->code_tlbc, &array) || !al_address_ok(array, 8) ||
              !al_memory_u64(&l->guarded, array, &size) || f->tlbc >= size ||
              !al_memory_u64(&l->guarded, array + 8 + 8ULL * f->tlbc, &start)))
        return false;
    *ret = (int64_t)(f->instr - start);
    return *ret >= -2 && *ret < OFFSET_MOST;
}

static void find_line(const struct al_local *l, const struct al_local_frame *f, uint64_t table, void *scratch,
                      size_t size, struct al_local_place *ret) {
    struct al_position position;
    uint64_t data, bytes;
    int64_t offset;
    if (offset_of(l, f, &offset) && al_bytes_head(&l->guarded, &l->layout, table, size, &data, &bytes) &&
        (!bytes || al_memory_get(&l->guarded, data, scratch, (uint32_t)bytes)) &&
        al_lines_find((enum al_lines_format)l->layout.lines, scratch, bytes, ret->first_line, offset, &position))
        ret->line = position.line;
}

bool al_local_place(const struct al_local *l, const struct al_local_frame *f, void *scratch, size_t size,
                    struct al_local_place *ret) {
    const struct al_layout *y = &l->layout;
    unsigned char raw[CODE_MOST];
    *ret = (struct al_local_place){.file = "?", .function = "?"};
    if (!al_address_ok(f->code, 8) || y->code_size > sizeof raw ||
        !al_memory_get(&l->guarded, f->code, raw, y->code_size) || !is_code(l, al_u64(raw + y->object_type)))
        return false;
    uint64_t name = al_u64(raw + (y->code_qualname == AL_LAYOUT_NONE ? y->code_name : y->code_qualname));
    ret->first_line = (int32_t)al_u32(raw + y->code_first_line);
    if (!al_text_read(&l->guarded, y, al_u64(raw + y->code_filename), ret->file, sizeof ret->file))
        memcpy(ret->file, "?", 2);
    if (!al_text_read(&l->guarded, y, name, ret->function, sizeof ret->function))
        memcpy(ret->function, "?", 2);
    find_line(l, f, al_u64(raw + y->code_lines), scratch, size < AL_LINES_MOST ? size : AL_LINES_MOST, ret);
    return true;
}
