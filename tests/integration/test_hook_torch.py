# SPDX-License-Identifier: Apache-2.0
"""The start hook with the real torch: loops without any change to them. Each job runs alone as well, and must print and
return the same."""

import re
import signal
import subprocess
import sys
import time

import pytest
from hook_collector import PHASES, ROOT, Collector

pytestmark = pytest.mark.plain

HEAD = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(20, 8), torch.randn(20, 1))
def loss_of(x, y): return ((model(x) - y) ** 2).mean()
"""


@pytest.fixture
def job(build, tmp_path):
    """job(code) runs it alone and watched, holds the two against each other, and returns (ring, stdout)."""
    collectors = []

    def run(code, returncode=0, rings=1, alone=True):
        script = tmp_path / "job.py"
        script.write_text(HEAD + code)
        collector = Collector(build / "src" / "probe" / "libalula-probe.so").__enter__()
        collectors.append(collector)
        done = collector.run([sys.executable, script])
        assert done.returncode == returncode, done.stderr
        if alone:
            same = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (same.returncode, same.stdout)
        assert collector.complaints() == ""
        assert len(collector.rings) == rings
        for ring in collector.rings:
            assert ring.lost() == 0
        return (collector.rings[0] if rings == 1 else collector.rings), done

    yield run
    for collector in collectors:
        collector.__exit__()


def test_plain_loop(job):
    """Two epochs of three steps, the last batch of 4; an evaluation without gradients; between them nothing."""
    ring, _ = job("""
loader = DataLoader(data, batch_size=8)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(sum(loss_of(x, y).item() for x, y in loader), loss.item())
print(torch.utils.data.get_worker_info(), sys.excepthook is sys.__excepthook__)
""")
    # DataLoader.__iter__ and the first batch are two waits; the wait that ends a loader is one, too.
    assert ring.line() == "DDFeBO|DFBO|DFBO|DE" "DDeFBO|DFBO|DFBO|DE"
    assert [(r.a, r.b) for r in ring.steps()] == [(1, 8), (2, 8), (3, 4), (4, 8), (5, 8), (6, 4)]
    assert [r.a for r in ring.of("EPOCH")] == [0, 1]
    assert [step for phase, _, _, step in ring.spans() if phase == "BACKWARD"] == [1, 2, 3, 4, 5, 6]
    assert re.match(r"torch=2\.", ring.texts("FRAMEWORK")[0])
    assert ring.texts("SOURCE") == [
        "torch.optim hook; data=exact forward=inferred backward=exact optimizer=exact evaluation=inferred"]
    assert (ring.of("EXIT")[0].code, ring.of("MEMORY"), ring.of("GPU_TIME")) == (0, [], [])
    assert len(ring.records) * 32 / 6 <= 480


def test_data_share(job):
    """Workers that are slower than the loop: the share that the job measures itself, within two points."""
    ring, done = job("""
