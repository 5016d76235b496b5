# SPDX-License-Identifier: Apache-2.0
"""alula run names the line of a job whose steps wait: live, in the report, and from the recording."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "zoo" / "train.py"


def run(alula_bin, folder, *args):
    got = subprocess.run([str(alula_bin), "run", "--output-dir", str(folder), *args], capture_output=True, text=True, timeout=180,
                         check=False)
    assert got.returncode == 0, got.stderr
    report = json.loads((folder / "metrics_report.json").read_text())["alula"]
    return got.stderr, next(v for v in report["verdicts"] if v["rule"] == "data_wait")


def test_a_slow_collator(alula_bin, alula, tmp_path):
    line = 1 + next(i for i, text in enumerate(TRAIN.read_text().splitlines()) if re.match(r"\s+spin\(a\.weight", text))
    told, verdict = run(alula_bin, tmp_path, "--", sys.executable, str(TRAIN), "--fault", "tokenise_in_collate", "--steps", "300")
    words = re.compile(rf"the main thread makes batches itself: \d+ % of samples in joined at train\.py:{line}, calling spin")
    assert verdict["verdict"] == "finding" and words.search(verdict["message"])
    assert {e["name"] for e in verdict["evidence"] if e["source"] == "stacks"} == {
        "stack_fetch_ratio", "stack_line_ratio", "stack_samples"}
    assert words.search(told)
    stored = alula("report", tmp_path / "run.alula")
    assert f"data_wait: finding: {verdict['message']}" in stored.stdout
    # The look itself is in the recording, too
    found = alula("watch", "--source", f"replay:{tmp_path / 'run.alula'}", "--speed", "0", "--quiet", "--record-scenario",
                  tmp_path / "run.txt")
    assert found.returncode == 0 and re.search(rf"^look \d+ .*function=joined .*line={line}", (tmp_path / "run.txt").read_text(), re.M)


def test_it_can_be_switched_off(alula_bin, tmp_path):
    told, verdict = run(alula_bin, tmp_path, "--no-stacks", "--", sys.executable, str(TRAIN), "--fault", "tokenise_in_collate",
                        "--steps", "60")
    assert verdict["verdict"] == "finding" and "samples" not in verdict["message"] and "samples in" not in told
