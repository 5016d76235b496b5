# SPDX-License-Identifier: Apache-2.0
"""What a watched training step costs: one process, rounds of a tiny MLP's loop with and without the hook's wrappers in
turn, CPU time of the loop's thread a step, first quartiles. `alula run --quiet -- python bench/hook.py [ROUNDS [WIDTH]]`"""

import statistics
import sys
import time

import torch
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset

STEPS, WARM = 100, 20


def swaps():
    """[(owner, name, wrapped, original)] and the global hooks, as the hook has put them there."""
    from _alula_hook import patches
    return [(owner, name, getattr(owner, name), original) for owner, name, original, _ in patches.REPLACED]


def switch(on, rows, pre, post):
    for owner, name, wrapped, original in rows:
        setattr(owner, name, wrapped if on else original)
    for table, kept in ((optimizers._global_optimizer_pre_hooks, pre), (optimizers._global_optimizer_post_hooks, post)):
        table.clear()
        if on:
            table.update(kept)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    width = int(sys.argv[2]) if len(sys.argv) > 2 else 64
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(TensorDataset(torch.randn(16 * (STEPS + WARM), width), torch.randn(16 * (STEPS + WARM), 1)),
                        batch_size=16)

    def turn():
        for i, (x, y) in enumerate(loader):
            if i == WARM:
                begin = time.thread_time_ns()
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        return (time.thread_time_ns() - begin) / STEPS / 1e3

    rows = swaps()
    pre, post = dict(optimizers._global_optimizer_pre_hooks), dict(optimizers._global_optimizer_post_hooks)
    with_hook, without = [], []
    for _ in range(rounds):
        switch(True, rows, pre, post)
        with_hook.append(turn())
        switch(False, rows, pre, post)
        without.append(turn())
    switch(True, rows, pre, post)
    quartiles = [statistics.quantiles(values, n=4)[0] for values in (with_hook, without)]
    pairs = statistics.median(a - b for a, b in zip(with_hook, without))
    print("step %.1f us with, %.1f us without: %.2f us a step (median of pairs %.2f us), %d rounds of %d steps"
          % (quartiles[0], quartiles[1], quartiles[0] - quartiles[1], pairs, rounds, STEPS))


if __name__ == "__main__":
    main()
