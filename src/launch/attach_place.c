// SPDX-License-Identifier: Apache-2.0
// Where a process lives, and a folder that it and alula both reach.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/attach_parts.h"
#include "launch/folder.h"

int al_attach_find_place(pid_t pid, struct al_place *ret) {
    char path[48], own[64] = "", other[64] = "";
    struct stat st, root;
    *ret = (struct al_place){0};
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &st))
        return AL_E_GONE;
    ret->uid = st.st_uid;
    ret->gid = st.st_gid;
    (void)snprintf(path, sizeof path, "/proc/%d/root/", (int)pid);
    if (stat(path, &st) || stat("/", &root))
        return AL_E_DENIED;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)pid);
    (void)!readlink(path, other, sizeof other - 1);
    (void)!readlink("/proc/self/ns/mnt", own, sizeof own - 1);
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    (void)al_str_copy(ret->mounts, sizeof ret->mounts, other);
    bool root_ours = st.st_dev == root.st_dev && st.st_ino == root.st_ino && strcmp(own, other) == 0;
    if (!root_ours)
        (void)snprintf(ret->root, sizeof ret->root, "/proc/%d/root", (int)pid);
    ret->foreign = !root_ours || ret->uid != geteuid();
    return 0;
}

bool al_attach_same_place(const struct al_place *a, const struct al_place *b) {
    return a->uid == b->uid && a->dev == b->dev && a->ino == b->ino && strcmp(a->mounts, b->mounts) == 0;
}

static int put_files(const struct al_link *link, const char *hook, const char *probe) {
    char from[4096];
    if (snprintf(from, sizeof from, "%s/_alula_hook", hook) >= (int)sizeof from)
        return AL_E_TOOBIG;
    int result = al_folder_copy(link->dir_fd, "libalula-probe.so", probe, 0700);
    return result ? result : al_folder_copy_all(link->dir_fd, "_alula_hook", from, ".py");
}

// The first place of the other root that can be written to and that libraries can be loaded from.
static int open_there(const struct al_attach *a, struct al_link *link) {
    static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};
    int result = AL_E_DENIED;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char place[64];
        struct statvfs v;
        (void)snprintf(place, sizeof place, "%s%s", a->root, places[i]);
        if (statvfs(place, &v) || v.f_flag & (ST_NOEXEC | ST_RDONLY))
            continue;
        result = al_link_open_below(link, place);
        if (!result)
            return 0;
    }
    return result;
}

// Text in quotes for Python, which reads JSON's escapes as JSON does.
static void quoted(struct al_buf *b, const char *text) {
    al_json_string(b, text);
}

static const char *inside(const struct al_attach *a, const char *path) {
    return path + strlen(a->root);
}

// What the process runs, in a thread of its own so that no handler of the job's signals can run in the middle of it.
static void start_script(struct al_buf *b, const struct al_attach *a, const struct al_link *link, const char *hook,
                         const char *probe) {
    char package[4200], library[4200];
    (void)snprintf(package, sizeof package, "%s/_alula_hook", a->foreign ? inside(a, link->dir) : hook);
    (void)snprintf(library, sizeof library, "%s%s", a->foreign ? inside(a, link->dir) : probe,
                   a->foreign ? "/libalula-probe.so" : "");
    al_buf_str(b, "import importlib.util, sys\npackage = ");
    quoted(b, package);
    al_buf_str(b, "\nif '_alula_hook' not in sys.modules:\n"
                  "    spec = importlib.util.spec_from_file_location('_alula_hook', package + '/__init__.py',\n"
                  "                                                  submodule_search_locations=[package])\n"
                  "    module = importlib.util.module_from_spec(spec)\n"
                  "    sys.modules['_alula_hook'] = module\n"
                  "    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True\n"
                  "    try:\n"
                  "        spec.loader.exec_module(module)\n"
                  "        import _alula_hook.attach\n"
                  "    finally:\n"
                  "        sys.dont_write_bytecode = write\n"
                  "import _alula_hook.attach\n"
                  "_alula_hook.attach.run(");
    quoted(b, library);
    al_buf_str(b, ", ");
    quoted(b, inside(a, link->path));
    al_buf_str(b, ", ");
    quoted(b, inside(a, a->control));
    al_buf_str(b, ")\n");
}

void al_attach_line(const struct al_attach *a, const struct al_link *link, struct al_buf *b) {
    // Nothing of it stays in __main__. PyRun_SimpleString must never see an exception: it would print and lose it, and the
    // interpreter ends the job for want of one. What a handler of a signal raises just then is not alula's to lose: a thread
    // has it raised again when the main thread has left this line, by whose frame that is known.
    al_buf_str(b, "try:exec('''import _thread as t\ndef f():\n try:\n  with open(p) as o:exec(compile(o.read(),p,'exec'),"
                  "{'__name__':'_alula_start'})\n except BaseException:pass\ntry:t.start_new_thread(f,())\n"
                  "except Exception:pass''',{'p':'");
    al_buf_str(b, inside(a, link->dir)); // of mkdtemp: no quotes
    al_buf_str(b, "/start.py'})\n"
                  "except BaseException as e:exec('''import _thread as t,sys\nm=t.get_ident();n=sys._getframe(1)\n"
                  "def g():\n import ctypes as c,time\n r=n\n while r:\n  time.sleep(.001)\n  r=sys._current_frames().get(m)\n"
                  "  while r and r is not n:r=r.f_back\n"
                  " c.pythonapi.PyThreadState_SetAsyncExc(c.c_ulong(m),c.py_object(type(e)))\n globals().clear()\n"
                  "try:t.start_new_thread(g,())\nexcept Exception:pass''',{'e':e})\n");
}

static int put_scripts(const struct al_attach *a, const struct al_link *link, const char *hook, const char *probe) {
    struct al_buf start = AL_BUF_INIT, line = AL_BUF_INIT;
    start_script(&start, a, link, hook, probe);
    al_attach_line(a, link, &line);
    int result = start.failed || line.failed ? AL_E_NOMEM : 0;
    if (!result)
        result = al_folder_write(link->dir_fd, "start.py", start.data, start.len, 0600);
    if (!result)
        result = al_folder_write(link->dir_fd, "line.py", line.data, line.len, 0600);
    al_buf_free(&start);
    al_buf_free(&line);
    return result;
}

int al_attach_open(struct al_attach *a, struct al_link *link, const char *hook, const char *probe, char *why, size_t size) {
    int result = a->foreign ? open_there(a, link) : al_link_open(link);
    if (result) {
        (void)snprintf(why, size, "no folder could be made that the process reaches (%s): tried /tmp, /var/tmp, /dev/shm, /run%s%s",
                       al_error_text(result), *a->root ? " below " : "", a->root);
        return result;
    }
    result = al_attach_listen(a, link);
    if (!result && a->foreign)
        result = put_files(link, hook, probe);
    if (!result)
        result = put_scripts(a, link, hook, probe);
    if (!result && a->uid != geteuid()) {
        link->guest = a->uid;
        result = al_folder_give(link->dir_fd, a->uid, a->gid);
    }
    if (!result)
        return 0;
    (void)snprintf(why, size, "the hook could not be put in place: %s", errno ? strerror(errno) : al_error_text(result));
    al_link_close(link);
    return result;
}
