# SPDX-License-Identifier: Apache-2.0
"""speedscope's own app opens what alula profile writes: its own format, folded stacks, pprof and trace events."""

import base64
import collections
import json
import re
import subprocess
import sys

import pytest

import test_profile
from test_dump import running


@pytest.fixture(scope="session")
def files(alula_bin, tmp_path_factory):
    folder = tmp_path_factory.mktemp("speedscope")
    program = folder / "shares.py"
    program.write_text(test_profile.SHARES)
    out = {}
    with running(sys.executable, program, 60, patience=0) as process:
        for ending in ("json", "folded", "pb.gz", "trace.json"):
            out[ending] = folder / f"out.{ending}"
            subprocess.run([alula_bin, "profile", str(process.pid), "-o", out[ending], "-d", "3s", "--rate", "200", "--quiet"], check=True)
    return out


def share_in(path, ending, name):
    """Of the time that a file tells of, how much is in a function and what it called."""
    if ending == "folded":
        return test_profile.shares(test_profile.folded(path))[name]
    if ending == "json":
        document = json.loads(path.read_text())
        number = [frame["name"] for frame in document["shared"]["frames"]]
        profile = document["profiles"][document["activeProfileIndex"]]
        return sum(weight for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
                   if name in [number[frame] for frame in sample]) / profile["endValue"]
    if ending == "pb.gz":
        profile = test_profile.read_pprof(path)
        functions = {f.id for f in profile.function if profile.string_table[f.name] == name}
        locations = {place.id for place in profile.location if place.line[0].function_id in functions}
        return sum(s.value[0] for s in profile.sample if locations & set(s.location_id)) / sum(s.value[0] for s in profile.sample)
    lasted, open_spans = collections.Counter(), []
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "B":
            open_spans.append(event)
        elif event["ph"] == "E":
            begun = open_spans.pop()
            lasted[begun["name"]] += event["ts"] - begun["ts"]
            lasted["all"] += 0 if open_spans else event["ts"] - begun["ts"]
    return lasted[name] / lasted["all"]


@pytest.mark.parametrize("ending", ["json", "folded", "pb.gz", "trace.json"])
def test_opens(browser, speedscope, files, tmp_path, ending):
    # As its command line hands files over.
    script, data = tmp_path / "file.js", base64.b64encode(files[ending].read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(files[ending].name)}, {json.dumps(data)})")
    browser.open(f"file://{speedscope}#localProfilePath={script}&view=sandwich")
    rows = browser.wait(lambda: browser.evaluate("[...document.querySelectorAll('tr')].map(row => [...row.children].map(cell => cell.textContent))"))
    # Total and self with their shares, and the name, which for trace events has the arguments behind it.
    found = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        for which, cell in enumerate(row[:2]):
            share = re.search(r"([\d.]+)%", cell)
            found[row[2].split(" ")[0]][which] += float(share[1]) / 100 if share else 0  # lines of one function
    assert max(found, key=lambda name: found[name][1]) == "spin"
    for name in ("seventy", "thirty", "<module>"):
        assert found[name][0] == pytest.approx(share_in(files[ending], ending, name), abs=0.02)
    assert found["seventy"][0] > 0.3
