# SPDX-License-Identifier: Apache-2.0
"""Memory that comes back as something else: a stack never holds what its addresses used to mean."""

import pytest

from conftest import ALL, PROGRAMS, started, version_of

NAMES = sorted(ALL, key=version_of)
CIRCLES = [name for name in ("3.9", "3.11", "3.12") if name in ALL]  # with ctypes


def numbers(frames):
    """What the functions that were made anew are numbered; all frames of such a file are of one function."""
    made = [f for f in frames if f["file"].startswith("file_")]
    assert all(f["name"].split("_")[1:] == f["file"].split("_")[1:] for f in made)
    return [(f["name"].split("_")[0], int(f["file"].split("_")[1])) for f in made]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spins", [[0.002], [0, 0.0005, 0.006, 0.03, 0.12]], ids=["short", "mixed"])
def test_code_objects_in_each_others_places(name, spins, sample):
    with started(ALL[name], PROGRAMS / "recode.py", *spins) as child:
        samples, end, failed = sample(child.pid, samples=600, every_us=1000, what="")
    assert not failed
    last, kinds = 0, set()
    for frames in (threads[0]["frames"] for threads in samples):
        made = numbers(frames)
        assert len({number for _, number in made}) <= 1, made
        for _, number in made:
            assert number >= last, "one that had ended"
            last = number
        kinds.update(made)
    # A sampler that keeps to what it first read has one or two.
    assert len(kinds) > 20
    assert end["unstable"] < 0.2 * end["threads"]


@pytest.mark.parametrize("name", NAMES)
def test_frames_in_each_others_places(name, sample):
    with started(ALL[name], PROGRAMS / "chains.py") as child:
        samples, end, failed = sample(child.pid, samples=4000, every_us=20, what="")
        lines = child.said
    assert not failed
    torn = turning = 0
    for thread in (threads[0] for threads in samples):
        names = [f["name"] for f in thread["frames"]]
        turning = turning or "turns" in names
        frames = [f for f in thread["frames"] if f["file"] == "made" and f["name"] != "__init__"]
        torn += len({f["name"].split("_")[1] for f in frames if "_" in f["name"]}) > 1
        assert thread["status"] in ("ok", "unstable")
        if turning and thread["status"] == "ok":
            # Whatever a generator hangs on while it is entered or left: a whole stack has its root.
            assert names[-2:] == ["turns", "<module>"], names
            torn += len(frames) > 1 and lines[frames[-2]["name"]] != frames[-1]["line"]
    assert turning
    print(f"{name}: {torn} torn, {end['unstable']} unstable of {end['threads']}")
    assert torn <= 0.005 * len(samples)


@pytest.mark.parametrize("name", CIRCLES)
def test_a_thread_is_listed_once(name, sample):
    with started(ALL[name], PROGRAMS / "circle.py") as child:
        samples, _, failed = sample(child.pid, samples=300, every_us=100, what="")
    assert not failed
    for threads in samples:
        assert sorted(t["id"] for t in threads) == sorted({t["id"] for t in threads})
        assert all(f["name"] in ("deeper", "work", "run", "_bootstrap", "_bootstrap_inner", "wait", "<module>")
                   for t in threads for f in t["frames"])


@pytest.mark.parametrize("name", [name for name in NAMES if version_of(name) >= (3, 14)])
def test_a_thread_that_began_has_not_its_makers_name(name, sample):
    """From 3.14 on Python's name of a thread is also the system's, which those that it makes have at first."""
    with started(ALL[name], PROGRAMS / "begin.py") as child:
        samples, _, failed = sample(child.pid, samples=1500, every_us=300, what="state names")
    assert not failed
    working = [(t["name"], f["name"]) for threads in samples for t in threads for f in t["frames"] if f["name"].startswith("work_")]
    makers = sum(thread == "maker" for thread, _ in working)
    print(f"{name}: {makers} of {len(working)} with their maker's name")
    # The list of threads and their stacks are not of one moment.
    assert len(working) > 20 and makers <= 0.005 * len(working) + 1
