# SPDX-License-Identifier: Apache-2.0
"""Native frames merged with Python's, on each interpreter: its loop is found where it has no name, too (Debian's builds from 3.13
on), and each of its runs gets its Python frames."""

import ctypes.util
import json
import subprocess
import time

import pytest

from conftest import ALL, PROGRAMS, started

pytestmark = pytest.mark.skipif(not ctypes.util.find_library("dw"), reason="libdw (elfutils) is not installed")


def dumped(alula, pid, *options):
    done = alula("dump", "--json", "--native", *options, pid)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {thread["name"]: thread for thread in json.loads(done.stdout)["processes"][0]["threads"]}


def functions(thread):
    return [frame["function"] for frame in thread["frames"] if frame["kind"] == "python"]


@pytest.mark.parametrize("options", [[], ["--blocking"]], ids=["nonblocking", "blocking"])
@pytest.mark.parametrize("name", ALL)
def test_callbacks(name, options, alula):
    left, seen = None, {}
    with started(ALL[name], PROGRAMS / "callbacks.py", stdin=subprocess.PIPE) as child:
        for _ in range(20):  # one that moved between the two readings is Python alone: another time
            threads = dumped(alula, child.pid, *options)
            for thread in threads.values():
                expected = child.said.get(thread["name"], ["<module>"])
                if thread["native"] == "merged" and functions(thread)[:len(expected)] == expected:
                    seen[thread["name"]] = thread
            left = {n: threads[n] for n in threads if n not in seen}
            if not left:
                break
            time.sleep(0.1)
    assert not left and set(child.said) <= set(seen), left
    for thread in seen.values():
        kinds = [frame["kind"] for frame in thread["frames"]]
        if thread["name"] in ("sleeps", "locked", "sorts", "nests"):
            assert kinds[0] == "native", thread  # the system call that it waits in
        assert kinds[-1] == "python", thread  # how it was started is not told
