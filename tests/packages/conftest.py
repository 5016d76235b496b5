# SPDX-License-Identifier: Apache-2.0
"""What `make packages` built, and the places where it is installed."""

import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))


def _one(pattern):
    value = os.environ.get("ALULA_DIST")
    if not value:
        pytest.exit("ALULA_DIST is not set; run these tests with `make packages`", returncode=2)
    found = sorted(pathlib.Path(value).glob(pattern), key=lambda path: path.stat().st_mtime)
    assert found, f"{value} has no {pattern}"
    return found[-1]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)


@pytest.fixture(scope="session")
def build():
    return pathlib.Path(os.environ["ALULA_BUILD"])


@pytest.fixture(scope="session")
def wheel():
    return _one("*.whl")


@pytest.fixture(scope="session")
def deb():
    return _one("*.deb")
