# SPDX-License-Identifier: Apache-2.0
"""A list of threads that leads back into itself, as one does that changes while it is read."""
import ctypes
import threading

ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
states = []


def deeper(n):
    if n:
        deeper(n - 1)


def work():
    states.append(ctypes.pythonapi.PyThreadState_Get())
    while True:
        for depth in range(0, 150, 7):
            deeper(depth)


for i in range(3):
    threading.Thread(target=work, daemon=True, name="t%d" % i).start()
    while len(states) <= i:
        pass
# {prev, next, ...}; the main thread's is the last of all.
ctypes.c_void_p.from_address(ctypes.pythonapi.PyThreadState_Get() + 8).value = states[1]
print("ready", flush=True)
threading.Event().wait()
