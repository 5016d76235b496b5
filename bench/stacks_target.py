# SPDX-License-Identifier: Apache-2.0
"""The programs that bench/stacks.py samples: stacks_target.py FILE MODE [NUMBER]. FILE is a table of 64-bit numbers that the
program keeps up to date: how many steps were done, or how long each function ran by the program's own clock.

deep N: goes N frames deep, does some steps there, comes back, again.  idle N: steps (of torch where there is one) beside N
threads that sleep.  ranks N: N processes of `deep 20`.  shares: four kinds of work, timed.  clock: the running function's
name is the time, in ms."""

import ctypes
import hashlib
import json
import mmap
import os
import random
import subprocess
import sys
import threading
import time

CYCLE_MS = 8000


def numbers(path):
    with open(path, "r+b") as f:
        return (ctypes.c_uint64 * 64).from_buffer(mmap.mmap(f.fileno(), 512))


def ready():
    print("ready", flush=True)


def one_step(table, place):
    x = 0
    for i in range(400):
        x += i * i
    table[place] += 1
    return x


def go_deep(n, table, place):
    if n > 1:
        return go_deep(n - 1, table, place)
    for _ in range(20):
        one_step(table, place)
    return n


def deep(table, depth, place=0):
    sys.setrecursionlimit(depth + 1000)
    ready()
    while True:
        go_deep(depth - 3, table, place)  # below main and <module>, above one_step


def sleep_on(event):
    event.wait()


def idle(table, threads):
    never = threading.Event()
    for _ in range(threads):
        threading.Thread(target=sleep_on, args=(never,), daemon=True).start()
    try:
        import torch
    except ImportError:
        ready()
        while True:
            one_step(table, 0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batch = torch.randn(32, 64)
    ready()
    while True:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        table[0] += 1


def ranks(path, count):
    children = [subprocess.Popen([*json.loads(os.environ["BENCH_PYTHON"]), __file__, path, "rank", str(i)],
                                 stdout=subprocess.PIPE, text=True) for i in range(count)]
    for child in children:
        child.stdout.readline()
    ready()
    for child in children:
        child.wait()


def loop_work():
    x = 0
    for i in range(3000):
        x += i * i % 7
    return x


def nested_work(n=13):
    return n if n < 2 else nested_work(n - 1) + nested_work(n - 2)


TEXT = json.dumps({"rows": [{"id": i, "values": list(range(20))} for i in range(40)]})


def parse_work():
    return json.loads(TEXT)


def digest_work():
    return hashlib.sha256(b"x" * 200000).digest()


def shares(table):
    kinds = [loop_work, nested_work, parse_work, digest_work]
    pick = random.Random(7)
    clock = time.perf_counter_ns
    ready()
    while True:
        k = pick.randrange(4)
        work = kinds[k]
        began = clock()
        work()
        table[k] += clock() - began


def clock_names():
    space = {"now": time.monotonic}
    for i in range(CYCLE_MS):
        exec("def t_%d(until):\n    while now() < until: pass" % i, space)
    functions = [space["t_%d" % i] for i in range(CYCLE_MS)]
    ready()
    while True:
        ms = int(time.monotonic() * 1000)
        functions[ms % CYCLE_MS]((ms + 1) / 1000)


def main():
    path, mode = sys.argv[1:3]
    number = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    table = numbers(path)
    if mode == "deep":
        deep(table, number)
    elif mode == "rank":
        deep(table, 20, number)
    elif mode == "idle":
        idle(table, number)
    elif mode == "ranks":
        ranks(path, number)
    elif mode == "shares":
        shares(table)
    else:
        clock_names()


if __name__ == "__main__":
    main()
