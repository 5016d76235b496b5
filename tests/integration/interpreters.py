# SPDX-License-Identifier: Apache-2.0
"""The CPython interpreters of this machine, and programs that they can be attached to in."""

import glob
import os
import re
import subprocess
import sys


def _version(path):
    try:
        text = subprocess.run([path, "-c", "import sys; print(sys.version_info[:2], sys.implementation.name)"], timeout=30,
                              capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.match(r"\((\d+), (\d+)\) cpython", text)
    return (int(found[1]), int(found[2])) if found else None


def find():
    """One of each (version, path) from 3.8 on: this one, the system's, those on PATH and those of pyenv."""
    places = [sys.executable, "/usr/bin/python3", *sorted(glob.glob("/usr/bin/python3.*[0-9]")),
              *sorted(glob.glob("/usr/local/bin/python3.*[0-9]")), *sorted(glob.glob("/opt/python/*/bin/python3")),
              *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")))]
    found, seen = [], set()
    for path in places:
        real = os.path.realpath(path)
        version = _version(path) if os.access(path, os.X_OK) and real not in seen else None
        seen.add(real)
        if version and version >= (3, 8):
            found.append((version, path))
    return sorted(found)


ALL = find()
IDS = ["%d.%d-%d" % (*version, i) for i, (version, _) in enumerate(ALL)]
PATHS = [path for _, path in ALL]