class Slow(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        time.sleep(0.012)
        return torch.full((8,), float(i)), torch.zeros(1)
def fetch(it, waits):
    begin = time.perf_counter()
    try:
        return next(it)
    finally:
        waits.append(time.perf_counter() - begin)
next(iter(DataLoader(data)))  # the hook's own start, once a process
waits, begin = [], time.perf_counter()
it = iter(DataLoader(Slow(), batch_size=4, num_workers=1))
waits.append(time.perf_counter() - begin)
for _ in range(10):
    x, y = fetch(it, waits)
    time.sleep(0.02)
    loss_of(x, y).backward()
    optimizer.step()
    time.sleep(0.01)
print("share", sum(waits) / (time.perf_counter() - begin), time.perf_counter() - begin, begin)
""", alone=False)
    _, share, wall, begin = done.stdout.split()  # perf_counter is CLOCK_MONOTONIC
    begin_ns = float(begin) * 1e9

    def seconds(phase):
        return sum(e - b for name, b, e, _ in ring.spans() if name == phase and b >= begin_ns) / 1e9

    assert len(ring.steps()) == 10
    assert 0.1 < float(share) < 0.9
    assert abs(seconds("DATA") / float(wall) - float(share)) < 0.02
    # What the job does between its steps belongs to none of the phases.
    known = sum(seconds(phase) for phase in PHASES)
    assert 0.09 < float(wall) - known
    assert seconds("FORWARD") >= 0.2


def test_accumulation_scaler_and_two_optimizers(job):
    ring, _ = job("""
for i, (x, y) in enumerate(DataLoader(data, batch_size=4)):
    loss_of(x, y).backward()
    if i % 2:
        optimizer.step()
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
for factor in (1.0, float("inf"), 1.0):
    optimizer.zero_grad()
    scaler.scale(loss_of(x, y) * factor).backward()
    scaler.step(optimizer)
    scaler.update()
other = torch.optim.AdamW(model.parameters())
for x, y in DataLoader(data, batch_size=10):
    loss_of(x, y).backward()
    optimizer.step()
    other.step()
bfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    bfgs.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    return loss
for _ in range(3):
    bfgs.step(closure)
print([p.sum().item() for p in model.parameters()])
""")
    loop, rest = ring.line()[:len("DDFeB-DFBO|DFB-DFBO|DFB-D")], ring.line()[len("DDFeB-DFBO|DFB-DFBO|DFB-D"):]
    assert loop == "DDFeB-".replace("B-", "B") + "-DFBO|DFB-DFBO|DFB-D" or loop == "DDFeB-DFBO|DFB-DFBO|DFB-D"
    if hasattr(sys, "monitoring"):  # then the two loops without a loader tell of their iterators from the third step on
        rest = rest.replace("DDD", "DD").replace("DO", "O")
    assert rest.startswith("BO|BO~BO|"), rest
    assert rest[len("BO|BO~BO|"):].startswith("DDeFBO|ODFBO|O"), rest
    assert rest.endswith("O|O|"), "an optimizer that steps alone twice is the loop's from then on"
    assert [r.b for r in ring.steps()][:2] == [8, 8]
    assert [r.b for r in ring.steps("MICRO")] == [4, 4, 4]
    assert [r.a for r in ring.steps("SKIPPED")] == [4]


def test_failures(job):
    """A worker's exception and a failing backward that the job survives, then one that it does not."""
    ring, done = job("""
class Bad(Dataset):
    def __len__(self): return 3
    def __getitem__(self, i):
        if i == 1: raise ValueError("bad sample")
        return torch.zeros(8), torch.zeros(1)
def run(loader, broken=False):
    for x, y in loader:
        loss = loss_of(x, y)
        (loss.detach() if broken else loss).backward()
        optimizer.step()
for attempt in (lambda: run(DataLoader(Bad())), lambda: run(DataLoader(data), True), lambda: run(DataLoader(data, 20))):
    try:
        attempt()
    except (ValueError, RuntimeError) as error:
        print(type(error).__name__)
def last():
    raise MemoryError("no\\nmore")
last()
""", returncode=1)
    assert ring.line() == "DDFeBO|DDDFB!DDFBO|D"
    assert ring.texts("ERROR") == ["MemoryError: no more"]
    assert re.fullmatch(r".*/job\.py:\d+ last", ring.texts("WHERE")[0])
    assert done.stderr.endswith("MemoryError: no\nmore\n")


def test_compile_keeps_its_graphs(job):
    """The same graphs, and with a compiled model the same breaks; the backend only hands the graph back. Where an
    optimizer's step is compiled, torch breaks its graph before it in any case; with a hook the reason reads otherwise."""
    _, done = job("""
import torch._dynamo
from torch._dynamo.utils import counters
def show(*kinds):
    print([sorted(counters[kind].items()) for kind in kinds])
    torch._dynamo.reset()
    counters.clear()
forward = torch.compile(model, backend="eager", fullgraph=True)
for x, y in DataLoader(data, batch_size=5):
    ((forward(x) - y) ** 2).mean().backward()
    optimizer.step()
show("stats", "frames", "graph_break")
step = torch.compile(lambda: optimizer.step(), backend="eager")
step()
show("stats")
def train(x, y):
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()
compiled = torch.compile(train, backend="eager")
for x, y in DataLoader(data, batch_size=5):
    compiled(x, y)
show("stats")
""")
    assert done.stdout.count("unique_graphs") == 3
    assert "alula" not in done.stderr and "UserWarning" not in done.stderr


def test_killed(build, tmp_path):
    """kill -9 in the forward pass: all that was marked is there, and where it was."""
    script = tmp_path / "job.py"
    script.write_text(HEAD + """
for i, (x, y) in enumerate(DataLoader(data, batch_size=4)):
    if i == 3:
        os.kill(os.getpid(), 9)
    loss_of(x, y).backward()
    optimizer.step()
""")
    with Collector(build / "src" / "probe" / "libalula-probe.so") as collector:
        done = collector.run([sys.executable, script])
        assert done.returncode == -signal.SIGKILL
        [ring] = collector.rings
        assert ring.line() == "DDFeBO|DFBO|DFBO|DF"
        assert ring.spans()[-1][::2] == ("FORWARD", None)
        assert not ring.of("EXIT")


def test_fork_and_spawn(job):
    """A fork child that trains is silent; a spawned rank is a process of its own."""
    rings, _ = job("""
import torch.multiprocessing as mp
def train(n):
    for _ in range(n):
        loss_of(*data[:4]).backward()
        optimizer.step()
if __name__ == "__main__":
    train(2)
    if os.fork() == 0:
        train(3)
        os._exit(0)
    os.wait()
    process = mp.get_context("spawn").Process(target=train, args=(4,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
""", rings=2)
    assert sorted(len(ring.steps()) for ring in rings) == [2, 4]


def test_ranks(build, tmp_path):
    """Two ranks under torchrun, one with spawned and one with forked workers: the ranks tell, nobody else does."""
    script = tmp_path / "job.py"
    script.write_text("""
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(24, 8), torch.randn(24, 1)), batch_size=8, num_workers=2,
                           multiprocessing_context=["spawn", "fork"][dist.get_rank()]):
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()
""")
    with Collector(build / "src" / "probe" / "libalula-probe.so") as collector:
        done = collector.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                              script])
        assert done.returncode == 0, done.stderr
        assert collector.complaints() == ""
        assert sorted((r.a, r.b) for ring in collector.rings for r in ring.of("HELLO")) == [(0, 2), (1, 2)]
        assert [ring.line() for ring in collector.rings] == ["DDFeBO|DFBO|DFBO|D"] * 2


