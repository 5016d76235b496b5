# SPDX-License-Identifier: Apache-2.0
"""A callback for trainers: Hugging Face's and what is built on it, and with Megatron's interface."""

import functools
import os
import sys
from typing import Any, Callable, Dict, Optional, Type, TypeVar, Union

from . import torch_memory
from .watch import Watch

F = TypeVar("F", bound=Callable[..., Any])

_EVENTS_FAILED = "alula: WARNING: the callback is switched off: %s: %s"


def interval_from(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("interval_steps must be a number of steps from 1")
    return value


def say_like_the_trainer(line: str) -> None:
    """ms-swift: its logger. Else standard output as the trainer itself does it, past its progress bar."""
    logger = getattr(sys.modules.get("swift.utils"), "get_logger", None)
    if logger is not None:
        logger().info(line)
        return
    bars = sys.modules.get("tqdm")
    if bars is not None:
        bars.tqdm.write(line)
        sys.stdout.flush()
    else:
        print(line, flush=True)


def guarded(event: F) -> F:
    """An event of a callback that cannot make the training fail: after its first error the callback does nothing more."""
    @functools.wraps(event)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        if self._off:
            return
        try:
            event(self, *args, **kwargs)
        except Exception as error:
            self._off = True
            try:
                self._watch.say(_EVENTS_FAILED % (type(error).__name__, error))
            except Exception:
                pass
    return wrapped  # type: ignore[return-value]


def _nothing(*args: Any, **kwargs: Any) -> None:
    """An event that is none of alula's."""


def _move_to_front(callbacks: Any, callback: Any) -> None:
    """So that reporters (TensorBoard, W&B, SwanLab), progress bar and printer see the keys that on_log puts into logs. A
    list that is being gone through stays whole: those in front move up by one, those behind stay."""
    if isinstance(callbacks, list) and any(other is callback for other in callbacks) and callbacks[0] is not callback:
        callbacks[:] = [callback] + [other for other in callbacks if other is not callback]


def _handler_of(callback: Any) -> Any:
    """The CallbackHandler whose call this is: HF passes it to nobody."""
    frame: Any = sys._getframe(1)
    for _ in range(6):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            return None
        handler = frame.f_locals.get("self")
        callbacks = getattr(handler, "callbacks", None)
        if isinstance(callbacks, list) and any(other is callback for other in callbacks):
            return handler
    return None


_classes: Dict[type, type] = {}


def _with_base(cls: type) -> type:
    """cls as a TrainerCallback, where transformers is there; it is not imported for that."""
    module = sys.modules.get("transformers.trainer_callback")
    base: Optional[type] = getattr(module, "TrainerCallback", None)
    if base is None or issubclass(cls, base):
        return cls
    if cls not in _classes:
        _classes[cls] = type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
    return _classes[cls]


class ResourceMonitorCallback:
    """trainer.add_callback(ResourceMonitorCallback(interval_steps=100)): GPU, torch's memory and RAM every so many steps, RAM
    at each epoch's begin with a warning when one added more than 0.5 GB, and alula/... keys in the trainer's logs.

    device_index: another GPU than the one that this process computes on. say: takes the lines instead of the trainer's
    own way to print."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "ResourceMonitorCallback":
        return object.__new__(_with_base(cls))

    def __init__(self, interval_steps: int = 50, device_index: Union[int, str, None] = None,
                 say: Optional[Callable[[str], None]] = None) -> None:
        self.interval_steps = interval_from(interval_steps)
        self._arguments = (interval_steps, device_index, say)
        self._off = False
        self._watch = Watch(self.interval_steps, say or say_like_the_trainer, device_index)

    def __reduce__(self) -> Any:
        """A copy begins anew: it has no driver's handle."""
        return ResourceMonitorCallback, self._arguments

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(name)

    def _know(self, args: Any, state: Any) -> None:
        self._watch.quiet = not getattr(state, "is_local_process_zero", True)
        world = getattr(args, "world_size", 1)
        self._watch.who = "rank %d: " % getattr(args, "process_index", 0) if world > 1 else ""

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        handler = _handler_of(self)
        if handler is not None:
            _move_to_front(handler.callbacks, self)
        self._know(args, state)
        self._watch.begin("the trainer's logs" if handler is not None else "logs behind the reporters")

    @guarded
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.epoch(int(state.epoch or 0))

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.step(int(state.global_step))

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self._watch.logs(logs)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._watch.end()


def interval_of_environment() -> int:
    """ALULA_INTERVAL_STEPS, for callbacks that frameworks build by themselves."""
    text = os.environ.get("ALULA_INTERVAL_STEPS", "50")
    if not text.isdigit() or not int(text):
        raise ValueError("ALULA_INTERVAL_STEPS must be a number of steps from 1, not %r" % text)
    return int(text)


class _MegatronMonitor:
    """The events of Megatron's callbacks in ms-swift 4.x, which get no arguments: trainer, args and state are the
    object's own."""

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.args, self.state = trainer, trainer.args, trainer.state
        self._off = False
        self._watch = Watch(interval_of_environment(), say_like_the_trainer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(name)

    @guarded
    def on_train_begin(self) -> None:
        _move_to_front(getattr(self.trainer, "callbacks", None), self)
        self._watch.quiet = torch_memory.local_rank() != 0
        rank, world = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
        self._watch.who = "rank %s: " % rank if world != "1" else ""
        self._watch.begin("the trainer's logs")

    @guarded
    def on_step_end(self) -> None:
        self._watch.step(int(self.state.iteration))

    @guarded
    def on_log(self, logs: Any) -> None:
        self._watch.logs(logs)

    @guarded
    def on_train_end(self) -> None:
        self._watch.end()


def swift_class(base: type) -> Type[Any]:
    """For swift.callbacks.mapping.callbacks_map (4.x), which calls it with (args, trainer)."""
    class AlulaCallback(ResourceMonitorCallback, base):  # type: ignore[misc]
        def __init__(self, args: Any, trainer: Any) -> None:
            ResourceMonitorCallback.__init__(self, interval_of_environment())
            self.args, self.trainer = args, trainer
    return AlulaCallback


def megatron_class(base: type) -> Type[Any]:
    """For swift.megatron.callbacks.mapping.megatron_callbacks_map, which calls it with (trainer)."""
    class AlulaMegatronCallback(_MegatronMonitor, base):  # type: ignore[misc]
        pass
    return AlulaMegatronCallback
