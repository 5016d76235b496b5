# SPDX-License-Identifier: Apache-2.0
"""Into a process that runs already, and out of it again. On a thread of its own, which then waits on a connection to
alula: its end, by whatever cause, puts every function back. What is left is the probe's library, which does nothing."""

import sys

active = False


def _version():
    torch = sys.modules.get("torch")
    return "torch %s" % torch.__version__ if torch is not None and hasattr(torch, "__version__") else "no torch yet"


def _ready(module):
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _running_trainer():
    """The Trainer whose train() the main thread is in, if it is."""
    import threading
    module = sys.modules.get("transformers.trainer")
    train = getattr(getattr(module, "Trainer", None), "train", None)
    code = getattr(getattr(train, "__wrapped__", train), "__code__", None)
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None and code is not None:
        if frame.f_code is code:
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _wrap():
    from . import WANTED, Finder, after, patches
    finder = Finder()
    sys.meta_path.insert(0, finder)  # for what is imported from now on
    for name in sorted(WANTED):
        module = sys.modules.get(name)
        if _ready(module):
            WANTED.discard(name)
            after(name, module)
    patches.follow_copies()
    return finder


def _enter(library, socket):
    import _alula_hook
    _alula_hook.library = library
    from . import loop, patches, process, words
    if process.is_worker():
        raise RuntimeError("it is a DataLoader worker: attach to its rank")
    process.attached = True
    trainer = _running_trainer()
    loop.attach(socket, trainer is not None)
    process.hello(loop.probe)
    if trainer is not None:
        import os
        patches.running_trainer(type(trainer))
        process.tell(loop.probe, words.OUTPUT_DIR, os.path.abspath(trainer.args.output_dir))
    return _wrap()


def _leave(finder):
    from . import loop, patches, process
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    stuck = patches.undo()
    loop.detach()
    process.detach()
    return stuck


def _give_back():
    from . import loop
    loop.probe.detach()


def _forget():
    for name in [n for n in sys.modules if n == "_alula_hook" or n.startswith("_alula_hook.")]:
        del sys.modules[name]


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


def run(library, socket, control):
    global active
    import _socket
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(None)
    try:
        connection.connect(control)
    except OSError:  # alula has given up waiting
        connection.close()
        if not active:
            _forget()
        return
    if active or "_alula_hook.loop" in sys.modules:
        _say(connection, "no another alula watches this process already")
        connection.close()
        return
    active = True
    finder, word, alive = None, "left", False
    try:
        finder = _enter(library, socket)
        _say(connection, "there %s" % _version())
        alive = _wait_for_word(connection)
    except Exception as error:
        word = "no the hook does not fit this process: %s: %s" % (type(error).__name__, error)
    try:
        stuck = _leave(finder)
        if stuck and word == "left":
            word = "left: %d functions were wrapped by others meanwhile; below theirs alula's stay, and do nothing" % stuck
    except Exception as error:
        if word == "left":
            word = "left: not everything could be put back: %s: %s" % (type(error).__name__, error)
    _say(connection, word)
    while alive and _wait_for_word(connection):  # it still reads what was marked
        pass
    try:
        _give_back()
    except Exception:
        pass
    active = False
    _forget()
    connection.close()
