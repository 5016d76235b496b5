# SPDX-License-Identifier: Apache-2.0
"""The start hook in transformers' own Trainer and in loops of accelerate's: what their phases are, and that all of their
time is told."""

import pytest
from test_hook_torch import job  # noqa: F401

pytestmark = pytest.mark.plain

MODEL = """
import os
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
def made():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32))
torch.manual_seed(0)
ids = torch.randint(0, 64, (24, 8))
class Ids(Dataset):
    def __len__(self): return 24
    def __getitem__(self, i): return {"input_ids": ids[i], "labels": ids[i]}
def arguments(**more):
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")
    return TrainingArguments(**{**dict(output_dir=out, per_device_train_batch_size=4, report_to=[], use_cpu=True,
                                       disable_tqdm=True, logging_strategy="no", save_strategy="no"), **more})
"""


def test_all_time_is_told(job):  # noqa: F811
    """A slow callback and a slow scheduler are the trainer's own loop; clipping is the optimizer's."""
    ring, _ = job(MODEL + """
class Slow(TrainerCallback):
    def on_step_begin(self, *args, **kwargs): time.sleep(0.003)
    def on_substep_end(self, *args, **kwargs): time.sleep(0.003)
    def on_pre_optimizer_step(self, *args, **kwargs): time.sleep(0.003)
trainer = Trainer(model=made(), args=arguments(gradient_accumulation_steps=2, num_train_epochs=3), train_dataset=Ids(),
                  callbacks=[Slow()])
trainer.train()
""", alone=False)
    assert len(ring.steps()) == 9
    assert ring.unexplained() < 0.01
    assert ring.line().startswith("eDFB-FBOO|DFB-FBOO|"), ring.line()  # clipping, then the step
    assert [r.a for r in ring.of("TOKENS")] == [32] * 18


def test_overridden_parts_and_an_end_by_a_callback(job):  # noqa: F811
    """A training_step and a get_batch_samples of its own, with and without the trainer's behind it; a step that a
    callback makes the last one."""
    ring, _ = job(MODEL + """
class Own(Trainer):
    def get_batch_samples(self, *args, **kwargs):
        time.sleep(0.002)
        return super().get_batch_samples(*args, **kwargs)
    def training_step(self, model, inputs, *args, **kwargs):
        time.sleep(0.002)
        return super().training_step(model, inputs, *args, **kwargs)
class Whole(Trainer):
    def training_step(self, model, inputs, *args, **kwargs):
        loss = model(**inputs).loss
        loss.backward()
        return loss.detach()
class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs): control.should_training_stop = state.global_step == 2
for kind in (Own, Whole):
    trainer = kind(model=made(), args=arguments(max_steps=4), train_dataset=Ids(), callbacks=[Stop()])
    trainer.train()
    assert trainer.state.global_step == 2
""", alone=False)
    assert ring.line() == "eDFBOO|DFBOO|L" * 2
    assert ring.unexplained() < 0.01
    for phase in ("DATA", "FORWARD"):
        assert ring.seconds(phase) > 0.004


def test_checkpoints_and_resuming(job):  # noqa: F811
    """Saved in the midst, and gone on with from there: the batches that are passed over are waiting for data."""
    ring, _ = job(MODEL + """
def run(**more):
    trainer = Trainer(model=made(), args=arguments(num_train_epochs=1, save_strategy="steps", save_steps=2,
                      save_total_limit=1, **more), train_dataset=Ids(), eval_dataset=Ids())
    return trainer
run(max_steps=4).train()
run(max_steps=6).train(resume_from_checkpoint=True)
""", alone=False)
    assert len(ring.steps()) == 6
    saves = ring.line().count("S")
    assert saves >= 3 and ring.line().endswith("L"), ring.line()
    assert ring.unexplained() < 0.01


def test_an_exception_in_a_step(job):  # noqa: F811
    """The job goes on with another trainer behind it: the broken step is aborted or its forward pass just ends."""
    ring, done = job(MODEL + """
class Broken(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        if self.state.global_step == 1: raise ValueError("broken")
        return super().compute_loss(model, inputs, *args, **kwargs)
try:
    Broken(model=made(), args=arguments(max_steps=2), train_dataset=Ids()).train()
except ValueError as error:
    print(error)
Trainer(model=made(), args=arguments(max_steps=1), train_dataset=Ids()).train()
raise KeyError("end")
""", returncode=1, alone=False)
    assert ring.line() == "eDFBOO|DF" + "eDFBOO|L"
    assert ring.texts("ERROR") == ["KeyError: 'end'"]


def test_accelerate_alone(job):  # noqa: F811
    """accelerator.accumulate, .backward, .clip_grad_norm_ in a loop without a trainer."""
    ring, _ = job("""
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=5))
for x, y in loader:
    with accelerator.accumulate(model):
        loss = ((model(x) - y) ** 2).mean()
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
print(loss.item())
""")
    # accelerate fetches a batch ahead of the one that it hands out.
    assert ring.line().count("|") == 2 and ring.line().count("-") == 2, ring.line()
    assert ring.line().count("OO|") == 2
    assert sum(r.b for r in ring.steps()) == 20
