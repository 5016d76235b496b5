# SPDX-License-Identifier: Apache-2.0
"""The wrappers: each calls what it wraps with the same arguments and lets results and exceptions through."""

import functools
import sys

from . import loop, model as models, process, words


def _frames():
    """torch.compile's way into the interpreter; None before torch 2.0. Not always a module that can be imported."""
    core = sys.modules.get("torch._C")
    return getattr(getattr(core, "_dynamo", None), "eval_frame", None)


def hide(*functions, deep=False):
    """From torch.compile: it neither compiles these frames nor counts them; what they call is its own matter again, or,
    where nothing of the host's is called (deep), hidden as well."""
    frames = _frames()
    if frames is None:
        return
    skip = getattr(frames, "skip_code", None)  # up to torch 2.6
    if skip is None:
        action = frames._FrameAction
        strategy = frames._FrameExecStrategy(action.SKIP, action.SKIP if deep else action.DEFAULT)

        def skip(code):
            frames.set_code_exec_strategy(code, strategy)
    for function in functions:
        skip(function.__code__)
        function._torchdynamo_disable = True  # nor traced into


def _wrapper(original):
    """functools.wraps, and never traced by torch.compile: the originals break a graph by themselves."""
    def decorate(wrapped):
        wrapped = functools.wraps(original)(wrapped)
        hide(wrapped)
        wrapped._alula = True
        return wrapped
    return decorate


REPLACED = []  # (owner, name, original, whether it is the owner's own)
HANDLES = []   # of torch's hooks


def _replace(owner, name, make):
    original = getattr(owner, name, None)
    if callable(original) and not getattr(original, "_alula", False):
        own = name in vars(owner)
        setattr(owner, name, make(original))
        REPLACED.append((owner, name, original, own))


def follow_copies():
    """Of functions that others have imported by name before they were wrapped (torch.save is one)."""
    import sys
    for owner, name, original, _ in list(REPLACED):
        if not isinstance(owner, type(sys)):
            continue
        wrapped = getattr(owner, name, None)
        for module in list(sys.modules.values()):
            if module is not owner and getattr(module, "__dict__", {}).get(name) is original:
                setattr(module, name, wrapped)
                REPLACED.append((module, name, original, True))


def undo():
    """Puts everything back. Returns how many functions somebody else has wrapped meanwhile: those stay as they are, and
    below them the wrappers of this file, which the probe then answers with a no."""
    stuck = 0
    while HANDLES:
        HANDLES.pop().remove()
    while REPLACED:
        owner, name, original, own = REPLACED.pop()
        if not getattr(vars(owner).get(name), "_alula", False) or vars(owner)[name].__wrapped__ is not original:
            stuck += 1
        elif own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
    return stuck


def autograd(module):
    def make(backward, begin=loop.backward_begin, end=loop.backward_end):
        @_wrapper(backward)
        def wrapped(*args, **kwargs):
            if not begin():
                return backward(*args, **kwargs)
            result = backward(*args, **kwargs)
            end()
            return result
        return wrapped
    _replace(module, "backward", make)  # Tensor.backward looks it up here


def optimizer(module):
    # In Python, since torch.compile warns of functions in C that it does not know.
    def begins(optimizer, args, kwargs, begin=loop.optimizer_begin):
        begin()

    def ends(optimizer, args, kwargs, end=loop.optimizer_end):
        end(optimizer)

    def first(optimizer):
        loop.optimizer_end(optimizer)
        if loop.begun:
            ends.__defaults__ = (loop.optimizer_end,)
            models.tell_optimizer(loop.probe, optimizer)

    ends.__defaults__ = (first,)
    hide(begins, ends)
    hide(first, deep=True)
    HANDLES.append(module.register_optimizer_step_pre_hook(begins))
    HANDLES.append(module.register_optimizer_step_post_hook(ends))


def grad_scaler(module):
    def make(step):
        @_wrapper(step)
        def wrapped(self, optimizer, *args, **kwargs):
            if not loop.scaler_begin():
                return step(self, optimizer, *args, **kwargs)
            try:
                result = step(self, optimizer, *args, **kwargs)
            except BaseException:
                loop.scaler_end(optimizer, True)
                raise
            loop.scaler_end(optimizer, False)
            return result
        return wrapped
    if "step" in vars(module.GradScaler):  # the older name inherits it nowadays
        _replace(module.GradScaler, "step", make)


def _make_next(fetch, begin=loop.data_begin, end=loop.data_end):
    @_wrapper(fetch)
    def wrapped(self):
        if not begin():
            try:
                return fetch(self)
            except StopIteration:
                loop.loader_ends(False)
                raise
        try:
            batch = fetch(self)
        except StopIteration:
            loop.loader_ends(True)
            raise
        except BaseException:
            loop.data_raised()
            raise
        end(self, batch)
        return batch
    return wrapped


def _make_data(function):
    """A part of the wait that gives no batch by itself."""
    @_wrapper(function)
    def wrapped(*args, **kwargs):
        if not loop.data_begin():
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            loop.data_raised()
            raise
        loop.data_done()
        return result
    return wrapped


