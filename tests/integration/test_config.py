# SPDX-License-Identifier: Apache-2.0
"""The config file as users meet it: alula check-config, and what watch makes of it."""

import re

import pytest
import yaml

import scenes


@pytest.fixture
def check(alula, tmp_path):
    def run(text, *args):
        path = tmp_path / "alula.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return alula("check-config", *args, path)

    return run


def test_print_is_a_config_with_every_setting(alula, check, root):
    out = alula("check-config", "--print").stdout
    printed = {(section, key) for section, keys in yaml.safe_load(out).items() for key in keys}
    headers = (root / "src/detect/settings.h").read_text() + (root / "src/config/texts.h").read_text()
    table = re.findall(r"^    X\((\w+), (\w+), ", headers, re.M)
    assert printed == set(table) and len(table) == len(set(table)) > 40
    assert all(re.search(r"  # \w", line) for line in out.splitlines() if line.startswith("  "))
    assert check(out).stdout.endswith("alula.yaml: fine\n")
    assert check(out, "--print").stdout == out


def test_only_what_is_named_changes(alula, check):
    default = alula("check-config", "--print").stdout.splitlines()
    got = check("memory:\n  used_above: 85 %\n  window: 2min\nlink: {enabled: false}\n", "--print").stdout.splitlines()
    changed = [(a.split("  #")[0], b.split("  #")[0]) for a, b in zip(default, got) if a != b]
    assert changed == [("  used_above: 90%", "  used_above: 85%"), ("  window: 1min", "  window: 2min"),
                       ("  enabled: true", "  enabled: false")]


def test_empty_file_is_fine(check):
    for text in ("", "# nothing\n", "---\n", "memory: {}\n"):
        assert check(text).returncode == 0, text


@pytest.mark.parametrize("text, place, words", [
    ("memory:\n  used_abov: 90%\n", "2:3", ["used_abov", "used_above"]),
    ("memroy:\n  used_above: 90%\n", "1:1", ["memroy", "memory"]),
    ("memory:\n  used_above: 90 C\n", "2:15", ["used_above"]),
    ("sampling:\n  interval: 500\n", "2:13", ["interval"]),
    ("sampling:\n  interval: 10ms\n", "2:13", ["interval"]),
    ("memory:\n  used_above: 120%\n", "2:15", ["used_above"]),
    ("memory:\n  used_above: 90%\n  used_above: 80%\n", "3:3", ["used_above"]),
    ("memory:\n  used_above: [1, 2]\n", "2:15", []),
    ("link:\n  enabled: perhaps\n", "2:12", ["enabled"]),
    ("memory: 3\n", "1:9", []),
    ("- a\n- b\n", "1:1", []),
    ("memory:\n\tused_above: 1\n", "2:1", []),
    ("memory: {\n", None, []),
    ("memory:\n  slope_above: nan\n", "2:16", ["slope_above"]),
    ("memory:\n  slope_above: 1e400MiB/s\n", "2:16", ["slope_above"]),
    ("inefficient:\n  utilization_below: 50%\n  utilization_clear: 20%\n", None,
     ["inefficient.utilization_clear", "utilization_below"]),
])
def test_mistakes_have_their_place(check, text, place, words):
    got = check(text)
    assert (got.returncode, got.stdout) == (2, "")
    assert got.stderr.count("\n") == 1
    match = re.fullmatch(r"alula: \S+/alula\.yaml:(?:(\d+:\d+):)? (.+)\n", got.stderr)
    assert match, got.stderr
    if place:
        assert match[1] == place, got.stderr
    for word in words:
        assert word in match[2], got.stderr


def test_hostile_bytes_do_not_reach_the_terminal(check):
    got = check(b"mem\x1b[2Jory:\n  x: 1\n")
    assert got.returncode == 2 and "\x1b" not in got.stderr and got.stderr.count("\n") == 1
    got = check(b"\xff\xfe\x00\x01" * 50)
    assert got.returncode == 2 and got.stderr.count("\n") == 1


def test_files_that_are_none(alula, tmp_path):
    got = alula("check-config", tmp_path / "missing.yaml")
    assert got.returncode == 5 and got.stderr == f"alula: {tmp_path}/missing.yaml: no such file, process or device\n"
    assert alula("check-config").returncode == 2
    assert alula("check-config", "a", "b").returncode == 2
    big = tmp_path / "big.yaml"
    big.write_text("# " + "x" * (1 << 20) + "\n")
    got = alula("check-config", big)
    assert got.returncode == 6 and got.stderr.count("\n") == 1


def test_watch_refuses_a_bad_config_before_it_starts(alula, tmp_path):
    scene, config = tmp_path / "scene.txt", tmp_path / "alula.yaml"
    scene.write_text(scenes.busy(1, "1s"))
    config.write_text("sampling:\n  intervall: 1s\n")
    got = alula("watch", "--config", config, "--source", f"scenario:{scene}", "--speed", 0)
    assert (got.returncode, got.stdout) == (2, "") and f"{config}:2:3: " in got.stderr


def test_thresholds_are_in_force(alula, tmp_path):
    """The documents' rule, literally: 5 ticks under 20 %; then others by config."""
    scene, config = tmp_path / "scene.txt", tmp_path / "alula.yaml"
    scene.write_text(scenes.idle("20s").replace("utilization_ratio=3%", "utilization_ratio=25%"))

    def count(text):
        config.write_text(text)
        out = alula("watch", "--config", config, "--source", f"scenario:{scene}", "--speed", 0, "--quiet").stdout
        return len(re.findall("info: running inefficiently", out)), re.findall(r"\((\d+) ticks under", out)[:1]

    assert count("") == (0, [])
    assert count("inefficient:\n  utilization_below: 26%\n") == (1, ["5"])
    assert count("inefficient:\n  utilization_below: 26%\n  ticks: 10\n")[1] == ["10"]
    assert count("inefficient:\n  utilization_below: 26%\n  enabled: false\n") == (0, [])


def test_interval_of_the_config(alula, tmp_path):
    """Of the scenario, unless an option names another."""
    scene, config = tmp_path / "scene.txt", tmp_path / "alula.yaml"
    scene.write_text(scenes.busy(1, "4s").replace("interval 500ms\n", "interval 1s\n"))
    config.write_text("sampling:\n  interval: 2s\n")
    lines = lambda *args: alula("watch", "--source", f"scenario:{scene}", "--speed", 0, *args).stdout.count("GPU 0")
    assert lines() == 5
    assert lines("--interval", "2s") == 3
