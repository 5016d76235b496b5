# SPDX-License-Identifier: Apache-2.0
"""Every shape of stack in every interpreter: names, lines and columns as the program itself tells them."""

import collections

import pytest

from conftest import ALL, PROGRAMS, PYTHONS, REQUIRED, settle, started, version_of

NAMES = sorted(ALL, key=version_of)
each = pytest.mark.parametrize("name", NAMES)


# Versions that are here as such: a build for musl or for debugging stands for itself alone.
PLAIN = {name.rpartition("-")[2] for name in ALL if not name.startswith(("musl-", "debug-"))}


def test_required_interpreters_are_here():
    missing = PYTHONS / "missing"
    assert not set(REQUIRED) - PLAIN, missing.read_text() if missing.exists() else "run tools/pythons"


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.13t", "3.14t", "3.15t",
                                     "musl-3.11", "musl-3.12", "musl-3.13", "musl-3.14t", "musl-3.15", "debug-3.9", "debug-3.14"])
def test_had(version):
    if version not in {*ALL, *PLAIN}:
        pytest.skip(f"no CPython {version} is to be had here")


def check_shapes(name, sample, env=None):
    with started(ALL[name], PROGRAMS / "shapes.py", env=env) as child:
        samples, end, failed = sample(child.pid, samples=3)
        assert not failed
        expected = child.said
    assert end["table"] == (version_of(name) < (3, 13))
    assert end["free_threaded"] == version_of(name)[2]
    for threads in samples[0], samples[-1]:
        by_name = {t["name"]: t for t in threads}
        assert by_name["MainThread"]["main"]
        for shape, stack in expected.items():
            thread = by_name["shape " + shape]
            frames = thread["frames"]
            assert thread["status"] == "ok" and not thread["truncated"] and thread["tid"] and thread["idle"], shape
            assert not any(f["degraded"] for f in frames), shape
            assert frames[0]["name"] == "leaf", shape
            assert [[f["file"], f["name"], f["qualname"], f["first"], f["line"]] for f in frames[1:]] == \
                [frame[:5] for frame in stack], shape
            for frame, (*_, (line, end_line, column, end_column)) in zip(frames[1:], stack):
                if column is not None:
                    assert (frame["line"], frame["end_line"], frame["column"], frame["end_column"]) == \
                        (line, end_line, column, end_column), shape
            assert frames[-1]["entry"]
    # Threads that did not run between samples are not read again.
    assert end["unchanged"] >= len(expected)


@each
def test_shapes(name, sample):
    check_shapes(name, sample)


@each
def test_gil(name, sample):
    with started(ALL[name], PROGRAMS / "gil.py") as child:
        settle(child.pid)
        samples, _, failed = sample(child.pid, samples=200, every_us=3000)
    assert not failed
    if version_of(name)[2]:
        assert all(t["holds"] is None for threads in samples for t in threads)
        return
    holders = [sum(t["holds"] is True for t in threads) for threads in samples]
    assert max(holders) == 1 and sum(holders) > 150
    spinning = collections.Counter("holds" if t["holds"] else "waits" if t["waits"] else "else"
                                   for threads in samples for t in threads if t["name"].startswith("spin"))
    assert spinning["waits"] > 150 and spinning["holds"] > 150
    assert not any(t["holds"] or t["waits"] for threads in samples for t in threads if t["main"])


@each
def test_gil_only(name, sample):
    with started(ALL[name], PROGRAMS / "gil.py") as child:
        settle(child.pid)
        samples, _, _ = sample(child.pid, samples=50, every_us=1000, what="gil names")
    for threads in samples:
        walked = [t for t in threads if t["status"] != "left out"]
        assert len(walked) <= 1 and all(t["name"].startswith("spin") for t in walked)


@each
def test_thousands_of_threads(name, sample):
    with started(ALL[name], PROGRAMS / "many.py", 2000) as child:
        settle(child.pid)
        samples, end, failed = sample(child.pid, samples=4)
    assert not failed
    for threads in samples:
        assert len({t["name"] for t in threads if t["name"].startswith("t") and t["name"][1:].isdigit()}) == 2000
        waiting = [t for t in threads if t["status"] == "ok" and any(f["name"] == "wait" for f in t["frames"])]
        assert len(waiting) >= 2000
    assert end["unchanged"] > 2000


@each
def test_sub_interpreters(name, sample):
    with started(ALL[name], PROGRAMS / "interps.py") as child:
        samples, _, failed = sample(child.pid)
    assert not failed
    inside = {t["interp"] for t in samples[0] if any(f["name"] == "inside" for f in t["frames"])}
    assert len(inside) == 2 and 0 not in inside


def mixed(frames, one, two):
    names = {f["name"].partition("_")[0] for f in frames}
    return one in names and two in names


@each
def test_torn_stacks_of_realistic_code_are_rare(name, sample, record_property):
    with started(ALL[name], PROGRAMS / "realistic.py") as child:
        samples, end, failed = sample(child.pid, samples=5000, every_us=100, what="")
    assert not failed
    torn = sum(mixed(threads[0]["frames"], "one", "two") for threads in samples if threads[0]["status"] == "ok")
    record_property("torn", torn)
    record_property("unstable", end["unstable"])
    print(f"{name}: {torn} torn, {end['unstable']} unstable of {end['threads']}, {end['us']:.1f} us a sample")
    assert torn == 0
    assert end["unstable"] < 0.2 * end["threads"]
    assert end["unreadable"] == 0 and end["degraded"] == 0


@each
@pytest.mark.parametrize("depth", [10, 50])
def test_a_hostile_program_tears_few(name, depth, sample):
    with started(ALL[name], PROGRAMS / "flip.py", depth) as child:
        samples, end, failed = sample(child.pid, samples=4000, every_us=50, what="")
    assert not failed
    good = [threads[0] for threads in samples if threads[0]["status"] == "ok"]
    torn = sum(mixed(t["frames"], "a", "b") for t in good)
    print(f"{name}, depth {depth}: {torn} torn, {end['unstable']} unstable of {end['threads']}")
    assert torn <= max(0.005 * len(samples), 1)
    # What moved keeps the part that stood still.
    unstable = [threads[0] for threads in samples if threads[0]["status"] == "unstable" and threads[0]["frames"]]
    assert all(t["frames"][-1]["name"] == "<module>" for t in unstable)
