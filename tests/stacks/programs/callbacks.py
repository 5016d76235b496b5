"""Threads that are called by Python and by C code in turns, and wait or run there; says which functions each has."""
import functools
import json
import re
import sys
import threading
import time


def wait(x):
    time.sleep(0.5)
    return x


def sleeps():
    time.sleep(1000)


lock = threading.Lock()
lock.acquire()


def locked():
    lock.acquire()


def sorts():
    while True:
        sorted([3, 1, 2], key=wait)


def reduces():
    while True:
        functools.reduce(lambda a, b: wait(a), [1, 2, 3])


def substitutes():
    while True:
        re.sub("a", lambda m: wait("b"), "aaaa")


def generate():
    for i in range(1000):
        yield wait(i)


def generates():
    while True:
        list(map(str, generate()))


class Compared:
    def __init__(self):
        wait(1)

    def __gt__(self, other):
        return wait(True)


def inits():
    while True:
        Compared()


def compares():
    one = Compared()
    while True:
        max(one, one)


def nested(depth):
    if depth:
        return sorted([1], key=lambda x: nested(depth - 1))
    return wait(1)


def nests():
    while True:
        nested(5)


def adds():
    while True:
        sum(range(10**7))


EXPECTED = {
    "sleeps": ["sleeps"], "locked": ["locked"], "sorts": ["wait", "sorts"], "reduces": ["wait", "<lambda>", "reduces"],
    "substitutes": ["wait", "<lambda>"], "generates": ["wait", "generate", "generates"], "inits": ["wait", "__init__", "inits"],
    "compares": ["wait", "__gt__", "compares"], "nests": ["wait", "nested", "<lambda>", "nested", "<lambda>", "nested"],
    "adds": ["adds"],
}
for name in EXPECTED:
    threading.Thread(target=globals()[name], name=name, daemon=True).start()
time.sleep(0.7)
print(json.dumps(EXPECTED), flush=True)
print("ready", flush=True)
sys.stdin.read()
