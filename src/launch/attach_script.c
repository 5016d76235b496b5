// SPDX-License-Identifier: Apache-2.0
// The text that a process runs: a line for its main thread, which starts a thread, and a script for that one with the whole
// hook in it. Few calls into the system: each gives the interpreter's lock away, and a main thread that never sleeps then
// keeps it for a switch interval.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "launch/attach_parts.h"
#include "launch/folder.h"

#define TEXT_MOST (1u << 20)

// Text in quotes for Python, which reads JSON's escapes as JSON does.
static void quoted(struct al_buf *b, const char *text) {
    al_json_string(b, text);
}

static const char *inside(const struct al_attach *a, const char *path) {
    return path + strlen(a->root);
}

// "loop.py": "its text",
static int add_text(struct al_buf *b, const char *folder, const char *name) {
    char path[4400], *text;
    size_t length;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return AL_E_TOOBIG;
    int result = al_fs_slurp(path, TEXT_MOST, &text, &length);
    if (result)
        return result;
    quoted(b, name);
    al_buf_str(b, ": ");
    quoted(b, text);
    al_buf_str(b, ",\n");
    free(text);
    return 0;
}

static int add_texts(struct al_buf *b, const char *folder) {
    DIR *d = opendir(folder);
    struct dirent *e;
    int result = d ? 0 : AL_E_NOENT;
    al_buf_str(b, "texts = {\n");
    while (!result && (e = readdir(d)))
        if (al_str_ends(e->d_name, ".py"))
            result = add_text(b, folder, e->d_name);
    al_buf_str(b, "}\n");
    if (d)
        (void)closedir(d);
    return result;
}

static void set(struct al_buf *b, const char *name, const char *value) {
    al_buf_printf(b, "%s = ", name);
    quoted(b, value);
    al_buf_char(b, '\n');
}

// `folder` is what the modules are said to lie in: nothing is read there.
static int script(struct al_buf *b, const struct al_attach *a, const struct al_link *link, const char *hook, const char *probe) {
    char folder[4200], library[4200];
    (void)snprintf(folder, sizeof folder, "%s/_alula_hook", hook);
    (void)snprintf(library, sizeof library, "%s%s", a->foreign ? inside(a, link->dir) : probe,
                   a->foreign ? "/" AL_ATTACH_PROBE : "");
    int result = add_texts(b, folder);
    set(b, "folder", folder);
    set(b, "library", library);
    set(b, "socket", inside(a, link->path));
    set(b, "__name__", "_alula_hook.entry");
    al_buf_str(b, "exec(compile(texts.pop('entry.py'), folder + '/entry.py', 'exec'))\n"
                  "run(connection, folder, texts, library, socket)\n");
    return b->failed ? AL_E_NOMEM : result;
}

void al_attach_line(const struct al_attach *a, const struct al_link *link, struct al_buf *b) {
    // In a thread of its own, so that no handler of the job's signals can run in the middle of it. First it connects: that is
    // how alula hears of it.
    al_buf_str(b, "try:exec('''import _thread as t\ndef f():\n try:\n  import _socket,posix as o;c=_socket.socket(1,1)\n"
                  "  c.connect(p+'/control')\n"
                  "  d=o.open(p+'/start.py',0);s=o.read(d,");
    al_buf_printf(b, "%zu", a->script_size);
    al_buf_str(b, ");o.close(d)\n  exec(s,{'connection':c})\n"
                  " except BaseException:pass\ntry:t.start_new_thread(f,())\nexcept Exception:pass''',{'p':'");
    al_buf_str(b, inside(a, link->dir)); // of mkdtemp: no quotes
    // Nothing of it stays in __main__. PyRun_SimpleString must never see an exception: it would print and lose it, and the
    // interpreter ends the job for want of one. What a handler of a signal raises just then is not alula's to lose: a thread
    // has it raised again when the main thread has left this line, by whose frame that is known.
    al_buf_str(b, "'})\n"
                  "except BaseException as e:exec('''import _thread as t,sys\nm=t.get_ident();n=sys._getframe(1)\n"
                  "def g():\n import ctypes as c,time\n r=n\n while r:\n  time.sleep(.001)\n  r=sys._current_frames().get(m)\n"
                  "  while r and r is not n:r=r.f_back\n"
                  " c.pythonapi.PyThreadState_SetAsyncExc(c.c_ulong(m),c.py_object(type(e)))\n globals().clear()\n"
                  "try:t.start_new_thread(g,())\nexcept Exception:pass''',{'e':e})\n");
}

int al_attach_put_scripts(struct al_attach *a, const struct al_link *link, const char *hook, const char *probe) {
    struct al_buf start = AL_BUF_INIT, line = AL_BUF_INIT;
    int result = script(&start, a, link, hook, probe);
    a->script_size = start.len;
    al_attach_line(a, link, &line);
    if (!result && line.failed)
        result = AL_E_NOMEM;
    if (!result)
        result = al_folder_write(link->dir_fd, "start.py", start.data, start.len, 0600);
    if (!result)
        result = al_folder_write(link->dir_fd, "line.py", line.data, line.len, 0600);
    al_buf_free(&start);
    al_buf_free(&line);
    return result;
}
