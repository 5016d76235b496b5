// SPDX-License-Identifier: Apache-2.0
#include "tui/term.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dl.h"
#include "base/err.h"
#include "base/str.h"

#ifdef AL_WITH_NCURSES
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <dlfcn.h>

#define DOUBLE_CLICK_NS (400 * AL_NS_PER_MS)
#define ESCAPE_DELAY_MS 25
#define RUN_MAX 256

// What is used of the library, with its own types.
struct curses {
    SCREEN *(*newterm)(const char *, FILE *, FILE *);
    int (*endwin)(void);
    void (*delscreen)(SCREEN *);
    int (*cbreak)(void);
    int (*noecho)(void);
    int (*nonl)(void);
    int (*keypad)(WINDOW *, bool);
    int (*nodelay)(WINDOW *, bool);
    int (*set_escdelay)(int);
    int (*curs_set)(int);
    int (*wget_wch)(WINDOW *, wint_t *);
    int (*wmove)(WINDOW *, int, int);
    int (*waddnwstr)(WINDOW *, const wchar_t *, int);
    int (*wattr_set)(WINDOW *, attr_t, NCURSES_PAIRS_T, void *);
    int (*wnoutrefresh)(WINDOW *);
    int (*doupdate)(void);
    int (*clearok)(WINDOW *, bool);
    int (*resizeterm)(int, int);
    int (*start_color)(void);
    bool (*has_colors)(void);
    int (*use_default_colors)(void);
    int (*init_pair)(NCURSES_PAIRS_T, NCURSES_COLOR_T, NCURSES_COLOR_T);
    char *(*tigetstr)(const char *);
    int (*tigetnum)(const char *);
    mmask_t (*mousemask)(mmask_t, mmask_t *);
    int (*mouseinterval)(int);
    int (*getmouse)(MEVENT *);
};

#define NEED(name) {#name, offsetof(struct curses, name), true}
static const struct al_dl_symbol symbols[] = {
    NEED(newterm),   NEED(endwin),    NEED(delscreen),    NEED(cbreak),     NEED(noecho),
    NEED(nonl),      NEED(keypad),    NEED(nodelay),      NEED(curs_set),   NEED(set_escdelay),
    NEED(wget_wch),  NEED(wmove),     NEED(waddnwstr),    NEED(wattr_set),  NEED(wnoutrefresh),
    NEED(doupdate),  NEED(clearok),   NEED(resizeterm),   NEED(start_color), NEED(has_colors),
    NEED(use_default_colors),         NEED(init_pair),    NEED(tigetstr),   NEED(tigetnum),
    NEED(mousemask), NEED(mouseinterval),                 NEED(getmouse),
};

struct al_term {
    struct curses c;
    SCREEN *screen;
    WINDOW *window;
    bool color;
    struct al_grid last; // what the terminal shows
    bool known;          // last holds
    uint32_t next;       // a key that was read with the one before; AL_KEY_NONE none
    int64_t clicked_ns;
    int clicked_x, clicked_y;
};

// --- giving the terminal back when the process dies ---

static struct {
    volatile sig_atomic_t active;
    struct termios modes;
    char text[256];
    size_t len;
} rescue;

void al_term_rescue(void) {
    if (!rescue.active)
        return;
    rescue.active = 0;
    (void)tcflush(STDOUT_FILENO, TCOFLUSH);
    (void)!write(STDOUT_FILENO, rescue.text, rescue.len);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &rescue.modes);
}

static void on_crash(int number) {
    al_term_rescue();
    (void)raise(number); // SA_RESETHAND: now it ends the process as it would have
}

static void add_rescue(const struct al_term *t, const char *capability) {
    const char *text = t->c.tigetstr(capability);
    if (!text || text == (const char *)-1) // NOLINT(performance-no-int-to-ptr): terminfo's "no such string"
        return;
    for (; *text && rescue.len + 1 < sizeof rescue.text; text++) {
        const char *end = text[0] == '$' && text[1] == '<' ? strchr(text, '>') : NULL; // a padding time
        if (end)
            text = end;
        else
            rescue.text[rescue.len++] = *text;
    }
}

