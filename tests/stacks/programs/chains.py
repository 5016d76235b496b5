# SPDX-License-Identifier: Apache-2.0
"""Calls of every kind in turns, as fast as Python goes: called_N, inside_N and deep_N run below start_N alone, which stands on a
line of its own in turns(). Says which line that is."""
import json

KINDS = [
    "def inside_{n}():\n    pass\ndef start_{n}():\n    inside_{n}()\n",
    "def inside_{n}():\n    yield 1\n    yield 2\ndef start_{n}():\n    for x in inside_{n}():\n        pass\n",
    "def inside_{n}():\n    while True:\n        yield 1\ndef start_{n}(it=inside_{n}()):\n    next(it)\n",
    "def deep_{n}():\n    yield 1\ndef inside_{n}():\n    yield from deep_{n}()\ndef start_{n}():\n    list(inside_{n}())\n",
    "async def deep_{n}():\n    pass\nasync def inside_{n}():\n    await deep_{n}()\n"
    "def start_{n}():\n    try:\n        inside_{n}().send(None)\n    except StopIteration:\n        pass\n",
    "def inside_{n}(x):\n    return x\ndef start_{n}():\n    sorted([2, 1], key=inside_{n})\n",
    "class Made_{n}:\n    def __init__(self):\n        inside_{n}()\ndef inside_{n}():\n    pass\ndef start_{n}():\n    Made_{n}()\n",
]
NUMBERS = range(3 * len(KINDS))
text = "".join(KINDS[n // 3].format(n=n) for n in NUMBERS)
first = text.count("\n") + 3
text += "def turns():\n    while True:\n" + "".join("        start_%d()\n" % n for n in NUMBERS)
exec(compile(text, "made", "exec"))
print(json.dumps({"start_%d" % n: first + n for n in NUMBERS}), flush=True)
print("ready", flush=True)
turns()
