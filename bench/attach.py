# SPDX-License-Identifier: Apache-2.0
"""What alula attach costs a small training step, and what is left when it has gone: attach.py ALULA [ROUNDS].

One process, in turns: a window of steps alone, one attached to, one after. CPU time of the loop's thread, first quartile of
a window, median of the rounds."""

import os
import signal
import statistics
import subprocess
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = torch.utils.data.TensorDataset(torch.ones(4000000, 8), torch.ones(4000000, 1))
batches = iter(torch.utils.data.DataLoader(data, batch_size=4))


def window(steps=1500):
    spent = []
    for _ in range(steps):
        began = time.thread_time_ns()
        x, y = next(batches)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        spent.append(time.thread_time_ns() - began)
    return sorted(spent)[steps // 4] / 1000


def train(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        window(5)


def main():
    result = {"before": [], "attached": [], "after": []}
    train(2)
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 6):
        result["before"].append(window())
        attach = subprocess.Popen([sys.argv[1], "attach", "--quiet", "--no-record", str(os.getpid())])
        train(2)
        result["attached"].append(window())
        attach.send_signal(signal.SIGINT)
        train(1)
        attach.wait()
        result["after"].append(window())
    for name, times in result.items():
        print("%-9s %6.1f us a step (%s)" % (name, statistics.median(times), " ".join("%.1f" % t for t in times)))


if __name__ == "__main__":
    main()
