// SPDX-License-Identifier: Apache-2.0
// A known chain of calls to look at from outside: main, one, two (its frame has no fixed size), three (its frame is
// aligned), four, and then what is asked for. A line on standard output says that it stands there.
// chain pause | spin | calls | signal | altstack | sort | deep DEPTH | load LIBRARY | code | code-fp | assembly | leaf | stale
#include <alloca.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLAIN __attribute__((noinline, noclone, noipa))

static char **words;
static volatile int sink;

PLAIN static void stand(void) {
    puts("ready");
    fflush(stdout);
    pause();
    sink++;
}

PLAIN static void spin(void) {
    puts("ready");
    fflush(stdout);
    while (sink != -1)
        ;
    sink++;
}

PLAIN static int middle(int n) {
    char text[64];
    int numbers[3] = {n, 2, 1};
    snprintf(text, sizeof text, "%d %s", numbers[0], "text");
    return (int)strlen(text) + (int)getppid();
}

PLAIN static void calls(void) {
    puts("ready");
    fflush(stdout);
    while (sink != -1)
        sink = middle(sink) & 0xff;
    sink++;
}

PLAIN static void handler(int number) {
    stand();
    sink += number;
}

PLAIN static void by_signal(int alternative) {
    static char other[65536];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction action = {.sa_handler = handler, .sa_flags = alternative ? SA_ONSTACK : 0};
    if (alternative)
        sigaltstack(&stack, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sink++;
}

PLAIN static int compare(const void *a, const void *b) {
    stand();
    return *(const int *)a - *(const int *)b;
}

PLAIN static void by_sort(void) {
    int numbers[4] = {3, 1, 2, 4};
    qsort(numbers, 4, sizeof *numbers, compare);
    sink += numbers[0];
}

PLAIN static void deep(int depth) {
    volatile char room[256];
    room[0] = (char)depth;
    if (depth > 1)
        deep(depth - 1);
    else
        stand();
    sink += room[0];
}

// Sixty-four places behind calls, each in a frame of another size.
static void *sites[64];
static unsigned sites_count;

PLAIN static void remember(void) {
    sites[sites_count++ % 64] = __builtin_return_address(0);
}

#define SITE(n)                                                                                                        \
    PLAIN static void site_##n(void) {                                                                                 \
        volatile char room[512 + 16 * (0##n)];                                                                         \
        room[0] = 1;                                                                                                   \
        remember();                                                                                                    \
        sink += room[0];                                                                                               \
    }
#define SITES(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) // octal
#define ALL_SITES(X) SITES(X, 0) SITES(X, 1) SITES(X, 2) SITES(X, 3) SITES(X, 4) SITES(X, 5) SITES(X, 6) SITES(X, 7)
ALL_SITES(SITE)

// Its frame hangs on a register, and all those places lie in it.
PLAIN static void varied(void) {
    char *room = alloca((size_t)(getpid() % 100) + sizeof sites);
    memcpy(room, sites, sizeof sites);
    stand();
    sink += room[0];
}

PLAIN static void by_varied(void) {
#define CALL(n) site_##n();
    ALL_SITES(CALL)
    varied();
    sink++;
}

PLAIN static void by_library(const char *path) {
    void *handle = dlopen(path, RTLD_NOW);
    void (*call)(void (*)(void)) = handle ? (void (*)(void (*)(void)))dlsym(handle, "loaded_later") : NULL;
    if (call)
        call(stand);
    sink++;
}

#if defined __x86_64__
// Code without tables: [push %rbp; mov %rsp,%rbp;] sub $16,%rsp; call *%rdi; add $16,%rsp; [pop %rbp;] ret
PLAIN static void by_code(const char *map, int pointer) {
    static const unsigned char with[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xff,
                                         0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3};
    static const unsigned char without[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3};
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, pointer ? with : without, pointer ? sizeof with : sizeof without);
    FILE *f = fopen(map, "w");
    if (f) {
        fprintf(f, "%lx %x made; at [run] time\n", (unsigned long)code, 64);
        fclose(f);
    }
    ((void (*)(void (*)(void)))(void *)code)(stand);
    sink++;
}

// Assembly with a name and without tables, between functions that have them. Below its return address lies another, of a call that
// is long over.
void assembly(void (*call)(void), void *stale);
__asm__(".text\n.globl assembly\n.type assembly, @function\nassembly:\nsub $24, %rsp\nmov %rsi, 8(%rsp)\ncall *%rdi\nadd $24, %rsp\nret\n"
        ".size assembly, . - assembly\n");

PLAIN static void *caller(void) {
    return __builtin_return_address(0);
}

PLAIN static void *by_pointer(void) {
    void *(*volatile called)(void) = caller;
    void *ret = called();
    sink++;
    return ret;
}

PLAIN static void by_assembly(void) {
    assembly(stand, by_pointer());
    sink++;
}

// It is jumped to, and what it returns to is behind a call of the one that jumped. Above lies the address of a call by pointer.
void leaf(void);
__asm__(".text\n.globl leaf\n.type leaf, @function\nleaf:\nxor %eax, %eax\n1: inc %eax\njmp 1b\n.size leaf, . - leaf\n");

PLAIN static void jumps(void (*call)(void)) {
    call();
}

PLAIN static void by_leaf(void) {
    void *volatile stale[4];
    for (int i = 0; i < 4; i++)
        stale[i] = by_pointer();
    puts("ready");
    fflush(stdout);
    jumps(leaf);
    sink += stale[1] != NULL;
}
#endif

PLAIN static void four(void) {
    char map[64];
    if (!strcmp(words[1], "spin"))
        spin();
    else if (!strcmp(words[1], "calls"))
        calls();
    else if (!strcmp(words[1], "signal") || !strcmp(words[1], "altstack"))
        by_signal(words[1][0] == 'a');
    else if (!strcmp(words[1], "sort"))
        by_sort();
    else if (!strcmp(words[1], "deep"))
        deep(atoi(words[2]));
    else if (!strcmp(words[1], "load"))
        by_library(words[2]);
    else if (!strcmp(words[1], "stale"))
        by_varied();
#if defined __x86_64__
    else if (!strcmp(words[1], "code") || !strcmp(words[1], "code-fp")) {
        snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)getpid());
        by_code(map, words[1][4] == '-');
    } else if (!strcmp(words[1], "assembly"))
        by_assembly();
    else if (!strcmp(words[1], "leaf"))
        by_leaf();
#endif
    else
        stand();
    sink++;
}

PLAIN static void three(void) {
    volatile char aligned[128] __attribute__((aligned(64)));
    aligned[0] = 1;
    char *more = alloca((size_t)(getpid() % 7 + 16));
    more[0] = 1;
    sink += more[0];
    four();
    sink += aligned[0];
}

PLAIN static void two(void) {
    char *room = alloca((size_t)(getpid() % 100 + 200));
    room[0] = (char)sink;
    sink += room[0];
    three();
    sink += room[0];
}

PLAIN static void one(void) {
    two();
    sink++;
}

int main(int argc, char **argv) {
    words = argv;
    if (argc < 2 || ((!strcmp(argv[1], "deep") || !strcmp(argv[1], "load")) && argc < 3))
        return 2;
    alarm(600); // should nobody end it
    one();
    return sink == 0;
}
