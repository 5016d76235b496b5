# SPDX-License-Identifier: Apache-2.0
"""The start hook: waits for torch and transformers to be imported by somebody else, then puts thin wrappers on a few of
their functions. Imports nothing by itself, so an interpreter without torch pays for one name test an import."""

import sys

# Modules whose functions are wrapped, right after the module's own code ran and before anybody copied a name from it.
WANTED = {
    "torch.autograd", "torch.optim.optimizer", "torch.utils.data.dataloader", "torch.amp.grad_scaler",
    "torch.cuda.amp.grad_scaler", "torch.serialization", "safetensors.torch", "accelerate.accelerator",
    "transformers.trainer", "torch._dynamo.trace_rules", "deepspeed.runtime.engine",
} | {
    package + name for package in ("lightning.pytorch.", "pytorch_lightning.") for name in (
        "loops.fit_loop", "loops.fetchers", "loops.evaluation_loop", "strategies.strategy", "plugins.precision.precision",
        "trainer.trainer", "trainer.connectors.logger_connector.logger_connector")
}

library = None  # the probe's path where no ALULA_PROBE tells it (alula attach)


def log(text):
    """For whoever looks for a fault of the hook: into the file ALULA_HOOK_LOG, and only there."""
    import os
    path = os.environ.get("ALULA_HOOK_LOG")
    if not path:
        return
    try:
        import traceback
        error = traceback.format_exc() if sys.exc_info()[0] else ""
        with open(path, "a") as f:
            f.write("alula hook, pid %d: %s\n%s" % (os.getpid(), text, error))
    except Exception:
        pass


class Finder:
    """In front of sys.meta_path: lets the others find the wanted modules, and asks to be called after their code."""

    def find_spec(self, name, path=None, target=None):
        if name not in WANTED:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                self.follow(name, spec.loader)
                return spec
        return None

    def follow(self, name, loader):
        try:
            run = loader.exec_module

            def exec_module(module):
                try:
                    del loader.exec_module  # the loader is the host's again
                except AttributeError:
                    pass
                run(module)
                WANTED.discard(name)
                after(name, module)

            loader.exec_module = exec_module  # on this one loader, whose class stays what tools expect
        except Exception:
            log("cannot follow " + name)


def after(name, module):
    try:
        from . import patches
        make = patches.PATCHES.get(name)
        if make is None:
            from . import frameworks
            make = frameworks.PATCHES[name.replace("pytorch_lightning.", "lightning.pytorch.")]
        make(module)
    except Exception:
        log("cannot wrap " + name)


def install():
    import os
    if not os.environ.get("ALULA_SOCKET") or not os.environ.get("ALULA_PROBE"):
        return
    if os.getuid() != os.geteuid() or os.getgid() != os.getegid():
        return
    # An outer alula's sitecustomize comes behind this one's: it finds the hook at work.
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
