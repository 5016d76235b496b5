# SPDX-License-Identifier: Apache-2.0
"""Where the training loop is. One thread drives it: the first that marks anything; marks of others are not taken while
it lives. At most one of DATA, FORWARD, BACKWARD and OPTIMIZER is open; EVALUATION, SAVE and LOG close it and hide what
happens inside them. A call that raises leaves its phase open, so that a job's end shows where it was; whoever marks
next closes it, and the step counts as aborted.

FORWARD is inferred in a plain loop: from the end of the batch's fetch to the begin of the backward pass."""

import sys
from _thread import get_ident

from . import words
from .words import ABORTED, BACKWARD, DATA, DONE, EVALUATION, FORWARD, MICRO, OPTIMIZER, SKIPPED

NEVER = 1 << 30

_B_DATA, _B_FORWARD = words.begin(DATA), words.begin(FORWARD)
_B_BACKWARD, _E_BACKWARD = words.begin(BACKWARD), words.end(BACKWARD)
_B_OPTIMIZER, _E_OPTIMIZER = words.begin(OPTIMIZER), words.end(OPTIMIZER)
_E_DATA, _B_EVALUATION, _E_EVALUATION = words.end(DATA), words.begin(EVALUATION), words.end(EVALUATION)
_MICRO, _SHIFT, _MOST = words.step(MICRO), words.SAMPLES_SHIFT, words.SAMPLES_MOST

# What closes the phase that is open: index is the phase, 0 none.
_CLOSE = (0, words.end(DATA), words.end(FORWARD), words.end(BACKWARD) | words.step(ABORTED),
          words.end(OPTIMIZER) | words.step(ABORTED), words.end(EVALUATION), words.end(DATA))
STALE_DATA = 6  # a fetch that raised

phase = 0        # the open one; EVALUATION only where it is inferred
quiet = 0        # > 0: inside of EVALUATION, SAVE or LOG of a trainer; NEVER: for good
owner = None     # the loop's thread
trainer = 0      # > 0: a trainer tells by itself where FORWARD begins and which epoch it is
backwards = 0    # since the last step or micro-step
samples = 0      # since the last step
samples_micro = 0
in_scaler = stepped = False
main_optimizer = 0  # id of the one whose step ends a step
other_optimizers = {}
iterator = 0     # id of the loader's iterator that gave the last batch
dataset = 0      # id of its dataset
train_iterator = 0  # id of the iterator whose batches are trained on
epoch_due = False
epoch = 0
train_dataset = 0
probe = None
turn = None
gpu = None       # gpu.Gpu once CUDA is initialised
cuda = None      # torch.cuda
grad_enabled = None


def ours():
    """Whether this call is to be marked, where the quick test said no."""
    global owner
    if quiet:
        return False
    if owner is None:
        owner = get_ident()
        from . import process
        process.activate(sys.modules[__name__])
        return not quiet
    threading = sys.modules.get("threading")
    if threading is not None and owner not in getattr(threading, "_active", {owner: 0}):
        owner = get_ident()  # the loop's thread has ended; this is another loop
        return True
    return False


def data_begin():
    """False: nothing was begun, data_end must not be called."""
    global phase, backwards, samples_micro
    if quiet or (get_ident() != owner and not ours()) or phase == DATA:
        return False
    if not grad_enabled():
        return evaluation_inferred()
    close = _CLOSE[phase]
    if backwards and not close >> 16:
        close |= _MICRO | samples_micro << _SHIFT
    backwards = samples_micro = 0
    phase = DATA
    turn(close | _B_DATA)
    return True


def evaluation_inferred():
    """Batches taken with gradients off: a loop of its own that ends with its loader or the next training batch."""
    global phase
    if phase != EVALUATION and not trainer:
        turn(_CLOSE[phase] | _B_EVALUATION)
        phase = EVALUATION
    return False


def data_end(count, forward):
    global phase, samples, samples_micro
    samples += count
    samples_micro += count
    if forward and not trainer:
        phase = FORWARD
        turn(_E_DATA | _B_FORWARD)
        if gpu is not None:
            gpu.mark(0, FORWARD)
    else:
        phase = 0
        turn(_E_DATA)


def data_raised():
    global phase
    phase = STALE_DATA


def loader_ends(loop):
    """The loader's iterator is through, with or without a training loop behind it."""
    global phase, iterator, train_iterator
    iterator = train_iterator = 0
    if loop:
        phase = 0
        turn(_E_DATA)
    elif phase == EVALUATION and not quiet and get_ident() == owner:
        phase = 0
        turn(_E_EVALUATION)


def loader_changes(it):
    """A batch comes from another iterator than the last one: an epoch, if the loader is the one that is trained on."""
    global iterator, dataset, epoch_due, epoch, train_iterator
    iterator = id(it)
    dataset = id(getattr(it, "_dataset", None))
    if trainer:
        return
    if dataset == train_dataset:
        if iterator == train_iterator:  # another loader's batch was in between
            return
        train_iterator = iterator
        epoch += 1
        probe.mark(words.EPOCH, 0, -1, epoch, 0)
    else:
        epoch_due = True