TRAINER = """
os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32))
ids = torch.randint(0, 64, (20, 8))
class Ids(Dataset):
    def __len__(self): return 20
    def __getitem__(self, i): return {"input_ids": ids[i], "labels": ids[i]}
out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "out")
args = TrainingArguments(output_dir=out, per_device_train_batch_size=4, gradient_accumulation_steps=2,
                         num_train_epochs=2, eval_strategy="epoch", save_strategy="steps", save_steps=3,
                         logging_steps=2, report_to=[], use_cpu=True, disable_tqdm=True)
trainer = Trainer(model=model, args=args, train_dataset=Ids(), eval_dataset=Ids())
result = trainer.train()
print("loss", result.training_loss, trainer.state.global_step)
print("runtime", result.metrics["train_runtime"], file=sys.stderr)
"""


def test_trainer(job, tmp_path):
    """transformers' own Trainer: 5 batches an epoch, two a step, the last one alone."""
    ring, done = job("import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n    import transformers\n"
                     + TRAINER.replace('print("loss"', 'print("\\nloss"').replace("logging_steps=2", "logging_steps=2"),
                     alone=False)
    micro, step, alone = "DFB-FBOO|", "L", "DFBOO|"  # clipping is the optimizer's
    assert ring.line() == ("e" + micro + micro + step + alone + "SE" +
                           "e" + micro + step + micro + alone + "L" + "SE" + "L")
    assert [(r.a, r.b) for r in ring.steps()] == [(1, 8), (2, 8), (3, 4), (4, 8), (5, 8), (6, 4)]
    assert [r.a for r in ring.of("EPOCH")] == [0, 1]
    assert ring.texts("SOURCE")[-1].startswith("transformers.Trainer; data=exact forward=exact ")
    assert re.match(r"torch=2\S+ transformers=\S+ accelerate=\S+", ring.texts("FRAMEWORK")[-1])
    assert ring.texts("OUTPUT_DIR") == [str(tmp_path / "out")]
    assert sum(r.a for r in ring.of("TOKENS")) == 2 * 20 * 8 and len(ring.of("TOKENS")) == 10  # none of the evaluations
    assert re.match(r"parameters=(\d+) trainable=\1 dtype=float32 attn=\w+ experts=0$", ring.texts("MODEL")[-1])
    told = dict(word.split("=") for word in ring.texts("OPTIONS")[-1].split())
    assert (told["per_device_train_batch_size"], told["gradient_accumulation_steps"], told["dataloader_num_workers"]) == ("4", "2", "0")
    assert (told["save_steps"], told["logging_steps"], told["bf16"]) == ("3", "2", "0")
    runtime = re.search(r"runtime (\S+)", done.stderr).group(1)
    assert '"train_runtime": %s,' % runtime in ring.texts("METRICS")[0]
    same = subprocess.run([sys.executable, str(tmp_path / "job.py")], capture_output=True, text=True, check=False)
    loss = re.search(r"^loss .*", done.stdout, re.M).group(0)
    assert loss == re.search(r"^loss .*", same.stdout, re.M).group(0)


