# SPDX-License-Identifier: Apache-2.0
"""TRL's trainers: SFT and DPO are a transformers.Trainer's loop; GRPO generates within its steps, which is ROLLOUT."""

import json

import pytest

pytestmark = pytest.mark.framework

HEAD = """
import os, sys, time
import torch
torch.set_num_threads(1)
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback, EarlyStoppingCallback
tiny = sys.argv[1]
tokenizer = AutoTokenizer.from_pretrained(tiny + "/model")
def model(): return AutoModelForCausalLM.from_pretrained(tiny + "/model")
def rows(name): return load_dataset("json", data_files=tiny + "/" + name + ".jsonl", split="train")
common = dict(output_dir="out", per_device_train_batch_size=2, use_cpu=True, report_to=[], logging_steps=2, max_steps=4,
              gradient_accumulation_steps=2, save_steps=2, bf16=False, gradient_checkpointing=False)
"""

SFT = HEAD + """
from trl import SFTConfig, SFTTrainer
from peft import LoraConfig
trainer = SFTTrainer(model=model(), args=SFTConfig(**common, eval_strategy="steps", eval_steps=2, max_length=64),
                     train_dataset=rows("sft"), eval_dataset=rows("sft").select(range(4)), processing_class=tokenizer,
                     peft_config=LoraConfig(r=2, target_modules=["q_proj"]))
trainer.train()
"""

DPO = HEAD + """
from trl import DPOConfig, DPOTrainer
def pair(row):
    prompt, answer = row["messages"]
    return {"prompt": [prompt], "chosen": [answer], "rejected": [{"role": "assistant", "content": row["rejected_response"]}]}
data = rows("dpo")
trainer = DPOTrainer(model=model(), args=DPOConfig(**common, max_length=64), processing_class=tokenizer,
                     train_dataset=data.map(pair, remove_columns=data.column_names))
trainer.train()
"""

GRPO = HEAD + """
from trl import GRPOConfig, GRPOTrainer
data = rows("prompts")
def reward(completions, **kwargs):
    time.sleep(0.05)  # scoring belongs to the rollout
    return [float(len(completion[0]["content"])) for completion in completions]
trainer = GRPOTrainer(model=model(), reward_funcs=reward, processing_class=tokenizer,
                      args=GRPOConfig(**{**common, "max_steps": 3}, num_generations=2, max_completion_length=12),
                      train_dataset=data.map(lambda row: {"prompt": row["messages"]}, remove_columns=data.column_names))
trainer.train()
"""


@pytest.mark.parametrize("name, code", [("SFT", SFT), ("DPO", DPO)])
def test_loops_of_the_trainer(watch, program, tiny, script, tmp_path, name, code):
    job = watch(program("trl"), script(code), tiny)
    rank, = job.ranks
    assert "trl=1." in rank["framework"] and rank["step_source"].startswith("transformers.Trainer")
    assert (rank["steps"], rank["micro_steps"], rank["aborted_steps"]) == (4, 4, 0)
    assert job.explained() >= 0.99
    for part in ("data", "forward", "backward", "optimizer", "save", "log"):
        assert job.seconds()[part] > 0, part
    assert (job.seconds()["evaluation"] > 0) == (name == "SFT")
    assert job.seconds()["rollout"] == 0
    assert job.report["alula"]["throughput"]["parameters"] > 0


def test_grpo_generates_within_its_steps(watch, program, tiny, script):
    job = watch(program("trl"), script(GRPO), tiny)
    rank, = job.ranks
    assert (rank["steps"], rank["micro_steps"], rank["aborted_steps"]) == (3, 3, 0)
    assert job.explained() >= 0.99
    parts = job.seconds()
    assert parts["rollout"] > 0.15  # the rewards alone sleep for 0.05 s each time
    assert parts["forward"] > 0 and parts["backward"] > 0  # the forward pass goes on behind the rollout
    assert parts["rollout"] > parts["forward"]
    assert any("rollout" in line for line in job.said())


def test_resuming_early_stop_and_an_exception(watch, program, tiny, script):
    """Gone on with from a checkpoint, ended by a metric that gets no better, ended by an exception: the job's status, and
    where it was."""
    job = watch(program("trl"), script(SFT.replace("trainer.train()", """
trainer.train()
class Worse(TrainerCallback):
    def on_evaluate(self, args, state, control, metrics, **kwargs):
        metrics["eval_loss"] = 1000.0
class Broken(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 9: raise RuntimeError("the end of it")
def again(*callbacks, **more):
    return SFTTrainer(model=model(), args=SFTConfig(**{**common, "max_steps": 12, **more}, eval_strategy="steps",
                      eval_steps=2, max_length=64, load_best_model_at_end=True, metric_for_best_model="eval_loss"),
                      train_dataset=rows("sft"), eval_dataset=rows("sft").select(range(4)), processing_class=tokenizer,
                      peft_config=LoraConfig(r=2, target_modules=["q_proj"]), callbacks=list(callbacks))
stopped = again(Worse(), EarlyStoppingCallback(1))
stopped.train()
assert stopped.state.global_step == 4, stopped.state.global_step
again(Broken(), EarlyStoppingCallback(9)).train(resume_from_checkpoint=True)
""")), tiny, status=1)
    rank, = job.ranks
    assert rank["steps"] == 4 + 4 + 5
    assert job.explained() >= 0.99
    assert any("RuntimeError: the end of it" in line for line in job.said())
