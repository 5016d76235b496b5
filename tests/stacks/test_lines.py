# SPDX-License-Identifier: Apache-2.0
"""Line tables of whole modules of every interpreter's own library, each instruction compared with what Python says."""

import json
import subprocess

import pytest

from conftest import ALL, version_of

# Prints [first line, bytes, table, [[line, end line, column, end column] of each instruction]] a code object.
DUMP = """
import dis, json, sys, importlib.util
def walk(code):
    yield code
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            yield from walk(c)
def none(x, other):
    return other if x is None else x
for name in ("argparse", "typing", "asyncio.base_events", "json.decoder", "unittest.mock", "tarfile", "decimal", "turtle"):
    try:
        path = importlib.util.find_spec(name).origin
        source = open(path, encoding="utf-8").read()
    except (ImportError, AttributeError, OSError):
        continue
    for c in walk(compile(source, path, "exec")):
        if hasattr(c, "co_positions"):
            table = c.co_linetable
            rows = [[none(a, 0), none(b, 0), none(d, -1), none(e, -1)] for a, b, d, e in c.co_positions()]
        elif hasattr(c, "co_lines"):
            table, rows = c.co_linetable, []
            for start, end, line in c.co_lines():
                rows += [[none(line, 0), none(line, 0), -1, -1]] * ((end - start) // 2)
        else:
            table, rows, starts = c.co_lnotab, [], dict(dis.findlinestarts(c))
            line = c.co_firstlineno
            for at in range(0, len(c.co_code), 2):
                line = starts.get(at, line)
                rows.append([line, line, -1, -1])
        print(json.dumps([c.co_firstlineno, 2 * len(rows), table.hex(), rows]))
"""


@pytest.mark.parametrize("name", sorted(ALL, key=version_of))
def test_every_instruction(name, tools):
    dump = subprocess.run([*ALL[name], "-c", DUMP], capture_output=True, text=True, check=True, timeout=300)
    codes = [json.loads(line) for line in dump.stdout.splitlines()]
    minor = version_of(name)[1]
    asked = "".join("%d %d %s\n" % (first, size, table or "-") for first, size, table, _ in codes)
    told = subprocess.run([tools / "lines-tool", str(2 if minor >= 11 else 1 if minor == 10 else 0)], input=asked,
                          capture_output=True, text=True, check=True, timeout=300)
    assert len(codes) > 500
    for (*_, rows), line in zip(codes, told.stdout.splitlines()):
        assert [list(map(int, p.split(","))) for p in line.split()] == rows
