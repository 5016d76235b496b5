// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include "launch/inject_frame.h"

#include <cpuid.h>
#include <string.h>

// 41 ff d4        call *%r12
// 48 89 c3        mov %rax,%rbx
// 0f 31           rdtsc
// 89 c1           mov %eax,%ecx
// f3 90           pause                  <- waits from here
// 0f 31           rdtsc
// 29 c8           sub %ecx,%eax
// 3d 00 00 00 20  cmp $0x20000000,%eax   a fifth of a second or less
// 72 f3           jb pause               <- to here
// b8 0f 00 00 00  mov $15,%eax           rt_sigreturn
// 0f 05           syscall
// 0f 0b           ud2                    not reached
const uint8_t al_stub[AL_STUB_SIZE] = {0x41, 0xff, 0xd4, 0x48, 0x89, 0xc3, 0x0f, 0x31, 0x89, 0xc1, 0xf3, 0x90, 0x0f, 0x31,
                                       0x29, 0xc8, 0x3d, 0x00, 0x00, 0x00, 0x20, 0x72, 0xf3, 0xb8, 0x0f, 0x00, 0x00, 0x00,
                                       0x0f, 0x05, 0x0f, 0x0b, 'a',  'l',  'u',  'l',  'a',  ' ',  ' ',  ' '};

#define RED_ZONE 128
#define XSTATE_SOFTWARE 464 // bytes 464 to 511 of an FXSAVE area are software's: struct _fpx_sw_bytes
#define XSTATE_HEADER 512
#define MAGIC1 0x46505853u // FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2 of <asm/sigcontext.h>
#define MAGIC2 0x46505845u
#define TILE_DATA 18 // AMX, which a thread has to ask for
#define FEATURES 64

// struct ucontext and sigcontext of the kernel's x86-64 ABI.
struct context {
    uint64_t flags, link;
    uint64_t stack_pointer, stack_flags, stack_size;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t err, trap, old_mask, cr2, fpstate, reserved[8];
    uint64_t mask;
};
#define UC_FLAGS 7          // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
#define NO_STACK_CHANGE 0x70 // no mode that sigaltstack knows: it is refused, and the refusal is not looked at

#define RESTART_FIRST 512u // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
#define RESTART_LAST 514u
#define RESTART_BLOCK 516u
#define SYSCALL_BYTES 2
#define NR_RESTART 219

// Where the kernel stopped it inside of a system call, it would have put these two right before going on.
static void as_restarted(struct context *c, const struct user_regs_struct *r) {
    uint64_t error = -r->rax;
    if ((int64_t)r->orig_rax < 0 || (error != RESTART_BLOCK && (error < RESTART_FIRST || error > RESTART_LAST)))
        return;
    c->rip -= SYSCALL_BYTES;
    c->rax = error == RESTART_BLOCK ? NR_RESTART : r->orig_rax;
}

static void fill_context(struct context *c, const struct al_thread *t) {
    const struct user_regs_struct *r = &t->regs;
    *c = (struct context){
        .flags = UC_FLAGS, .stack_flags = NO_STACK_CHANGE,
        .r8 = r->r8, .r9 = r->r9, .r10 = r->r10, .r11 = r->r11, .r12 = r->r12, .r13 = r->r13, .r14 = r->r14, .r15 = r->r15,
        .rdi = r->rdi, .rsi = r->rsi, .rbp = r->rbp, .rbx = r->rbx, .rdx = r->rdx, .rax = r->rax, .rcx = r->rcx,
        .rsp = r->rsp, .rip = r->rip, .eflags = r->eflags, .cs = (uint16_t)r->cs, .ss = (uint16_t)r->ss, .mask = t->mask,
    };
    as_restarted(c, r);
}

// The kernel takes no more state than the thread may have: without its tiles, if it does not use them.
static size_t xstate_used(const struct al_thread *t, uint64_t *features) {
    uint64_t used;
    size_t size = XSTATE_HEADER + 64;
    memcpy(&used, t->xstate + XSTATE_HEADER, sizeof used);
    if (used >> TILE_DATA & 1)
        return t->xstate_size;
    *features &= ~(1ULL << TILE_DATA);
    for (unsigned i = 2; i < FEATURES - 1; i++) {
        unsigned a, b, c, d;
        if (!(*features >> i & 1) || !__get_cpuid_count(0xd, i, &a, &b, &c, &d))
            continue;
        if (!(c & 1) && (size_t)a + b > size) // not a supervisor's
            size = (size_t)a + b;
    }
    return size < t->xstate_size ? size : t->xstate_size;
}

void al_frame_build(struct al_frame *f, const struct al_thread *t) {
    struct context c;
    uint64_t features;
    memcpy(&features, t->xstate + XSTATE_SOFTWARE, sizeof features); // ptrace puts XCR0 there
    size_t used = xstate_used(t, &features), whole = (used + sizeof(uint32_t) + 63) & ~(size_t)63;
    const uint32_t magic2 = MAGIC2;
    struct {
        uint32_t magic, extended_size;
        uint64_t features;
        uint32_t xstate_size, padding[7];
    } software = {MAGIC1, (uint32_t)(used + sizeof magic2), features, (uint32_t)used, {0}};
    uint64_t xstate_at = (t->regs.rsp - RED_ZONE - whole) & ~63ULL;
    f->at = (xstate_at - sizeof c) & ~15ULL;
    f->base = f->at;
    f->size = (size_t)(xstate_at - f->at) + whole;
    memset(f->bytes, 0, sizeof f->bytes);
    fill_context(&c, t);
    c.fpstate = xstate_at;
    memcpy(f->bytes, &c, sizeof c);
    uint8_t *x = f->bytes + (xstate_at - f->at);
    memcpy(x, t->xstate, used);
    memcpy(x + XSTATE_SOFTWARE, &software, sizeof software);
    memcpy(x + used, &magic2, sizeof magic2);
}
#else
typedef int al_no_frame;
#endif
