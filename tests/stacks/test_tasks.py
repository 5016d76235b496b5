# SPDX-License-Identifier: Apache-2.0
"""asyncio's tasks as alula dump tells them, in every interpreter that tells of them."""

import json

import pytest

from conftest import ALL, PROGRAMS, settle, started, version_of
from test_locals import dump

NAMES = sorted(ALL, key=version_of)


def functions(task):
    return [frame["function"] for frame in task["frames"]]


@pytest.mark.parametrize("name", NAMES)
def test_tasks(name, tools):
    with started(ALL[name], PROGRAMS / "tasks.py") as child:
        settle(child.pid)
        (process,) = json.loads(dump(child.pid, "--json"))["processes"]
        text = dump(child.pid)
    assert process["tasks_missing"] is None
    threads = {t["name"]: t for t in process["threads"]}
    tasks = {t["name"]: t for t in process["tasks"]}
    loops = {t["name"]: [n for n in tasks if tasks[n]["thread"] == t["tid"]] for t in process["threads"]}
    roots = {kind: next(n for n in loops[kind] if n.startswith("Task-")) for kind in ("MainThread", "second")}
    assert {kind: set(names) for kind, names in loops.items()} == {
        "MainThread": {roots["MainThread"], "parent", "child", "counts", "runs", "late"}, "second": {roots["second"], "other child"}}
    awaited = {n: [by["name"] for by in task["awaited_by"]] for n, task in tasks.items()}
    assert awaited == {roots["MainThread"]: [], "parent": [roots["MainThread"]], "counts": [roots["MainThread"]],
                       "runs": [roots["MainThread"]], "child": ["parent"], "late": [], roots["second"]: [],
                       "other child": awaited["other child"]}
    assert functions(tasks["child"]) == ["sleep", "deep", "deep", "deep", "child"]
    assert functions(tasks["parent"]) == ["parent"] and tasks["parent"]["waits_for"].endswith("Task")
    assert functions(tasks["counts"]) == ["sleep", "numbers", "counts"] and tasks["counts"]["waits_for"].endswith("Future")
    assert functions(tasks["late"]) == ["never"] and tasks["late"]["waits_for"] is None
    assert functions(tasks[roots["MainThread"]]) == ["main"]
    assert [n for n, task in tasks.items() if task["running"]] == ["runs"] and not any(t["moved"] for t in tasks.values())
    assert tasks["runs"]["frames"] == [] and threads["MainThread"]["task"] == "runs" and threads["second"]["task"] is None
    source = (PROGRAMS / "tasks.py").read_text().splitlines()
    for frame in tasks["child"]["frames"][1:]:
        assert "await deep(" in source[frame["line"] - 1] or "await asyncio.sleep" in source[frame["line"] - 1]
    lines = text.splitlines()
    border = next(i for i, line in enumerate(lines) if line == f'    -- task "runs", awaited by "{roots["MainThread"]}"')
    assert lines[border - 1].endswith(" runs") and lines[border + 1].endswith("_run")
    assert f'    task "child", awaited by "parent", awaited by "{roots["MainThread"]}": waits for _asyncio.Future' in lines


@pytest.mark.parametrize("name", NAMES)
def test_without_asyncio(name, tools):
    with started(ALL[name], PROGRAMS / "variables.py") as child:
        (process,) = json.loads(dump(child.pid, "--json"))["processes"]
    assert process["tasks"] == [] and process["tasks_missing"] is None
    assert all(t["task"] is None for t in process["threads"])


@pytest.mark.parametrize("name", NAMES)
def test_tasks_that_come_and_go(name, tools):
    """Whatever is told then is of this program."""
    with started(ALL[name], PROGRAMS / "churn.py") as child:
        settle(child.pid)
        dumps = [json.loads(dump(child.pid, "--json"))["processes"][0] for _ in range(10)]
    told = [task for process in dumps for task in process["tasks"]]
    assert told
    known = {"leaf", "inner", "outer", "main", "sleep", "__sleep0"}
    whole = [functions(task) for task in told if not task["moved"]]
    assert all(set(stack) <= known for stack in whole)
    for stack in whole:  # and each goes on from what called it
        assert stack in ([], ["main"], ["outer"], ["inner"], ["leaf", "inner"], ["sleep", "leaf", "inner"],
                         ["__sleep0", "sleep", "leaf", "inner"]), stack