def _make_iter(function):
    starts = _make_data(function)

    @_wrapper(function)
    def wrapped(self):
        iterator = starts(self)
        if not models.loader_told and loop.begun and loop.active():  # not an evaluation's
            models.tell_loader(loop.probe, self)
        return iterator
    return wrapped


def dataloader(module):
    _replace(module._BaseDataLoaderIter, "__next__", _make_next)
    _replace(module.DataLoader, "__iter__", _make_iter)  # starts workers


def _around(code):
    def make(function):
        @_wrapper(function)
        def wrapped(*args, **kwargs):
            if not loop.enter(code):
                return function(*args, **kwargs)
            try:
                return function(*args, **kwargs)
            finally:
                loop.leave(code)
        return wrapped
    return make


def _make_training_step(training_step):
    @_wrapper(training_step)
    def wrapped(self, model, inputs, *args, **kwargs):
        loop.forward_begin(inputs)
        if not models.model_told and loop.begun:
            models.tell_trainer(loop.probe, self, model)
        result = training_step(self, model, inputs, *args, **kwargs)
        loop.forward_end()
        return result
    return wrapped


def _make_clip(clip):
    @_wrapper(clip)
    def wrapped(*args, **kwargs):
        if not loop.clip_begin():
            return clip(*args, **kwargs)
        result = clip(*args, **kwargs)
        loop.clip_end()
        return result
    return wrapped


def accelerator(module):
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        _replace(module.Accelerator, name, _make_clip)


def _tell_metrics(output):
    import json
    metrics = getattr(output, "metrics", None)
    if loop.begun and isinstance(metrics, dict):
        process.tell(loop.probe, words.METRICS, json.dumps(metrics, default=str))


def _make_train(train):
    @_wrapper(train)
    def wrapped(self, *args, **kwargs):
        import os
        try:
            if loop.trainer(1):
                _replace_overrides(type(self))
                process.tell_source(process.TRAINER)
                process.tell(loop.probe, words.OUTPUT_DIR, os.path.abspath(self.args.output_dir))
        except Exception:
            pass
        try:
            output = train(self, *args, **kwargs)
        finally:
            loop.trainer(-1)
        try:
            _tell_metrics(output)
        except Exception:
            pass
        return output
    return wrapped


def _make_epoch_begin(function):
    @_wrapper(function)
    def wrapped(self, args, state, *rest, **kwargs):
        try:
            if loop.active():
                loop.probe.mark(words.EPOCH, 0, -1, int(state.epoch or 0), 0)
        except Exception:
            pass
        return function(self, args, state, *rest, **kwargs)
    return wrapped


def _make_train_end(function):
    """Of a train() that was running before it could be wrapped."""
    @_wrapper(function)
    def wrapped(self, *args, **kwargs):
        global _running
        if _running:
            _running = False
            loop.trainer(-1)
        return function(self, *args, **kwargs)
    return wrapped


_running = False


def running_trainer(cls):
    global _running
    _running = True
    _replace_overrides(cls)
    _replace(sys.modules["transformers.trainer"].CallbackHandler, "on_train_end", _make_train_end)


TRAINER = (("get_batch_samples", _make_data), ("training_step", _make_training_step),
           ("evaluate", _around(words.EVALUATION)), ("predict", _around(words.EVALUATION)),
           ("_save_checkpoint", _around(words.SAVE)), ("save_model", _around(words.SAVE)), ("log", _around(words.LOG)),
           # of TRL's and ms-swift's trainers: completions are generated, and scored
           ("_generate_and_score_completions", _around(words.ROLLOUT)), ("_generate", _around(words.ROLLOUT)))


def _replace_overrides(cls):
    """What subclasses have put in front of the trainer's own."""
    for part in cls.__mro__:
        for name, make in TRAINER:
            if name in vars(part):
                _replace(part, name, make)


def trainer(module):
    _replace(module.Trainer, "train", _make_train)
    _replace_overrides(module.Trainer)
    _replace(module.CallbackHandler, "on_epoch_begin", _make_epoch_begin)


def _saves(*names):
    """Checkpoints of plain loops: the functions that write them, before anybody copied their names."""
    def patch(module):
        for name in names:
            _replace(module, name, _around(words.SAVE))
    return patch


def trace_rules(module):
    """Up to torch 2.6 what is not traced into is told by its folder alone."""
    if hasattr(_frames(), "skip_code"):
        module.add(__package__)


PATCHES = {
    "torch._dynamo.trace_rules": trace_rules,
    "torch.autograd": autograd,
    "torch.optim.optimizer": optimizer,
    "torch.utils.data.dataloader": dataloader,
    "torch.amp.grad_scaler": grad_scaler,
    "torch.cuda.amp.grad_scaler": grad_scaler,
    "torch.serialization": _saves("save"),
    "safetensors.torch": _saves("save_file", "save_model"),
    "accelerate.accelerator": accelerator,
    "transformers.trainer": trainer,
}
