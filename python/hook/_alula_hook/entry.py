# SPDX-License-Identifier: Apache-2.0
"""alula attach's way in, on a thread of its own, and out again. This file is run as a script, with the texts of the
package's other modules at hand, all read at once: each call into the system gives the interpreter's lock away, and a main
thread that never sleeps gives it back only after its switch interval, which some hundred times in a row are seconds."""

import sys
from _frozen_importlib_external import spec_from_file_location  # importlib's own, which need not be there

PACKAGE = "_alula_hook"
CLAIM = PACKAGE + ".entry"  # in sys.modules as long as alula is in the process


class Texts:
    """Finds and loads the package's modules without a look at any folder; source lines come from here as well."""

    def __init__(self, folder, texts):
        self.folder, self.texts = folder, texts

    @staticmethod
    def _file(name):
        return (name[len(PACKAGE) + 1:] or "__init__") + ".py"

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != PACKAGE or self._file(name) not in self.texts:
            return None
        return spec_from_file_location(name, self.folder + "/" + self._file(name), loader=self,
                                       submodule_search_locations=[self.folder] if name == PACKAGE else None)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.get_source(module.__name__), module.__file__, "exec", dont_inherit=True), vars(module))

    def get_source(self, name):
        return self.texts[self._file(name)]


def _say(connection, text):
    try:
        connection.sendall((text[:400].replace("\n", " ") + "\n").encode("utf-8", "replace"))
    except OSError:
        pass


def _wait_for_word(connection):
    """False when alula has gone."""
    try:
        return bool(connection.recv(64))
    except OSError:
        return False


def _forget(finder):
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for name in reversed([n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]):  # the claim last
        del sys.modules[name]


def run(connection, folder, texts, library, socket):
    claim = type(sys)(CLAIM)
    if PACKAGE + ".loop" in sys.modules or sys.modules.setdefault(CLAIM, claim) is not claim:
        _say(connection, "no another alula watches this process already")
        connection.close()
        return
    if connection.gettimeout() is not None:  # the job's own default
        connection.settimeout(None)
    finder, attach, entered, word, alive = Texts(folder, texts), None, None, "left", False
    sys.meta_path.insert(0, finder)
    try:
        from _alula_hook import attach
        entered = attach.enter(library, socket)
        _say(connection, "there %s" % attach.version())
        alive = _wait_for_word(connection)
    except Exception as error:
        word = "no the hook does not fit this process: %s: %s" % (type(error).__name__, error)
    try:
        stuck = attach.leave(entered)
        if stuck and word == "left":
            word = "left: %d functions were wrapped by others meanwhile; below theirs alula's stay, and do nothing" % stuck
    except Exception as error:
        if word == "left":
            word = "left: not everything could be put back: %s: %s" % (type(error).__name__, error)
    _say(connection, word)
    while alive and _wait_for_word(connection):  # it still reads what was marked
        pass
    try:
        attach.give_back()
    except Exception:
        pass
    _forget(finder)
    connection.close()
