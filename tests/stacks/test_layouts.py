# SPDX-License-Identifier: Apache-2.0
"""The committed tables against the headers that are here."""

import glob
import os
import pathlib
import platform
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_tables_agree_with_the_headers():
    places = glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/include/python3.*")) + glob.glob("/usr/include/python3.*")
    headers = [p for p in sorted(places) if re.search(r"python3\.(8|9|10|11|12)$", p) and os.path.exists(p + "/Python.h")]
    if not headers:
        pytest.skip("no headers of CPython 3.8 to 3.12 here")
    # Patch releases may differ in what is not used; a difference in what is used shows here.
    done = subprocess.run([ROOT / "tools/layouts", "--check", f"{platform.machine()}=gcc:{headers[0]}", *headers[1:]],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