def test_collector_that_comes_later(build, tmp_path):
    """Nobody listens when the job begins: the first steps are not told, the later ones are."""
    script = tmp_path / "job.py"
    script.write_text(HEAD + """
end = time.monotonic() + 20
i = 0
while time.monotonic() < end and not os.path.exists(sys.argv[1] + "/done"):
    loss_of(*data[:4]).backward()
    optimizer.step()
    i += 1
    if i == 5:
        open(sys.argv[1] + "/running", "w")
    time.sleep(0.002)
""")
    collector = Collector(build / "src" / "probe" / "libalula-probe.so")
    late = tmp_path / "socket"
    process = subprocess.Popen([sys.executable, script, str(tmp_path)], env={
        **__import__("os").environ, "ALULA_SOCKET": str(late), "ALULA_PROBE": str(collector.probe),
        "PYTHONPATH": str(collector.hook)})
    for _ in range(3000):
        if (tmp_path / "running").exists():
            break
        time.sleep(0.01)
    with collector:
        import os
        os.rename(collector.path, late)
        for _ in range(1000):
            if collector.rings and len(collector.rings[0].steps()) > 3:
                break
            time.sleep(0.01)
        (tmp_path / "done").write_text("")
        assert process.wait(30) == 0
        time.sleep(0.1)
        [ring] = collector.rings
        assert ring.steps()[0].a > 5  # counted all the same
        numbers = [r.a for r in ring.steps()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_model_and_options_of_a_plain_loop(job):
    """Known by the optimizer and the loader; batches with input_ids tell their tokens, with gradients alone."""
    ring, _ = job("""
class Ids(Dataset):
    def __len__(self): return 12
    def __getitem__(self, i): return {"labels": torch.zeros(1), "input_ids": torch.zeros(6, dtype=torch.long)}
embed = torch.nn.Embedding(4, 8)
optimizer = torch.optim.SGD(list(model.parameters()) + list(embed.parameters()), lr=0.01)
for batch in DataLoader(Ids(), batch_size=4, pin_memory=False):
    (model(embed(batch["input_ids"])).mean(1) - batch["labels"]).pow(2).mean().backward()
    optimizer.step()
with torch.no_grad():
    for batch in DataLoader(Ids(), batch_size=4):
        pass
""")
    assert [r.a for r in ring.of("TOKENS")] == [24, 24, 24]
    assert [r.b for r in ring.steps()] == [4, 4, 4]
    assert ring.texts("MODEL") == ["parameters=113 trainable=113 dtype=float32 by=optimizer"]
    assert ring.texts("OPTIONS") == ["num_workers=0 pin_memory=0 persistent_workers=0"]


def test_a_frozen_base_is_not_in_the_optimizer(job):
    """Then the whole model's size is not known, and it is not guessed."""
    ring, _ = job("""
model[0].requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(data, batch_size=10):
    loss_of(x, y).backward()
    optimizer.step()
""")
    assert ring.texts("MODEL") == ["trainable=9 dtype=float32"]
    assert not ring.of("TOKENS")


def test_sizes_of_shards_and_packed_parameters():
    """ZeRO-3, FSDP and 4-bit parameters are counted whole."""
    code = """
import sys, types
sys.path.insert(0, sys.argv[1])
from _alula_hook import model
def parameter(**keys):
    return types.SimpleNamespace(numel=lambda: 7, dtype=keys.pop("dtype", "torch.bfloat16"), requires_grad=False, **keys)
print(model.sizes([parameter(), parameter(ds_numel=100), parameter(_unpadded_unsharded_size=(10, 20)),
                   parameter(quant_state=types.SimpleNamespace(shape=(30, 100)), dtype="torch.uint8")]))
"""
    hook = ROOT / "python" / "hook"
    got = subprocess.run([sys.executable, "-c", code, hook], capture_output=True, text=True, check=True)
    assert got.stdout == "(3307, 0, 'uint8')\n", got.stderr
