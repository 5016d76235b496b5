# SPDX-License-Identifier: Apache-2.0
"""What all tests in Python share: they may run beside others of this machine, and must not meet them."""

import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def runtime():
    """A run-time folder of their own, so that the runs of others are not theirs, nor theirs those of others. Its path is short:
    that of a socket is limited."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="alula-tests-", ignore_cleanup_errors=True) as folder:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield folder
