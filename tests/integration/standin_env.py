# SPDX-License-Identifier: Apache-2.0
"""How a test makes a program find the stand-in driver instead of a real one."""

import os

HEAD = "alula scenario 1\ndriver 580.159.04\nnvml 13.580.159.04\ncuda 13.0\n"


def standin_env(standin, scenario, **extra):
    """The environment in which a program that loads libnvidia-ml.so.1 gets the stand-in, playing `scenario`."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": str(standin.parent), "ALULA_SCENARIO": str(scenario),
            "TERM": "xterm", "COLUMNS": "120", **{key: str(value) for key, value in extra.items()}}
