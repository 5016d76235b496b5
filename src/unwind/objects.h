// SPDX-License-Identifier: Apache-2.0
// Programs and libraries mapped into the target: which one an instruction belongs to, its tables, its file.
#ifndef AL_UNWIND_OBJECTS_H
#define AL_UNWIND_OBJECTS_H

#include "stack/remote.h"
#include "unwind/cfi.h"
#include "unwind/source.h"
#include "unwind/symbols.h"

#define AL_OBJECTS_MOST 20000u
#define AL_BUILD_ID_MOST 64u
#define AL_LOOP_PARTS 4u
#define AL_MARK 32u         // bytes
#define AL_ASKED_MOST 32u   // objects of one stack
#define AL_OBJECTS_BYTES (384ull << 20) // held of all objects: tables, symbols, debugging sections

struct al_dso {
    char *path;             // as the target sees it
    uint64_t inode, header; // header: where its first byte is mapped
    uint64_t first_end;     // end of that mapping
    uint64_t bias;          // added to the file's addresses
    uint64_t frames, frames_size, frames_segment_end; // .eh_frame_hdr, the file's addresses; size 0: none
    unsigned char build_id[AL_BUILD_ID_MOST];
    uint32_t build_id_len;
    uint64_t mark_at;       // bytes of the target that no other object would have there
    unsigned char mark[AL_MARK];
    uint32_t mark_size;
    int64_t stood_ns; // when it was last seen there
    uint64_t bytes;   // held of it
    bool gone;        // something else is mapped there now
    bool deleted, vdso, used; // used: seen in the last reading of the mappings
    bool cfi_tried, cfi_ok, symbols_tried, symbols_ok, source_tried;
    struct al_cfi cfi;
    struct al_symbols symbols;
    struct al_source *source;
    uint64_t loop_parts[AL_LOOP_PARTS]; // see split.c: where nameless parts of the interpreter's loop begin
    uint8_t loop_count;
    bool loop_tried;
};

struct al_code_area {
    uint64_t start, end;
    struct al_dso *dso; // NULL: code made at run time
};

struct al_objects {
    pid_t pid;
    const char *procfs;
    const struct al_elfutils *e;
    const struct al_memory *memory;
    struct al_dso **list;
    uint32_t count, cap;
    uint64_t bytes; // held of all of them
    struct al_code_area *areas; // by address
    uint32_t areas_count, areas_cap;
    struct al_dso *asked[AL_ASKED_MOST]; // for al_objects_stand
    uint32_t asked_count;
};

// Reads the mappings. *ret_changed: where code is has changed, so that what was kept by address is void.
int al_objects_read(struct al_objects *o, bool *ret_changed); // AL_E_GONE, AL_E_DENIED, AL_E_NOMEM
const struct al_code_area *al_objects_find(const struct al_objects *o, uint64_t address); // NULL: no code there
void al_objects_free(struct al_objects *o);
// Of the objects that a stack goes through: whether each is still there, or another was loaded to its place. When not, the mappings
// are to be read again.
void al_objects_ask(struct al_objects *o, struct al_dso *d);
bool al_objects_stand(struct al_objects *o);
// Counts what is to be held of an object. False: that would be more than AL_OBJECTS_BYTES.
bool al_dso_hold(struct al_objects *o, struct al_dso *d, uint64_t bytes);
// NULL: it has none that can be used.
struct al_cfi *al_dso_cfi(struct al_objects *o, struct al_dso *d);
const struct al_symbols *al_dso_symbols(struct al_objects *o, struct al_dso *d);
// The raw name of what the loader binds to an address of the object (of a linkage stub's target). False: nothing.
bool al_dso_import(const struct al_objects *o, const struct al_dso *d, uint64_t slot, char *out, size_t size);

// files.c: its file, and the one with its debugging information, held to its build id (or inode). False: none.
bool al_dso_open_file(const struct al_objects *o, const struct al_dso *d, struct al_bytes *ret);
bool al_dso_open_debug(const struct al_objects *o, const struct al_dso *d, const struct al_bytes *file, struct al_bytes *ret);
// The file of that build id in the folders for debugging information, of the target's root and of this one.
bool al_debug_by_id(const struct al_objects *o, const unsigned char *id, uint32_t length, struct al_bytes *ret);

// source.c: source file (its pointer is good while d lives) and line of an address of the file. False: not known.
bool al_dso_line(struct al_objects *o, struct al_dso *d, uint64_t address, const char **ret_file, int *ret_line);
// Frame information of programs compiled without .eh_frame. NULL: none.
Dwarf_CFI *al_dso_debug_frame(struct al_objects *o, struct al_dso *d);

#endif
