# SPDX-License-Identifier: Apache-2.0
"""local_end.py LIBRARY: stacks from within, in hooks of the allocators and by a timer's signal, while threads begin and end, in a
child of fork, and while the interpreter goes down with threads that are still there. Prints what the hooks counted."""
import ctypes
import json
import os
import sys
import threading
import time

released, held = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])
assert released.local_open() == 0
held.local_hook(1)
released.local_handle(14, 500)


def work():
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        [str(i) for i in range(50)]


def come_and_go():
    while True:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


def spin():
    while True:
        {str(i): [i] for i in range(100)}


for function in (come_and_go, spin, come_and_go, spin):
    threading.Thread(target=function, daemon=True).start()
time.sleep(0.3)
child = os.fork()
kept = [{str(i): object()} for i in range(20000)]
if not child:
    sys.exit(0)
status = os.waitpid(child, 0)[1]
counts = (ctypes.c_uint64 * 5)()
released.local_hook_counts(counts)
print(json.dumps([list(counts), status]), flush=True)
