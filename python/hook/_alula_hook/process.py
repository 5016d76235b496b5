# SPDX-License-Identifier: Apache-2.0
"""The process around the loop: brought up at the first mark, told of at the end."""

import atexit
import os
import sys

from . import log, words

VERSIONS = ("torch", "transformers", "accelerate", "peft", "trl", "swift", "deepspeed", "lightning", "pytorch_lightning")
ONE_LINE = 1000

devices = ""  # "device0=GPU-…" once CUDA is there
source = source_name = ""
PLAIN, TRAINER, LIGHTNING, ENGINE = "torch.optim hook", "transformers.Trainer", "Lightning", "deepspeed.DeepSpeedEngine"
EXACT = (TRAINER, LIGHTNING)  # they tell of each part by themselves
attached = False  # alula attach: whatever is done here is undone


def _number(name, unknown):
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return unknown


def rank_and_world():
    dist = sys.modules.get("torch.distributed")
    try:
        if dist is not None and dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
    except Exception:
        pass
    return _number("RANK", -1), _number("WORLD_SIZE", 0)


def nccl():
    """Its version by torch's own word, if torch was built with it; a tuple, or 2708 in old ones."""
    try:
        version = sys.modules["torch.cuda.nccl"].version()
        if isinstance(version, tuple):
            version = ".".join(str(part) for part in version[:3])
        elif version >= 1000:
            version = "%d.%d.%d" % (version // 1000, version // 100 % 10, version % 100)
        return ["nccl=%s" % version]
    except Exception:
        return []


def framework():
    parts = []
    for name in VERSIONS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            parts.append("%s=%s" % (name, version))
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        parts.append("cuda=%s" % cuda)
        parts.extend(nccl())
    if devices:
        parts.append(devices)
    return " ".join(parts)


def tell(probe, code, text):
    try:
        probe.text(code, " ".join(str(text).split("\n"))[:2000])
    except Exception:
        log("cannot tell")


def tell_source(name=None, why=None, **other):
    """How steps are known, and of each part whether it is exact, inferred or not known (none), and why not."""
    global source, source_name
    from . import loop
    source_name = name or source_name or PLAIN
    parts = dict(data="exact", forward="exact" if source_name in EXACT else "inferred", backward="exact",
                 optimizer="exact", evaluation="exact" if source_name in EXACT else "inferred")
    parts.update(other)
    text = "%s; %s" % (source_name, " ".join("%s=%s" % part for part in parts.items())) + ("; " + why if why else "")
    if text != source and loop.begun:
        source = text
        tell(loop.probe, words.SOURCE, text)
        tell(loop.probe, words.FRAMEWORK, framework())


def is_worker():
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(worker, "_worker_info", None) is not None


def hello(probe):
    rank, world = rank_and_world()
    probe.mark(words.HELLO, words.VERSION, -1, rank, world)


def detach():
    atexit.unregister(ends)


def activate():
    """At the process's first mark. Whatever fails here switches the hook off for good."""
    from . import loop
    try:
        torch = sys.modules["torch"]
        if is_worker():
            raise RuntimeError("a DataLoader worker")
        loop.set_torch(torch.is_grad_enabled, getattr(torch, "cuda", None))
        hello(loop.probe)
        loop.begun = True
        tell_source(source_name or (TRAINER if loop.in_trainer() else PLAIN))
        if not attached:  # it cannot be taken back; the probe sees a fork by itself
            os.register_at_fork(after_in_child=forked)
        atexit.register(ends)
    except Exception:
        loop.off()
        log("switched off")


def forked():
    from . import loop
    loop.off()
    loop.begun = False
    loop.set_gpu(None, None)
    try:
        loop.probe.forked()
    except Exception:
        pass


def where(traceback):
    """file:line function of the innermost frame that is not a library's or the hook's, else of the innermost."""
    here = os.path.dirname(__file__)
    place = last = ""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(here):
            last = "%s:%d %s" % (code.co_filename, traceback.tb_lineno, code.co_name)
            if "site-packages" not in last and "dist-packages" not in last and not last.startswith("<"):
                place = last
        traceback = traceback.tb_next
    return place or last


def ends():
    """The interpreter keeps an exception that nobody caught in sys.last_value, whatever sys.excepthook the host has: so
    that one is left alone. The exit status of a normal end is not known here."""
    from . import loop
    if not loop.begun:
        return
    try:
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is None:
            loop.probe.mark(words.EXIT, words.EXIT_NORMAL, -1, -1, 0)
            return
        tell(loop.probe, words.ERROR, ("%s: %s" % (type(error).__name__, error))[:ONE_LINE])
        tell(loop.probe, words.WHERE, where(error.__traceback__)[:ONE_LINE])
        if isinstance(error, KeyboardInterrupt):
            loop.probe.mark(words.EXIT, words.EXIT_SIGNAL, -1, 2, 0)
        else:
            loop.probe.mark(words.EXIT, words.EXIT_EXCEPTION, -1, 1, 0)
    except Exception:
        log("cannot tell of the end")
