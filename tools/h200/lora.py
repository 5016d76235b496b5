# SPDX-License-Identifier: Apache-2.0
"""lora.py: LoRA of a 7B-shaped Qwen2.5 from random weights, by the Hugging Face Trainer and PEFT, as `swift sft` does it.

  --starved S    each sample costs S seconds in the loader (no workers)
  --keep MIB     so much is kept on the GPU each step: a leak
  --profile N    torch.profiler over N steps behind the first 10; prints its times of the phases of these very steps
  --tiny         a shape for machines without a GPU

Nothing is downloaded. The last line is JSON: ms a step by the job's own clock, loss, torch's peak of allocated memory.
"""

import argparse
import json
import os
import time

import torch
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainerCallback, TrainingArguments

SHAPE = dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4,
             vocab_size=152064)  # Qwen2.5-7B's config.json
TINY = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=512)


class Rows(Dataset):
    def __init__(self, a, vocabulary):
        self.a = a
        self.ids = torch.randint(0, vocabulary, (64, a.length), generator=torch.Generator().manual_seed(3))

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        if self.a.starved:
            time.sleep(self.a.starved)
        ids = self.ids[index % 64]
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


class Clock(TrainerCallback):
    """The job's own clock, and torch.profiler's window."""

    def __init__(self, a):
        self.a, self.at, self.profiler, self.window = a, [], None, (10, 10 + a.profile)
        self.kept = []

    def on_step_end(self, args, state, control, **kwargs):
        self.at.append(time.perf_counter())
        step = state.global_step
        if self.a.profile and step == 1:  # made by the trainer behind the first batches
            span_around(kwargs["optimizer"], "step", "optimizer")
        if self.a.keep:
            self.kept.append(torch.empty(self.a.keep << 20, dtype=torch.uint8, device=args.device))
        if self.a.profile and step == self.window[0]:
            kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
            self.profiler = profile(activities=kinds)
            self.profiler.__enter__()
        elif self.profiler and step == self.window[1]:
            self.profiler.__exit__(None, None, None)
            self.tell()
            self.profiler = None

    def tell(self):
        spans = {name: "zoo_" + name for name in ("data", "forward", "backward", "optimizer")}
        times = dict.fromkeys(spans, 0.0)
        kernels = 0.0
        for e in self.profiler.events():
            for phase, name in spans.items():
                if e.name.startswith(name) and e.device_type == torch.autograd.DeviceType.CPU:
                    times[phase] += e.time_range.elapsed_us() / 1e3
            if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith(("zoo_", "Optimizer", "enumerate")):
                kernels += e.time_range.elapsed_us() / 1e3
        n = self.window[1] - self.window[0]
        print("PROFILER " + json.dumps({"steps": [self.window[0] + 1, self.window[1]], "kernel_ms": kernels / n,
                                        **{k: v / n for k, v in times.items()}}), flush=True)


class Marked(Trainer):
    """The profiler's ranges lie where alula's phases begin and end: forward is training_step up to the backward pass,
    optimizer is clipping and step; what follows the step (scheduler, zero_grad) lies between steps."""

    def training_step(self, model, inputs, *args, **kwargs):
        self.span = record_function("zoo_forward")
        self.span.__enter__()
        return super().training_step(model, inputs, *args, **kwargs)


def span_around(owner, name, phase):
    function = getattr(owner, name)

    def spanned(*args, **kwargs):
        with record_function("zoo_" + phase):
            return function(*args, **kwargs)
    setattr(owner, name, spanned)


def mark_backward(trainer):
    backward = trainer.accelerator.backward
    span_around(trainer, "get_batch_samples", "data")
    span_around(trainer.accelerator, "clip_grad_norm_", "optimizer")

    def marked(loss, **kwargs):
        trainer.span.__exit__(None, None, None)
        with record_function("zoo_backward"):
            return backward(loss, **kwargs)
    trainer.accelerator.backward = marked


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in (("steps", int, 60), ("length", int, 1024), ("batch", int, 2), ("accumulate", int, 1),
                                ("starved", float, 0.0), ("keep", int, 0), ("profile", int, 0), ("workers", int, 0)):
        p.add_argument("--" + name, type=kind, default=default)
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--output_dir", default="/var/tmp/alula-lora")
    a = p.parse_args()
    torch.manual_seed(0)
    device = "cuda:%s" % os.environ.get("LOCAL_RANK", "0") if torch.cuda.is_available() else "cpu"
    shape = TINY if a.tiny else SHAPE
    with torch.device(device):
        torch.set_default_dtype(torch.bfloat16)
        model = Qwen2ForCausalLM(Qwen2Config(**shape, max_position_embeddings=32768, attn_implementation="sdpa"))
        torch.set_default_dtype(torch.float32)
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    clock = Clock(a)
    arguments = TrainingArguments(
        output_dir=a.output_dir, max_steps=a.steps, per_device_train_batch_size=a.batch, learning_rate=1e-4,
        gradient_accumulation_steps=a.accumulate, logging_steps=10, save_strategy="no", report_to=[], bf16=device != "cpu",
        use_cpu=device == "cpu", dataloader_num_workers=a.workers, disable_tqdm=True, gradient_checkpointing=False, seed=0)
    trainer = (Marked if a.profile else Trainer)(model=model, args=arguments, train_dataset=Rows(a, shape["vocab_size"]), callbacks=[clock])
    if a.profile:
        mark_backward(trainer)
    result = trainer.train()
    at = clock.at[4:]
    print("LORA " + json.dumps({
        "ms_per_step": (at[-1] - at[0]) / (len(at) - 1) * 1e3, "steps": len(clock.at), "loss": result.training_loss,
        "metrics": result.metrics, "peak": torch.cuda.max_memory_allocated() if device != "cpu" else None}), flush=True)


if __name__ == "__main__":
    main()
