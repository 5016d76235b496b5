# SPDX-License-Identifier: Apache-2.0
"""local_interps.py LIBRARY: stacks from within of a thread that runs a second interpreter. That one prints a line of JSON: for each
way [GIL held, how, expected names, got names]; the names of the interpreter around it do not belong to it."""
import sys

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
INSIDE = """
import ctypes, json, sys
released, held = ctypes.CDLL(LIBRARY), ctypes.PyDLL(LIBRARY)
text = ctypes.create_string_buffer(1 << 16)
told = [held.local_open()]
def names():
    found, frame = [], sys._getframe()
    while frame:
        found.append(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))
        frame = frame.f_back
    return found
def inner(library, how):
    count = library.local_text(how, text, len(text))
    got = [line.split("\\t")[0] for line in text.value.decode().splitlines()] if count >= 0 else count
    told.append([library is held, how, names()[1:], got])
def outer(*given):
    inner(*given)
for library in (held, released):
    for how in (0, 1):
        outer(library, how)
print(json.dumps(told), flush=True)
"""


def around():
    script = "LIBRARY = %r\n" % sys.argv[1] + INSIDE
    if sys.version_info >= (3, 13):
        made = interpreters.create("legacy")
    else:
        made = interpreters.create(isolated=False) if sys.version_info >= (3, 9) else interpreters.create()
    failed = interpreters.run_string(made, script)
    if failed:
        raise SystemExit(str(failed))


around()
