# SPDX-License-Identifier: Apache-2.0
"""Local variables as alula dump --locals reads them, in every interpreter."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import ALL, PROGRAMS, settle, started, version_of

EXPECTED = {
    "small": ("int", "12"), "negative": ("int", "-5"), "great": ("int", "4611686018427387904"),
    "large": ("int", "int of 133 bits"), "real": ("float", "1.5"), "yes": ("bool", "True"), "nothing": ("NoneType", "None"),
    "text": ("str", "'plain?'"), "wide": ("str", "'h\xe4\u4e2d\U0001f600'"),
    "long_text": ("str", "'" + 64 * "x" + "...' (1000 characters)"), "raw": ("bytes", "b'ab\\x00\\xff'"),
    "point": ("Point", "(1, (2.0, [... 1 item]))"), "numbers": ("list", "[0, 1, 2, 3, ... of 100]"),
    "table": ("dict", "{'a': 1, 'HF_TOKEN': ***, 5: None}"), "some": ("set", "2 items"), "args": ("tuple", "(7, 8)"),
    "kw": ("dict", "{'more': {}}"), "cell": ("int", "42"), "thing": ("Thing", None), "empty": ("tuple", "()"),
    "deep": ("list", "[[[... 2 items]]]"), "api_token": ("str", "***"), "password": ("int", "***"),
    "url": ("str", "'postgres://user:***@host/base'"), "bearer": ("str", "'***'"), "endless": ("list", "[[[... 1 item]]]"),
    "inner": ("function", None), "deepest": ("function", None),
}


def dump(pid, *options):
    alula = pathlib.Path(os.environ["ALULA_BUILD"]) / "src/cli/alula"
    done = subprocess.run([alula, "dump", *options, str(pid)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def variables(frame):
    return {v["name"]: (v["type"], v["value"]) for v in frame["locals"]}


@pytest.mark.parametrize("name", sorted(ALL, key=version_of))
def test_variables(name, tools):
    with started(ALL[name], PROGRAMS / "variables.py") as child:
        settle(child.pid)
        (process,) = json.loads(dump(child.pid, "--json", "--locals"))["processes"]
        text = dump(child.pid, "--locals")
        (without,) = json.loads(dump(child.pid, "--json"))["processes"]
        spins = [next(t for t in json.loads(dump(child.pid, "--json", "-l"))["processes"][0]["threads"] if t["name"] == "spin")
                 for _ in range(20)]
    main = next(t for t in process["threads"] if t["main"])
    deepest, leaf, module = main["frames"]
    assert (deepest["function"], leaf["function"]) == ("deepest", "leaf")
    assert variables(deepest) == {"level": ("int", "5"), "total": ("int", "47"), "cell": ("int", "42")}
    assert variables(leaf) == EXPECTED
    assert module["locals"] == []
    assert "        numbers: list = [0, 1, 2, 3, ... of 100]\n" in text and "secret" not in text and "abcdef" not in text
    assert not any("locals" in frame for thread in without["threads"] for frame in thread["frames"])
    for frame in (f for thread in spins for f in thread["frames"] if f["locals"] and f["function"] in ("one", "spin")):
        got = variables(frame)
        assert set(got) <= ({"n", "name", "pair"} if frame["function"] == "one" else {"n", "one"})
        if got.get("pair", ("", None))[1]: # what is told of a function that is called again and again belongs together
            assert got["pair"][1] == f"({got['n'][1]}, {got['name'][1]})"
