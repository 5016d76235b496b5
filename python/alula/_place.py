# SPDX-License-Identifier: Apache-2.0
"""Where the program and libalula.so lie: in the wheel below _prefix/, otherwise wherever they were installed to."""

import glob
import os
import shutil
from typing import Iterator, Optional

_PREFIX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_prefix")


def program() -> Optional[str]:
    """The path of the C program, or None. A console script that starts this package is passed over: it would start itself."""
    bundled = os.path.join(_PREFIX, "bin", "alula")
    if os.path.exists(bundled):
        return bundled
    for folder in os.get_exec_path():
        found = shutil.which("alula", path=folder)
        if found and _is_elf(found):
            return found
    return None


def library() -> str:
    """What ctypes.CDLL is given: the wheel's libalula.so, otherwise the name that the loader looks up."""
    bundled = os.path.join(_PREFIX, "lib", "libalula.so.0")
    return bundled if os.path.exists(bundled) else "libalula.so.0"


def libraries() -> Iterator[str]:
    """All that may be tried in turn: ALULA_LIBRARY alone if it is set, else library(), else beside the program, whose prefix
    the loader may not know."""
    told = os.environ.get("ALULA_LIBRARY")
    if told:
        yield told
        return
    yield library()
    path = program()
    if path:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(path)))
        yield from sorted(glob.glob(os.path.join(prefix, "lib*", "libalula.so.0")))
        yield from sorted(glob.glob(os.path.join(prefix, "lib", "*", "libalula.so.0")))


def _is_elf(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False
