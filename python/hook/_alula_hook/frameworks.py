# SPDX-License-Identifier: Apache-2.0
"""Lightning's loops and DeepSpeed's engine, with wrappers as in patches.py."""

from . import log, loop, model as models, process, words
from .patches import _around, _make_data, _replace, _wrapper


def _make_fetch(fetch):
    """Of a fetcher, whose loader's own fetch is inside of it. With its last batch an epoch of unknown length ends."""
    @_wrapper(fetch)
    def wrapped(self):
        if not loop.data_begin():
            return fetch(self)
        try:
            batch = fetch(self)
        except StopIteration:
            loop.data_done()
            raise
        except BaseException:
            loop.data_raised()
            raise
        loop.data_done()
        return batch
    return wrapped


def fetchers(module):
    for cls in (module._DataFetcher, getattr(module, "_PrefetchDataFetcher", None)):
        if cls is not None and "__next__" in vars(cls):
            _replace(cls, "__next__", _make_fetch)
    _replace(module._DataFetcher, "__iter__", _make_data)  # starts workers


def _tell_fit(fit):
    trainer = fit.trainer
    process.tell_source(process.LIGHTNING)
    if not models.model_told:
        models.model_told = True
        process.tell(loop.probe, words.MODEL, models.describe(trainer.lightning_module))
    for logger in trainer.loggers if trainer.is_global_zero else ():  # trainer.log_dir would talk to the other ranks
        folder = getattr(logger, "log_dir", None)
        if isinstance(folder, str):
            import os
            process.tell(loop.probe, words.OUTPUT_DIR, os.path.abspath(folder))
            break


def _make_stage(run_stage):
    """From the validation that is tried before the first step on; by then a rank knows its number."""
    @_wrapper(run_stage)
    def wrapped(self, *args, **kwargs):
        if not getattr(self, "training", False):  # evaluates or predicts
            return run_stage(self, *args, **kwargs)
        process.source_name = process.LIGHTNING
        loop.trainer(1)
        try:
            return run_stage(self, *args, **kwargs)
        finally:
            loop.trainer(-1)
    return wrapped


def _make_fit_loop(run):
    @_wrapper(run)
    def wrapped(self, *args, **kwargs):
        try:
            if loop.active():
                _tell_fit(self)
        except Exception:
            log("cannot tell of Lightning's trainer")
        return run(self, *args, **kwargs)
    return wrapped


def _make_epoch(advance):
    @_wrapper(advance)
    def wrapped(self, *args, **kwargs):
        try:
            if loop.active():
                loop.probe.mark(words.EPOCH, 0, -1, int(self.trainer.current_epoch), 0)
        except Exception:
            pass
        return advance(self, *args, **kwargs)
    return wrapped


def fit_loop(module):
    _replace(module._FitLoop, "run", _make_fit_loop)
    _replace(module._FitLoop, "advance", _make_epoch)


def _make_closure(wrap_closure):
    """The forward and backward pass that an optimizer's step calls are not the optimizer's."""
    @_wrapper(wrap_closure)
    def wrapped(self, model, optimizer, closure):
        def passes(*args, **kwargs):
            loop.clip_end()
            result = closure(*args, **kwargs)
            loop.clip_begin()
            return result
        return wrap_closure(self, model, optimizer, passes)
    return wrapped


def _make_strategy_step(training_step):
    @_wrapper(training_step)
    def wrapped(self, *args, **kwargs):
        loop.forward_begin(args[0] if args else None)
        result = training_step(self, *args, **kwargs)
        loop.forward_end()
        return result
    return wrapped


def _on(name, **functions):
    """Functions of one class of a module's."""
    def patch(module):
        for function, make in functions.items():
            _replace(getattr(module, name), function, make)
    return patch


def _make_engine_backward(backward):
    """With the reduction of the gradients behind it."""
    @_wrapper(backward)
    def wrapped(self, *args, **kwargs):
        if not loop.backward_begin():
            return backward(self, *args, **kwargs)
        result = backward(self, *args, **kwargs)
        loop.backward_end()
        return result
    return wrapped


def _make_model_step(take_model_step):
    """An engine's step at the end of an accumulation: in it an optimizer may step for each part of the parameters. Where
    gradients overflowed the engine counts a skipped one."""
    @_wrapper(take_model_step)
    def wrapped(self, *args, **kwargs):
        if not loop.scaler_begin():
            return take_model_step(self, *args, **kwargs)
        if loop.begun and process.source_name == process.PLAIN:
            process.tell_source(process.ENGINE)
        skipped = getattr(self, "skipped_steps", None)
        try:
            result = take_model_step(self, *args, **kwargs)
        except BaseException:
            loop.scaler_end(self, True)
            raise
        if getattr(self, "skipped_steps", None) == skipped:
            loop.optimizer_end(self)
        loop.scaler_end(self, False)
        return result
    return wrapped


def _make_engine_step(step):
    """Within an accumulation it does next to nothing, and ends no step."""
    whole = _make_model_step(step)

    @_wrapper(step)
    def wrapped(self, *args, **kwargs):
        try:
            last = bool(self.is_gradient_accumulation_boundary())
        except Exception:
            return step(self, *args, **kwargs)
        if last:
            return whole(self, *args, **kwargs)
        if not loop.clip_begin():
            return step(self, *args, **kwargs)
        result = step(self, *args, **kwargs)
        loop.clip_end()
        return result
    return wrapped


LIGHTNING = {
    "loops.fit_loop": fit_loop,
    "loops.fetchers": fetchers,
    "loops.evaluation_loop": _on("_EvaluationLoop", run=_around(words.EVALUATION)),
    "strategies.strategy": _on("Strategy", training_step=_make_strategy_step),
    "plugins.precision.precision": _on("Precision", _wrap_closure=_make_closure),
    "trainer.trainer": _on("Trainer", _run_stage=_make_stage, save_checkpoint=_around(words.SAVE)),
    "trainer.connectors.logger_connector.logger_connector": _on("_LoggerConnector", log_metrics=_around(words.LOG)),
}

PATCHES = {
    "deepspeed.runtime.engine": _on("DeepSpeedEngine", backward=_make_engine_backward, step=_make_engine_step,
                                    _take_model_step=_make_model_step,  # a pipeline's calls it alone
                                    save_checkpoint=_around(words.SAVE), save_16bit_model=_around(words.SAVE)),
    **{"lightning.pytorch." + name: patch for name, patch in LIGHTNING.items()},
}
