# SPDX-License-Identifier: Apache-2.0
"""Where the training loop is: src/probe/loop.c knows it, and what the wrappers call are its own functions. Importing
this fails where there is no probe; then nothing is wrapped."""

import os
import sys
from _thread import get_ident

from . import log, model
from .probe import Probe

probe = Probe()
globals().update(probe.methods)  # data_begin, data_end, ... of src/probe/python.c
gpu = None                       # gpu.Gpu once CUDA is initialised
thread = None                    # whose marks are taken
begun = False                    # the first mark was made, and all went well


def count_other(batch):
    """Samples in a batch that is neither a tensor nor a list, tuple or dict of tensors; 0 when it has none. Its tokens are
    told."""
    model.tell_tokens(probe, batch)
    try:
        for _ in range(4):
            if hasattr(batch, "shape"):
                return int(batch.shape[0])
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            else:
                batch = next(iter(batch.values()))
    except Exception:
        pass
    return 0


def attach(socket, in_trainer):
    """Into a loop that runs already, in whatever phase and thread."""
    restart(int(in_trainer))  # noqa: F821
    if not probe.attach(os.fsencode(socket)):
        raise OSError("the probe cannot start here")


def detach():
    global begun, gpu
    off()  # noqa: F821
    if "_alula_hook.monitor" in sys.modules:
        from . import monitor
        monitor.end()
    set_hook()  # noqa: F821
    set_gpu(None, None)  # noqa: F821
    set_nvtx()  # noqa: F821
    begun, gpu = False, None


def activate():
    global thread
    thread = get_ident()
    from . import process
    process.activate()


def gone():
    """Whether the thread that drove the loop has ended, seen from another one, which then drives it."""
    global thread
    alive = getattr(sys.modules.get("threading"), "_active", {thread: 0})
    if get_ident() != thread and thread in alive:  # a number is given again to a later thread
        return False
    thread = get_ident()
    return True


def gpu_begins():
    global gpu
    try:
        from .gpu import Gpu
        gpu = Gpu(probe)
        set_gpu(gpu.mark, gpu.step_ends)  # noqa: F821
        ranges()
        gpu.step_ends()
    except Exception:
        log("no figures of CUDA")
        gpu = None
        set_gpu(None, None)  # noqa: F821


def ranges():
    """NVTX ranges at the marks (alula run --nvtx): only now that the job itself has brought CUDA up."""
    from . import words
    nvtx = getattr(sys.modules["torch"]._C, "_nvtx", None)
    if os.environ.get("ALULA_NVTX") == "1" and nvtx is not None:
        set_nvtx(nvtx.rangePushA, nvtx.rangePop, ["alula:" + name for name in words.PHASES])  # noqa: F821


def answer():
    from . import requests
    requests.answer(probe)


def unfed():
    """Steps have ended without a batch from a loader."""
    from . import monitor, process
    try:
        why = monitor.begin(sys._getframe(1))
    except Exception:
        log("cannot watch the loop's iterator")
        why = monitor.UNKNOWN
    if why:
        process.tell_source(why=why, data="none", forward="none")



set_hook(activate, gone, count_other, gpu_begins, answer, unfed)  # noqa: F821
