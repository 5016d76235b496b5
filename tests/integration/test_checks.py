# SPDX-License-Identifier: Apache-2.0
"""The checkers find what they are there for: each gets a small tree with one planted fault."""

import shutil
import subprocess

import pytest

LONG_BODY = "    x();\n" * 60


def run_check(root, name, tree):
    return subprocess.run([root / "tools" / name, tree], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path, root):
    (tmp_path / "tools").mkdir()
    shutil.copy(root / "tools" / "layers.txt", tmp_path / "tools")
    for folder in ("base", "model", "detect", "export"):
        (tmp_path / "src" / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("path, line, said", [
    ("src/model/x.c", '#include "detect/rule.h"', "model may not use detect"),
    ("src/base/x.h", '#include "model/gpu.h"', "base may not use model"),
    ("src/export/x.c", '#  include "device/device.h"', "export may not use device"),
    ("src/model/x.c", '#include "../base/err.h"', "not by a relative path"),
    ("src/model/x.c", '#include "nowhere/x.h"', "no known folder"),
])
def test_layers_finds_a_forbidden_include(tree, root, path, line, said):
    (tree / path).write_text(f"// comment\n{line}\n")
    result = run_check(root, "check-layers", tree)
    assert result.returncode == 1
    assert said in result.stdout


def test_layers_finds_a_page_that_says_otherwise(tree, root):
    (tree / "docs").mkdir()
    (tree / "docs" / "ARCHITECTURE.md").write_text("| level | folder | may include |\n|---|---|---|\n| 1 | model | base, detect |\n")
    result = run_check(root, "check-layers", tree)
    assert result.returncode == 1
    assert "model may use base detect there" in result.stdout
    assert "no row for cli" in result.stdout


def test_layers_accepts_allowed_includes(tree, root):
    (tree / "src/detect/x.c").write_text('#include "detect/rule.h"\n#include "model/gpu.h"\n#include <stdio.h>\n')
    assert run_check(root, "check-layers", tree).returncode == 0


@pytest.mark.parametrize("path, text, said", [
    ("src/base/long.c", "int x;\n" * 601, "601 lines, at most 600"),
    ("src/base/long.h", "int x;\n" * 151, "151 lines, at most 150"),
    ("src/base/fn.c", f"static int\nlong_one(int a,\n         int b)\n{{\n{LONG_BODY}}}\n", "long_one() is 65 lines"),
    ("src/base/fn.c", f"int table[] = {{\n    1,\n}};\nint one(void) {{\n{LONG_BODY}}}\n", "one() is 62 lines"),
])
def test_sizes_finds_what_is_too_long(tree, root, path, text, said):
    (tree / path).write_text(text)
    result = run_check(root, "check-sizes", tree)
    assert result.returncode == 1
    assert said in result.stdout


def test_sizes_leaves_data_tables_alone(tree, root):
    (tree / "src/base/table.c").write_text("static const int table[] = {\n" + "    1, // }\n" * 200 + "};\n"
                                           "struct s {\n" + "    int (*call)(void);\n" * 70 + "};\n")
    result = run_check(root, "check-sizes", tree)
    assert (result.returncode, result.stdout) == (0, "")
