# SPDX-License-Identifier: Apache-2.0
"""What is trained: the model's size and kind, and the options of its trainer or loader, told once; and of each batch the
tokens. Whatever cannot be read is not told."""

import sys

from . import process, words

TRAINER = ("dataloader_num_workers", "dataloader_prefetch_factor", "dataloader_pin_memory", "dataloader_persistent_workers",
           "per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing", "bf16", "fp16", "packing",
           "padding_free", "group_by_length", "train_sampling_strategy", "optim", "torch_compile", "logging_steps", "save_steps",
           "eval_steps")
LOADER = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")

model_told = loader_told = False


def _value(value):
    if value is None or isinstance(value, (bool, int)):
        return str(int(value or 0))
    return str(getattr(value, "value", value)).replace(" ", "_")[:40]


def _words(owner, names):
    found = ((name, getattr(owner, name, None)) for name in names)
    return " ".join("%s=%s" % (name, _value(value)) for name, value in found if value is not None)


def _product(shape):
    count = 1
    for size in shape:
        count *= int(size)
    return count


def size(parameter):
    """Elements of the whole parameter, also where this process holds a shard (ZeRO-3, FSDP) or packed numbers (4 bit)."""
    whole = getattr(parameter, "ds_numel", None)
    if isinstance(whole, int) and whole > 0:
        return whole
    for shape in (getattr(parameter, "_unpadded_unsharded_size", None),
                  getattr(getattr(parameter, "quant_state", None), "shape", None)):
        if shape is not None:
            return _product(shape)
    return parameter.numel()


def sizes(parameters):
    """(all, trainable, dtype of the most of them)"""
    every = trainable = 0
    dtypes = {}
    for parameter in parameters:
        count = size(parameter)
        every += count
        if parameter.requires_grad:
            trainable += count
        dtypes[parameter.dtype] = dtypes.get(parameter.dtype, 0) + count
    dtype = max(dtypes, key=dtypes.get) if dtypes else None
    return every, trainable, str(dtype).replace("torch.", "")


def _experts(config):
    for owner in (config, getattr(config, "text_config", None)):
        for name in EXPERTS:
            count = getattr(owner, name, None)
            if isinstance(count, int) and count > 1:
                return count
    return 0


def describe(model):
    every, trainable, dtype = sizes(model.parameters())
    parts = ["parameters=%d trainable=%d dtype=%s" % (every, trainable, dtype)]
    while getattr(model, "config", None) is None and getattr(model, "module", None) is not None:
        model = model.module
    config = getattr(model, "config", None)
    attention = getattr(config, "_attn_implementation", None)
    if isinstance(attention, str):
        parts.append("attn=%s" % _value(attention))
    if config is not None:
        parts.append("experts=%d" % _experts(config))
    return " ".join(parts)


def tell_trainer(probe, trainer, model):
    """At a trainer's first batch."""
    global model_told
    if model_told:
        return
    model_told = True
    try:
        process.tell(probe, words.OPTIONS, _words(trainer.args, TRAINER))
        process.tell(probe, words.MODEL, describe(model))
    except Exception:
        pass


def tell_loader(probe, loader):
    """At the first loader that a loop of its own goes through."""
    global loader_told
    if loader_told:
        return
    loader_told = True
    try:
        process.tell(probe, words.OPTIONS, _words(loader, LOADER))
    except Exception:
        pass


def tell_optimizer(probe, optimizer):
    """At the first step of a loop of its own. Where a base may be frozen, the optimizer has but the trained part."""
    global model_told
    if model_told:
        return
    model_told = True
    try:
        every, trainable, dtype = sizes(p for group in optimizer.param_groups for p in group["params"])
        if "peft" in sys.modules or every != trainable:
            process.tell(probe, words.MODEL, "trainable=%d dtype=%s" % (trainable, dtype))
        else:
            process.tell(probe, words.MODEL, "parameters=%d trainable=%d dtype=%s by=optimizer" % (every, trainable, dtype))
    except Exception:
        pass


def tell_tokens(probe, batch):
    """Padding and packing as they are: the GPU computes them all."""
    if not isinstance(batch, dict) and not hasattr(type(batch), "keys"):
        return
    try:
        shape = batch["input_ids"].shape
        probe.mark(words.TOKENS, 0, -1, shape[0] * shape[1], 0)
    except Exception:
        pass
