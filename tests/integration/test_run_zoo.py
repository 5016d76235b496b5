# SPDX-License-Identifier: Apache-2.0
"""alula run on programs with one known fault each, and on the same programs without it (bench/zoo)."""

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.plain  # the job loads the probe, and has no sanitizer

TRAIN = pathlib.Path(__file__).resolve().parents[2] / "bench" / "zoo" / "train.py"


def findings(alula_bin, folder, *args):
    got = subprocess.run([alula_bin, "run", "--output-dir", str(folder), "--", sys.executable, str(TRAIN), *args],
                         capture_output=True, text=True, timeout=120)
    assert got.returncode == 0, got.stderr
    report = json.loads((folder / "metrics_report.json").read_text())["alula"]
    return {v["rule"]: v for v in report["verdicts"] if v["verdict"] == "finding"}


@pytest.mark.parametrize("fault, rule", [("tokenise_in_collate", "data_wait"), ("slow_worker", "data_wait"),
                                         ("checkpoint_inside", "save"), ("checkpoint_between", "save"),
                                         ("logging_between", "between_steps")])
def test_each_fault_has_one_finding(alula_bin, tmp_path, fault, rule):
    found = findings(alula_bin, tmp_path, "--fault", fault, "--steps", "80")
    assert list(found) == [rule]
    assert found[rule]["advice"]


def test_kept_host_memory_is_found(alula_bin, tmp_path):
    found = findings(alula_bin, tmp_path, "--fault", "host_leak", "--steps", "500", "--width", "768", "--batch", "128")
    assert list(found) == ["host"]  # and it is not taken back at the end, when the job lets go of everything


@pytest.mark.parametrize("fault", ["checkpoint_between", "host_leak"])
def test_twins_without_the_fault_are_quiet(alula_bin, tmp_path, fault):
    assert findings(alula_bin, tmp_path, "--fault", fault, "--steps", "300", "--width", "768", "--batch", "128", "--twin") == {}
