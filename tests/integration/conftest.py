# SPDX-License-Identifier: Apache-2.0
"""What every whole-command test needs: where the build is, and a way to run alula on a scenario."""

import os
import pathlib
import subprocess

import pytest

import procs

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _from_env(name):
    value = os.environ.get(name)
    if not value:
        pytest.exit(f"{name} is not set; run the suite with `make test` or `make integration`", returncode=2)
    return pathlib.Path(value)


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return _from_env("ALULA_BUILD")


@pytest.fixture(scope="session")
def alula_bin():
    return _from_env("ALULA_BIN")


@pytest.fixture(scope="session")
def standin():
    """The stand-in driver, libnvidia-ml.so.1."""
    return _from_env("ALULA_STANDIN")


@pytest.fixture(scope="session")
def scenarios():
    return ROOT / "tests" / "scenarios"


@pytest.fixture
def open_path():
    with procs.open_folder() as folder:
        yield folder


@pytest.fixture
def alula(alula_bin):
    """alula("stat", "--json", env={…}) runs the binary and returns the CompletedProcess, text decoded as UTF-8."""

    def run(*args, env=None, timeout=30, **kwargs):
        full_env = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
        return subprocess.run([str(alula_bin), *map(str, args)], env=full_env, timeout=timeout,
                              capture_output=True, encoding="utf-8", errors="replace", check=False, **kwargs)

    return run