static void prepare_rescue(const struct al_term *t, bool mouse) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static const char mouse_off[] = "\033[?1000l\033[?1006l";
    struct sigaction a = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    rescue.len = 0;
    if (mouse) {
        memcpy(rescue.text, mouse_off, sizeof mouse_off - 1);
        rescue.len = sizeof mouse_off - 1;
    }
    add_rescue(t, "sgr0");
    add_rescue(t, "cnorm");
    add_rescue(t, "rmkx");
    add_rescue(t, "rmcup");
    rescue.active = 1;
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        struct sigaction before;
        // A sanitizer's or caller's own handler stays.
        if (sigaction(fatal[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            (void)sigaction(fatal[i], &a, NULL);
    }
}

// --- opening ---

static int load(struct curses *c, WINDOW ***ret_window, const char *instead, char *error, size_t size) {
    static const char *const paths[] = {"libncursesw.so.6", NULL};
    static void *handle; // stays open: ncurses keeps handlers and memory
    const char *path, *missing;
    int result = handle ? 0 : al_dl_open(paths, &handle, &path, error, size);
    if (result) {
        (void)snprintf(error, size, "libncursesw.so.6 was not found: install ncurses (libncursesw6), or use %s", instead);
        return result;
    }
    result = al_dl_resolve(handle, symbols, sizeof symbols / sizeof symbols[0], c, &missing);
    *ret_window = dlsym(handle, "stdscr");
    if (result || !*ret_window) {
        (void)snprintf(error, size, "libncursesw.so.6 lacks %s", result ? missing : "stdscr");
        return AL_E_NOSYM;
    }
    return 0;
}

static bool can_move(const struct al_term *t) {
    const char *cup = t->c.tigetstr("cup");
    return cup && cup != (const char *)-1; // NOLINT(performance-no-int-to-ptr)
}

static void make_colors(struct al_term *t) {
    static const short plain[AL_INK_COUNT] = {-1, COLOR_GREEN, COLOR_YELLOW, COLOR_RED, COLOR_CYAN, COLOR_BLUE, COLOR_MAGENTA};
    // Dark blue and magenta are hard to read on black.
    static const short many[AL_INK_COUNT] = {-1, 2, 3, 9, 6, 12, 13};
    if (!t->c.has_colors() || t->c.start_color() == ERR) {
        t->color = false;
        return;
    }
    bool own = t->c.use_default_colors() == ERR; // no default: white on black
    const short *inks = t->c.tigetnum("colors") >= 16 ? many : plain;
    for (int i = 1; i < AL_INK_COUNT; i++)
        (void)t->c.init_pair((NCURSES_PAIRS_T)i, inks[i], own ? COLOR_BLACK : -1);
}

static void take_modes(struct al_term *t, bool mouse) {
    (void)t->c.cbreak();
    (void)t->c.noecho();
    (void)t->c.nonl();
    (void)t->c.keypad(t->window, true);
    (void)t->c.nodelay(t->window, true);
    (void)t->c.set_escdelay(ESCAPE_DELAY_MS);
    (void)t->c.curs_set(0);
    if (mouse) {
        (void)t->c.mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
        (void)t->c.mouseinterval(0); // no waiting for what a click may become
    }
}

int al_term_open(const struct al_term_options *o, struct al_term **ret, char *error, size_t size) {
    WINDOW **window = NULL;
    struct al_term *t = calloc(1, sizeof *t);
    if (!t) {
        (void)al_str_copy(error, size, al_error_text(AL_E_NOMEM));
        return AL_E_NOMEM;
    }
    t->next = AL_KEY_NONE;
    int result = load(&t->c, &window, o->instead, error, size);
    bool have_modes = tcgetattr(STDIN_FILENO, &rescue.modes) == 0;
    const char *term = getenv("TERM");
    if (!result && !(t->screen = t->c.newterm(NULL, stdout, stdin))) {
        (void)snprintf(error, size, "terminal type \"%.40s\" is not known here: set TERM (xterm, screen, linux), or use %s",
                       term ? term : "", o->instead);
        result = AL_E_NOENT;
    }
    if (!result && !can_move(t)) {
        (void)t->c.endwin();
        t->c.delscreen(t->screen);
        (void)snprintf(error, size, "a terminal of type \"%.40s\" cannot move its cursor: use %s", term ? term : "", o->instead);
        result = AL_E_UNSUPPORTED;
    }
    if (result) {
        free(t);
        return result;
    }
    t->window = *window;
    t->color = o->color;
    if (t->color)
        make_colors(t);
    take_modes(t, o->mouse);
    if (have_modes)
        prepare_rescue(t, o->mouse);
    *ret = t;
    return 0;
}

struct al_term *al_term_close(struct al_term *t) {
    if (t) {
        (void)t->c.mousemask(0, NULL);
        (void)t->c.endwin();
        rescue.active = 0; // not before: a second signal may come while endwin is at work
        t->c.delscreen(t->screen);
        al_grid_free(&t->last);
        free(t);
    }
    return NULL;
}

void al_term_suspend(struct al_term *t) {
    (void)t->c.endwin();
    rescue.active = 0;
}

void al_term_resume(struct al_term *t) {
    rescue.active = 1;
    al_term_forget(t);
    (void)t->c.wnoutrefresh(t->window); // after endwin this takes the terminal again
    (void)t->c.doupdate();
}

bool al_term_colors(const struct al_term *t) {
    return t->color;
}

void al_term_size(struct al_term *t, int *ret_w, int *ret_h) {
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row) {
        int lines = t->c.tigetnum("lines"), columns = t->c.tigetnum("cols");
        size.ws_row = (unsigned short)(lines > 0 ? lines : 24);
        size.ws_col = (unsigned short)(columns > 0 ? columns : 80);
    }
    *ret_w = size.ws_col > AL_GRID_MAX ? AL_GRID_MAX : size.ws_col;
    *ret_h = size.ws_row > AL_GRID_MAX ? AL_GRID_MAX : size.ws_row;
    if (t->last.w == *ret_w && t->last.h == *ret_h)
        return;
    (void)t->c.resizeterm(*ret_h, *ret_w);
    if (al_grid_resize(&t->last, *ret_w, *ret_h) == 0)
        al_term_forget(t);
}

