# SPDX-License-Identifier: Apache-2.0
"""local.py LIBRARY [search]: takes this process's stacks by the library from within, in all places where it is to work, and
prints a line of JSON {case: [expected, got]}; a stack is [[function, line, first line, file], ...], innermost first."""
import asyncio
import ctypes
import json
import re
import sys
import threading

PLAIN, GUARDED = 0, 1
released = ctypes.CDLL(sys.argv[1])  # its calls give the GIL up
held = ctypes.PyDLL(sys.argv[1])     # these do not
for library in (released, held):
    library.local_nanoseconds.restype = ctypes.c_double
    library.local_other.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t]
text = ctypes.create_string_buffer(1 << 20)
cases = {}
opened = released.local_open()
if len(sys.argv) > 2:
    released.local_search()


def parsed(count):
    if count < 0:
        return count
    lines = text.value.decode().splitlines()
    assert len(lines) == count
    return [[f, int(n), int(first), path] for f, n, first, path in (line.split("\t") for line in lines)]


def expected(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), frame.f_lineno, code.co_firstlineno, code.co_filename])
        frame = frame.f_back
    return stack


def take(case, call, *arguments):
    count, stack = call(*arguments, text, len(text)), expected(sys._getframe())
    cases[case] = [stack, parsed(count)]


def everywhere(case):
    for how, word in ((PLAIN, "plain"), (GUARDED, "guarded")):
        take("%s, %s, GIL held" % (case, word), held.local_text, how)
        take("%s, %s, GIL released" % (case, word), released.local_text, how)
    take(case + ", in a signal handler", released.local_raise, 10)


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    return everywhere("recursion")


def generator():
    yield everywhere("generator")


class Key:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        everywhere("called by a sort")
        return False


async def inner():
    everywhere("coroutine")


async def outer():
    await asyncio.gather(inner())


def in_thread():
    everywhere("thread")
    asyncio.new_event_loop().run_until_complete(outer())


def counts(library_call):
    numbers = (ctypes.c_uint64 * 5)()
    library_call(numbers)
    return dict(zip(("taken", "none", "damaged", "wrong", "differ"), numbers))


def busy(rounds):
    """Calls, generators, exceptions, classes, regular expressions and much that is made and freed."""
    total = 0
    for i in range(rounds):
        total += sum(x for x in (y * 2 for y in range(20)))
        total += len(re.sub("a(.)", lambda m: m.group(1), "abac" * 5))
        total += len(json.loads(json.dumps({"k%d" % k: [k] * 5 for k in range(10)})))
        try:
            sorted([3, 1, 2], key=lambda v: v / (i % 3))
        except ZeroDivisionError:
            total += 1
        total += depth(i % 40)
    return total


def depth(n):
    return depth(n - 1) + 1 if n else 0


released.local_handle(10, 0)
everywhere("module")
sys.setrecursionlimit(1200)
recursive(1000)
list(generator())
sorted([Key(1), Key(2)])
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()

facts = {"opened": opened, "no python": [released.local_in_thread(PLAIN), released.local_in_thread(GUARDED)]}
truncated = ctypes.c_int()


def cut(n):
    if n:
        return cut(n - 1)
    return [[released.local_cut(how, 7, ctypes.byref(truncated)), truncated.value] for how in (PLAIN, GUARDED)]


facts["cut"] = cut(20)

# Another thread, asleep in a known place.
state, ready, over = [], threading.Event(), threading.Event()
own = ctypes.pythonapi.PyThreadState_Get
own.restype = ctypes.c_void_p


def sleeper():
    state.append(own())
    ready.set()
    over.wait()


thread = threading.Thread(target=sleeper)
thread.start()
ready.wait()
while True:
    frame = sys._current_frames()[thread.ident]
    count = released.local_other(state[0], text, len(text))
    if expected(sys._current_frames()[thread.ident]) == parsed(count):
        break
cases["another thread"] = [expected(frame), parsed(count)]
over.set()
thread.join()


def at_depth(n):
    if n:
        return at_depth(n - 1)
    of_each = ctypes.c_uint32()
    return [[released.local_nanoseconds(how, times, ctypes.byref(of_each)), of_each.value]
            for how, times in ((PLAIN, 20000), (GUARDED, 500))]


facts["ns"] = at_depth(40)
held.local_hook(1)
busy(300)
held.local_hook(0)
facts["hooks"] = counts(released.local_hook_counts)
before = counts(released.local_signal_counts)["taken"]
released.local_handle(14, 300)
while counts(released.local_signal_counts)["taken"] < before + 1500:
    busy(20)
released.local_handle(14, 0)
facts["signals"] = counts(released.local_signal_counts)
print(json.dumps({"cases": cases, "facts": facts}))
