# SPDX-License-Identifier: Apache-2.0
"""Threads that begin and end all the time; one named worker_N runs work_N alone, and those named maker none of it."""
import threading
import time

for n in range(20):
    exec("def work_%d(until):\n    while time.perf_counter() < until:\n        pass\n" % n)
WORK = [globals()["work_%d" % n] for n in range(20)]


def make(n):
    while True:
        n = (n + 7) % 20
        thread = threading.Thread(target=WORK[n], args=(time.perf_counter() + 0.0005 * (n % 4),), name="worker_%d" % n)
        thread.start()
        thread.join()


for n in range(3):
    threading.Thread(target=make, args=(n,), daemon=True, name="maker").start()
print("ready", flush=True)
threading.Event().wait()
