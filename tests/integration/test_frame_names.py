# SPDX-License-Identifier: Apache-2.0
"""The functions by which stacks are told apart (src/detect/frames.c) are there in the packages that are installed."""

import importlib.util
import pathlib
import re

import pytest

ROW = re.compile(r'\{AL_LOOK_KIND_(\w+), (\w+), "([^"]*)", (NULL|COLLECTIVES|"[^"]*")\}')
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "triton")


def rows(root):
    text = (root / "src" / "detect" / "frames.c").read_text()
    names = re.search(r"#define COLLECTIVES(.*?)\n\n", text, re.S)[1]
    collectives = " ".join(re.findall(r'"([^"]*)"', names))
    for kind, _, file, functions in ROW.findall(text):
        yield kind, file, collectives if functions == "COLLECTIVES" else None if functions == "NULL" else functions.strip('"')


def place(package):
    spec = importlib.util.find_spec(package)
    return spec and spec.origin and pathlib.Path(spec.origin).parent


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_there(root, package):
    folder = place(package)
    if not folder:
        pytest.skip(f"{package} is not installed")
    found = 0
    for kind, file, functions in rows(root):
        if not file.startswith(package + "/"):
            continue
        path = folder.parent / file
        assert path.exists(), f"{kind}: {file}"
        text = path.read_text(encoding="utf-8")
        if functions and "<genexpr>" not in functions:
            there = [name for name in functions.split()
                     if re.search(rf"\b(def|class) {re.escape(name)}\b|^{re.escape(name)} = ", text, re.M)]
            assert there, f"{kind}: none of {functions} in {file}"
        found += 1
    assert found >= 1


def test_the_table_is_read(root):
    assert len(list(rows(root))) >= 50
