# SPDX-License-Identifier: Apache-2.0
"""Functions made anew all the time, whose code objects take each other's places in memory: inner_N is called by outer_N alone,
and both are of file_N. Numbers rise."""
import sys
import time
import types

SPINS = [float(word) for word in sys.argv[1:]]
CLOCK = time.perf_counter
QUALIFIED = sys.version_info >= (3, 11)


def inner(until):
    n = 0
    while CLOCK() < until:
        n += 1
    return n


def outer(until):
    return CALLED(until)


def make(function, number):
    name = "%s_%08d" % (function.__name__, number)
    more = {"co_qualname": name} if QUALIFIED else {}
    code = function.__code__.replace(co_name=name, co_filename="file_%08d" % number, co_firstlineno=1, **more)
    return types.FunctionType(code, globals())


def run(number, spin):
    global CALLED
    CALLED = make(inner, number)
    called = make(outer, number)
    called(CLOCK() + spin)
    del called, CALLED


print("ready", flush=True)
number = 0
while True:
    number += 1
    run(number, SPINS[number % len(SPINS)])