void al_term_forget(struct al_term *t) {
    t->known = false;
    (void)t->c.clearok(t->window, true);
}

// --- showing ---

static void set_style(struct al_term *t, uint8_t style) {
    attr_t a = A_NORMAL;
    a |= style & AL_STYLE_BOLD ? A_BOLD : 0;
    a |= style & AL_STYLE_DIM ? A_DIM : 0;
    a |= style & AL_STYLE_REVERSE ? A_REVERSE : 0;
    a |= style & AL_STYLE_LINE ? A_UNDERLINE : 0;
    (void)t->c.wattr_set(t->window, a, (NCURSES_PAIRS_T)(t->color ? style & AL_STYLE_INK : 0), NULL);
}

static bool same(struct al_cell a, struct al_cell b) {
    return a.cp == b.cp && a.style == b.style;
}

static void show_row(struct al_term *t, const struct al_grid *g, int y) {
    const struct al_cell *now = &g->cells[y * g->w], *old = &t->last.cells[y * g->w];
    int first = 0, end = g->w;
    while (t->known && first < end && same(now[first], old[first]))
        first++;
    while (t->known && end > first && same(now[end - 1], old[end - 1]))
        end--;
    while (first > 0 && first < end && (now[first].cp == 0 || old[first].cp == 0))
        first--; // a wide character is written as a whole
    while (end < g->w && end > first && (now[end].cp == 0 || old[end].cp == 0))
        end++;
    for (int x = first; x < end;) {
        wchar_t run[RUN_MAX];
        int n = 0, at = x;
        uint8_t style = now[x].style;
        for (; x < end && now[x].style == style && n < RUN_MAX - 1; x++)
            if (now[x].cp)
                run[n++] = (wchar_t)now[x].cp;
        (void)t->c.wmove(t->window, y, at);
        set_style(t, style);
        (void)t->c.waddnwstr(t->window, run, n);
    }
}

void al_term_show(struct al_term *t, const struct al_grid *g) {
    if (t->last.w != g->w || t->last.h != g->h) {
        if (al_grid_resize(&t->last, g->w, g->h) != 0)
            return;
        al_term_forget(t);
    }
    for (int y = 0; y < g->h; y++)
        show_row(t, g, y);
    memcpy(t->last.cells, g->cells, (size_t)g->w * (size_t)g->h * sizeof *g->cells);
    t->known = true;
    (void)t->c.wnoutrefresh(t->window);
    (void)t->c.doupdate();
}

// --- keys ---