def _first_backward():
    global epoch_due, train_dataset, train_iterator
    epoch_due = False
    if not train_dataset:
        train_dataset, train_iterator = dataset, iterator
        probe.mark(words.EPOCH, 0, -1, epoch, 0)


def forward_begin(count):
    """A trainer's own mark."""
    global phase, backwards, samples, samples_micro
    if quiet or (get_ident() != owner and not ours()) or phase == FORWARD:
        return
    close = _CLOSE[phase]
    if backwards and not close >> 16:
        close |= _MICRO | samples_micro << _SHIFT
    backwards = 0
    samples_micro = count
    samples += count
    phase = FORWARD
    turn(close | _B_FORWARD)
    if gpu is not None:
        gpu.mark(0, FORWARD)


def forward_end():
    """A trainer's forward without a backward behind it."""
    global phase
    if phase == FORWARD and not quiet and get_ident() == owner:
        phase = 0
        turn(words.end(FORWARD))


def backward_begin():
    global phase
    if quiet or (get_ident() != owner and not ours()) or phase == BACKWARD or phase == OPTIMIZER:
        return False  # a checkpoint's inner backward, a closure of the optimizer's
    if epoch_due and not trainer:
        _first_backward()
    turn(_CLOSE[phase] | _B_BACKWARD)
    if gpu is not None:
        gpu.mark(phase, BACKWARD)
    phase = BACKWARD
    return True


def backward_end():
    global phase, backwards
    phase = 0
    backwards += 1
    turn(_E_BACKWARD)
    if gpu is not None:
        gpu.mark(BACKWARD, 0)


def optimizer_begin():
    global phase
    if quiet or (get_ident() != owner and not ours()) or phase == OPTIMIZER:
        return False
    turn(_CLOSE[phase] | _B_OPTIMIZER)
    if gpu is not None:
        gpu.mark(0, OPTIMIZER)
    phase = OPTIMIZER
    return True


def _ends_step(optimizer):
    """Of several optimizers the first one's step ends a step, until another one steps twice in between."""
    global main_optimizer
    key = id(optimizer)
    if key == main_optimizer:
        other_optimizers.clear()
        return True
    if main_optimizer == 0 or key in other_optimizers:
        main_optimizer = key
        other_optimizers.clear()
        return True
    other_optimizers[key] = True
    return False


def optimizer_end(optimizer, state):
    global phase, backwards, samples, samples_micro
    phase = 0
    if gpu is not None:
        gpu.mark(OPTIMIZER, 0)
    if id(optimizer) != main_optimizer and not _ends_step(optimizer):
        turn(_E_OPTIMIZER)
        return
    if other_optimizers:
        other_optimizers.clear()
    turn(_E_OPTIMIZER | (state + 1) << 16 | (samples if samples < _MOST else _MOST) << _SHIFT)
    backwards = samples = samples_micro = 0
    if gpu is not None:
        gpu.step_ends()
    elif cuda is not None and cuda._initialized:
        gpu_begins()


def gpu_begins():
    global gpu, cuda
    try:
        from .gpu import Gpu
        gpu = Gpu(probe)
        gpu.step_ends()
    except Exception:
        from . import log
        log("no figures of CUDA")
        gpu = cuda = None


# As torch's global hooks of every optimizer. Inside of a scaler's step they only tell that the step took place.

def optimizer_pre_hook(optimizer, args, kwargs):
    global phase
    if phase or in_scaler or quiet or gpu is not None or get_ident() != owner:
        if not in_scaler:
            optimizer_begin()
        return
    phase = OPTIMIZER  # optimizer_begin again, for the usual case: few lines of cold code are most of a mark's cost
    turn(_B_OPTIMIZER)


def optimizer_post_hook(optimizer, args, kwargs):
    global stepped
    if in_scaler:
        stepped = True
    elif phase == OPTIMIZER and not quiet and get_ident() == owner:
        optimizer_end(optimizer, DONE)


def scaler_begin():
    global in_scaler, stepped
    if in_scaler or not optimizer_begin():
        return False
    in_scaler, stepped = True, False
    return True


def scaler_end(optimizer, raised):
    global in_scaler
    in_scaler = False
    if not raised:
        optimizer_end(optimizer, DONE if stepped else SKIPPED)


def enter(code):
    """Begins EVALUATION, SAVE or LOG; False when inside of one already."""
    global phase, quiet
    if quiet or (get_ident() != owner and not ours()):
        return False
    turn(_CLOSE[phase] | words.begin(code))
    phase = 0
    quiet = 1
    return True


def leave(code):
    global quiet
    if quiet == 1:
        quiet = 0
        turn(words.end(code))
