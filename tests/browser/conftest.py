# SPDX-License-Identifier: Apache-2.0
"""A real browser and real viewers on what alula profile writes (make browser)."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
import chromium  # noqa: E402


@pytest.fixture(scope="session")
def alula_bin():
    value = os.environ.get("ALULA_BIN")
    if not value:
        pytest.exit("ALULA_BIN is not set; run these tests with `make browser`", returncode=2)
    return pathlib.Path(value)


@pytest.fixture(scope="session")
def speedscope():
    return pathlib.Path(os.environ["ALULA_SPEEDSCOPE"]) / "package/dist/release/index.html"


@pytest.fixture
def browser(tmp_path):
    with chromium.Browser(tmp_path / "chromium") as browser:
        yield browser
        assert browser.errors == []
        # Nothing but the file that was opened: no network.
        assert all(url.startswith(("file://", "data:")) for url in browser.requests)