static uint32_t special(wint_t code) {
    static const struct {
        int code;
        uint32_t key;
    } table[] = {
        {KEY_UP, AL_KEY_UP},         {KEY_DOWN, AL_KEY_DOWN},         {KEY_LEFT, AL_KEY_LEFT},   {KEY_RIGHT, AL_KEY_RIGHT},
        {KEY_PPAGE, AL_KEY_PAGE_UP}, {KEY_NPAGE, AL_KEY_PAGE_DOWN},   {KEY_HOME, AL_KEY_HOME},   {KEY_END, AL_KEY_END},
        {KEY_ENTER, AL_KEY_ENTER},   {KEY_BACKSPACE, AL_KEY_BACKSPACE}, {KEY_DC, AL_KEY_DELETE}, {KEY_BTAB, AL_KEY_BACK_TAB},
        {KEY_MOUSE, AL_KEY_MOUSE},   {KEY_RESIZE, AL_KEY_RESIZE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((wint_t)table[i].code == code)
            return table[i].key;
    if (code >= KEY_F0 && code <= KEY_F0 + 12)
        return AL_KEY_F0 + (uint32_t)(code - KEY_F0);
    return AL_KEY_RESIZE; // unknown: nothing but a new frame
}

static uint32_t plain(wint_t code) {
    switch (code) {
    case '\r':
    case '\n': return AL_KEY_ENTER;
    case '\t': return AL_KEY_TAB;
    case 27: return AL_KEY_ESCAPE;
    case 8:
    case 127: return AL_KEY_BACKSPACE;
    default: return code <= 0x10ffff ? (uint32_t)code : AL_KEY_RESIZE;
    }
}

static uint32_t mouse(struct al_term *t, struct al_term_mouse *ret) {
    MEVENT e;
    if (t->c.getmouse(&e) == ERR)
        return AL_KEY_RESIZE;
    ret->x = e.x;
    ret->y = e.y;
    if (e.bstate & BUTTON4_PRESSED) {
        ret->what = AL_MOUSE_WHEEL_UP;
        return AL_KEY_MOUSE;
    }
    if (e.bstate & BUTTON5_PRESSED) {
        ret->what = AL_MOUSE_WHEEL_DOWN;
        return AL_KEY_MOUSE;
    }
    if (!(e.bstate & BUTTON1_PRESSED))
        return AL_KEY_RESIZE;
    int64_t now = al_monotonic_ns();
    bool again = now - t->clicked_ns < DOUBLE_CLICK_NS && t->clicked_x == e.x && t->clicked_y == e.y;
    ret->what = again ? AL_MOUSE_DOUBLE : AL_MOUSE_CLICK;
    t->clicked_ns = again ? 0 : now;
    t->clicked_x = e.x;
    t->clicked_y = e.y;
    return AL_KEY_MOUSE;
}

// What stands behind an escape: a key that the terminal's description lacks, such as an arrow in its other mode or one with
// Ctrl, comes as characters. They are no keys of their own; plain arrows and their like are known by how they end.
static uint32_t sequence(struct al_term *t) {
    static const struct {
        const char *text;
        uint32_t key;
    } known[] = {
        {"A", AL_KEY_UP},   {"B", AL_KEY_DOWN}, {"C", AL_KEY_RIGHT}, {"D", AL_KEY_LEFT}, {"H", AL_KEY_HOME},    {"F", AL_KEY_END},
        {"1~", AL_KEY_HOME}, {"4~", AL_KEY_END}, {"3~", AL_KEY_DELETE}, {"5~", AL_KEY_PAGE_UP}, {"6~", AL_KEY_PAGE_DOWN},
    };
    char text[16] = "";
    size_t len = 0;
    wint_t code = 0;
    int kind = t->c.wget_wch(t->window, &code);
    if (kind == ERR)
        return AL_KEY_ESCAPE;
    if (kind == KEY_CODE_YES || (code != '[' && code != 'O')) { // it was pressed alone, and then another key
        t->next = kind == KEY_CODE_YES ? special(code) : plain(code);
        return AL_KEY_ESCAPE;
    }
    if ((kind = t->c.wget_wch(t->window, &code)) == ERR) { // that letter was a key
        t->next = plain(code);
        return AL_KEY_ESCAPE;
    }
    for (; kind != ERR && kind != KEY_CODE_YES; kind = t->c.wget_wch(t->window, &code)) {
        if (len + 1 < sizeof text)
            text[len++] = code < 0x80 ? (char)code : '?';
        if (code >= 0x40 && code <= 0x7e)
            break;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].text, text) == 0)
            return known[i].key;
    return AL_KEY_RESIZE; // unknown: nothing but a new frame
}

uint32_t al_term_key(struct al_term *t, struct al_term_mouse *ret) {
    wint_t code = 0;
    uint32_t key = t->next;
    t->next = AL_KEY_NONE;
    if (key == AL_KEY_NONE) {
        int kind = t->c.wget_wch(t->window, &code);
        if (kind == ERR)
            return AL_KEY_NONE;
        key = kind == KEY_CODE_YES ? special(code) : plain(code);
    }
    if (key == AL_KEY_ESCAPE)
        key = sequence(t);
    return key == AL_KEY_MOUSE ? mouse(t, ret) : key;
}

#else

struct al_term {
    int unused;
};

int al_term_open(const struct al_term_options *o, struct al_term **ret, char *error, size_t size) {
    (void)o;
    (void)ret;
    (void)al_str_copy(error, size, "this alula was built without ncurses: use alula top --once or alula watch");
    return AL_E_UNSUPPORTED;
}
struct al_term *al_term_close(struct al_term *t) {
    (void)t;
    return NULL;
}
void al_term_suspend(struct al_term *t) {
    (void)t;
}
void al_term_resume(struct al_term *t) {
    (void)t;
}
void al_term_rescue(void) {
}
bool al_term_colors(const struct al_term *t) {
    (void)t;
    return false;
}
void al_term_size(struct al_term *t, int *ret_w, int *ret_h) {
    (void)t;
    *ret_w = *ret_h = 1;
}
void al_term_show(struct al_term *t, const struct al_grid *g) {
    (void)t;
    (void)g;
}
void al_term_forget(struct al_term *t) {
    (void)t;
}
uint32_t al_term_key(struct al_term *t, struct al_term_mouse *ret) {
    (void)t;
    (void)ret;
    return AL_KEY_NONE;
}
#endif
