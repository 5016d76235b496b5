# SPDX-License-Identifier: Apache-2.0
"""Stacks of every shape, one a thread; each leaf notes what Python itself says of its stack, and sleeps."""
import asyncio
import functools
import json
import re
import sys
import threading
import time

noted, here = {}, threading.Event()
SHAPES = {}


def shape(function):
    SHAPES[function.__name__] = function
    return function


def positions(frame, line):
    code = frame.f_code
    if not hasattr(code, "co_positions"):
        return [line, None, None, None]
    for i, position in enumerate(code.co_positions()):
        if 2 * i == frame.f_lasti:
            return list(position)
    return [line, None, None, None]


def leaf(name):
    stack, frame = [], sys._getframe(1)
    while frame:
        code = frame.f_code
        stack.append([code.co_filename, code.co_name, getattr(code, "co_qualname", code.co_name), code.co_firstlineno,
                      frame.f_lineno, positions(frame, frame.f_lineno)])
        frame = frame.f_back
    noted[name] = stack
    time.sleep(600)


@shape
def recursion():
    def down(n):
        if n == 0:
            leaf("recursion")
        else:
            down(n - 1)
    down(300)


@shape
def generators():
    def inner():
        yield from (leaf("generators") for _ in range(1))

    def outer():
        yield 1
        yield from inner()
    for _ in outer():
        pass


@shape
def decorated():
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(
                *args,
                **kwargs)
        return wrapper

    @twice
    @twice
    def work(name):
        leaf(name)
    work("decorated")


@shape
def through_c():
    # Python -> C -> Python, several times.
    sorted([1], key=lambda _: re.sub("a", lambda m: functools.reduce(lambda a, b: leaf("through_c"), [1, 2]), "a"))


@shape
def executed():
    exec(compile("def made():\n\n    leaf('executed')\nmade()\n", "<made up>", "exec"), {"leaf": leaf})


@shape
def class_body():
    class Outer:
        class Inner:
            def __init__(self):
                leaf("class_body")

            @property
            def value(self):
                return type(self)()
        __slots__ = ()
    Outer.Inner.__new__(Outer.Inner).value


@shape
def größe():
    def 中文(): leaf("größe")
    def naïve_𝔘(): 中文()
    naïve_𝔘()


@shape
def huge():
    # A line table of far more than 4096 bytes.
    body = "".join("    x%d = (a +\n        %d)\n" % (i, i) for i in range(6000))
    space = {"leaf": leaf}
    exec(compile("def enormous(a):\n" + body + "    leaf('huge')\n", "<enormous>", "exec"), space)
    space["enormous"](1)


@shape
def coroutines():
    async def inner():
        leaf("coroutines")

    async def middle():
        await inner()

    async def outer():
        await asyncio.gather(middle())
    asyncio.run(outer())


@shape
def comprehension():
    return [{k: leaf("comprehension") for k in range(1)} for _ in range(1)]


@shape
def handler():
    try:
        raise ValueError
    except ValueError:
        try:
            json.loads("[1, 2]", parse_int=lambda text: leaf("handler"))
        finally:
            pass


for name, function in SHAPES.items():
    thread = threading.Thread(target=function, name="shape " + name, daemon=True)
    thread.start()
deadline = time.time() + 60
while len(noted) < len(SHAPES) and time.time() < deadline:
    time.sleep(0.05)
time.sleep(0.3)
sys.stdout.reconfigure(encoding="utf-8")
print(json.dumps(noted), flush=True)
print("ready", flush=True)
time.sleep(600)
