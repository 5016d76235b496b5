# SPDX-License-Identifier: Apache-2.0
"""`python -m alula` and the console script: the C program takes this process's place, so that no Python stays behind."""

import os
import sys

from alula import _place


def main() -> int:
    path = _place.program()
    if path is None:
        sys.stderr.write("alula: the program is not here: install the wheel (pip install alula) or the package alula\n")
        return 127
    try:
        os.execv(path, ["alula", *sys.argv[1:]])
    except OSError as error:
        sys.stderr.write("alula: %s cannot be started: %s\n" % (path, error.strerror))
        return 126


if __name__ == "__main__":
    sys.exit(main())
